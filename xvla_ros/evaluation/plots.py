"""Pictures of a run: poses, latencies, and the speed of the command at changes of chunk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xvla_ros.arm.constants import FINGER_LOWER, FINGER_UPPER
from xvla_ros.evaluation.metrics import speeds
from xvla_ros.evaluation.recording import Motion, Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = ("pose.png", "speed.png", "latency.png")
_COMMANDED = "#d1495b"
_MEASURED = "#00798c"
_SWITCH = "#9aa5b1"
# Commands arrive in bursts of the transport; over five periods the speed is that of the arm.
_WINDOW = 5


def write_all(folder: Path, recording: Recording, start: float, end: float) -> list[Path]:
    """Writes the plots of an episode from `start` to `end` (seconds) and of the whole run."""
    figures = (
        pose_figure(recording, start, end),
        speed_figure(recording, start, end),
        latency_figure(recording),
    )
    paths = []
    for name, figure in zip(FILES, figures, strict=True):
        path = folder / name
        figure.savefig(path, dpi=110)
        paths.append(path)
    return paths


def pose_figure(recording: Recording, start: float, end: float) -> Figure:
    """Commanded against measured position of the gripper, and its opening."""
    figure, axes = _figure(4, "Commanded and measured pose of the gripper")
    series = (
        ("commanded", recording.commanded.between(start, end), _COMMANDED),
        ("measured", recording.measured.between(start, end), _MEASURED),
    )
    for label, motion, colour in series:
        positions = motion.positions()
        for axis, column in zip(axes[:3], positions.T, strict=True):
            axis.plot(motion.times - start, 1000.0 * column, color=colour, label=label)
        axes[3].plot(motion.times - start, 1000.0 * motion.finger, color=colour)
    for axis, name in zip(axes, ("x", "y", "z", "finger"), strict=True):
        axis.set_ylabel(f"{name} [mm]")
    axes[3].set_ylim(1000.0 * FINGER_LOWER - 2.0, 1000.0 * FINGER_UPPER + 2.0)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=2)
    _mark_switches(axes, recording, start, end)
    axes[-1].set_xlabel("time in the episode [s]; grey lines: changes of chunk")
    return figure


def speed_figure(recording: Recording, start: float, end: float) -> Figure:
    """Speed of the command, with the changes of chunk marked."""
    figure, axes = _figure(1, "Speed of the commanded gripper", height=3.4)
    motion = recording.commanded.between(start, end)
    times, values = smoothed_speed(motion)
    axes[0].plot(times - start, 1000.0 * values, color=_COMMANDED)
    _mark_switches(axes, recording, start, end)
    axes[0].set_ylabel("speed [mm/s]")
    axes[0].set_ylim(bottom=0.0)
    axes[0].set_xlabel("time in the episode [s]; grey lines: changes of chunk")
    return figure


def latency_figure(recording: Recording) -> Figure:
    """Duration of inferences, and age of a chunk's observation when the chunk arrives."""
    figure, axes = _figure(1, "Latency of chunks", height=3.4)
    chunks = recording.chunks
    inference = np.array([c.inference_end - c.inference_start for c in chunks])
    arrival = np.array([c.received - c.stamp for c in chunks])
    largest = 1000.0 * max(arrival.max(initial=0.0), inference.max(initial=0.0), 1e-3)
    bins = np.linspace(0.0, 1.05 * largest, 60)
    axes[0].hist(1000.0 * inference, bins, color=_MEASURED, alpha=0.8, label="inference")
    axes[0].hist(1000.0 * arrival, bins, color=_COMMANDED, alpha=0.6, label="observation to chunk")
    axes[0].set_xlabel("[ms]")
    axes[0].set_ylabel("chunks")
    axes[0].legend(frameon=False)
    return figure


def smoothed_speed(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Times (m,) and speeds (m,) in m/s over windows of five command periods."""
    positions = motion.positions()
    if len(positions) <= _WINDOW:
        return np.zeros(0), np.zeros(0)
    travelled = np.concatenate([[0.0], np.cumsum(_steps(positions))])
    dt = motion.times[_WINDOW:] - motion.times[:-_WINDOW]
    middle = 0.5 * (motion.times[_WINDOW:] + motion.times[:-_WINDOW])
    return middle, (travelled[_WINDOW:] - travelled[:-_WINDOW]) / np.maximum(dt, 1e-6)


def _steps(positions: np.ndarray) -> np.ndarray:
    return speeds(np.arange(len(positions), dtype=np.float64), positions)


def _mark_switches(axes: list[Axes], recording: Recording, start: float, end: float) -> None:
    for time in recording.switches():
        if start <= time <= end:
            for axis in axes:
                axis.axvline(time - start, color=_SWITCH, linewidth=0.8, zorder=0)


def _figure(rows: int, title: str, height: float = 7.0) -> tuple[Figure, list[Axes]]:
    """A figure that needs no display and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(rows, 1, sharex=True)).tolist()
    axes[0].set_title(title, loc="left")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    return figure, axes
