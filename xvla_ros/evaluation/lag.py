"""How long an arm takes to follow its commands, by cross-correlation.

The lag is the shift at which the measured motion resembles the commanded one most (Knapp and
Carter, "The generalized correlation method for estimation of time delay", IEEE Trans. ASSP 24,
1976). Motion is compared and not position: its correlation has a sharp peak, and neither sag nor
an offset of the encoders moves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.errors import UsageError

Array = NDArray[np.float64]

_GRID_S = 0.005
# Motion is the change over this time; where commands are steps, over one that an answer to a step
# fits into.
_MOTION_S = 0.1
_STEP_MOTION_S = 0.5
# A longer pause of the commands is the end of a stretch.
_GAP_S = 0.2
_SHORTEST_S = 2.0
_RESEMBLANCE = 0.8
# A gripper that closes on something stops on its way.
_STEP_RESEMBLANCE = 0.6
_PARTS = 6


@dataclass(frozen=True, eq=False)
class Signal:
    """Samples of several quantities."""

    times: Array
    """(n,), seconds, ascending."""
    values: Array
    """(n, k)."""
    held: bool = False
    """Steps, each value until the next; otherwise straight lines between samples."""

    def at(self, times: Array) -> Array:
        """Values (m, k) at times (m,)."""
        if self.held:
            index = np.searchsorted(self.times, times, side="right") - 1
            return np.asarray(self.values[np.clip(index, 0, len(self.times) - 1)])
        columns = [np.interp(times, self.times, column) for column in self.values.T]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Lag:
    """What came out."""

    seconds: float
    resemblance: float
    """Correlation at that shift, at most 1."""
    lowest: float
    """Of the parts of the recording, seconds."""
    highest: float
    duration: float
    """Seconds of commands that were used."""

    def __str__(self) -> str:
        return (
            f"{self.seconds:.3f} s ({self.lowest:.3f} to {self.highest:.3f} in parts of "
            f"{self.duration:.0f} s, correlation {self.resemblance:.3f})"
        )


def measure_lag(
    what: str, command: Signal, measured: Signal, smallest: float, longest: float = 0.8
) -> Lag:
    """The time by which the measured motion follows the commanded one.

    Args:
        what: what moves, for messages.
        command: what was commanded, by when.
        measured: the same quantities, measured.
        smallest: least change that counts as motion, in the unit of the quantities.
        longest: lag that is looked for, seconds.

    Raises:
        UsageError: too little motion, or the measurement does not follow the commands.
    """
    times = _usable(command, measured, longest)
    if len(times) * _GRID_S < _SHORTEST_S:
        raise UsageError(
            f"{what}: {len(times) * _GRID_S:.1f} s of commands with measurements beside them, at "
            f"least {_SHORTEST_S:g} s are needed"
        )
    moved = float(np.ptp(command.at(times), axis=0).max())
    if moved < smallest:
        raise UsageError(
            f"{what}: commanded to move by {moved:.4f} only, at least {smallest:g} is needed: "
            "run a task, or ~/go_ready and ~/go_sleep, meanwhile"
        )
    shifts = _GRID_S * np.arange(round(longest / _GRID_S) + 1)
    seconds, resemblance = _peak(command, measured, times, shifts)
    least = _STEP_RESEMBLANCE if command.held else _RESEMBLANCE
    if resemblance < least:
        raise UsageError(
            f"{what}: the measurement does not follow the commands (correlation "
            f"{resemblance:.2f}): was something else moving it, or the arm blocked?"
        )
    if not shifts[0] < seconds < shifts[-1]:
        raise UsageError(f"{what}: no lag between 0 and {longest:g} s; are both clocks the same?")
    parts = [
        part
        for chosen in np.array_split(times, _PARTS)
        if np.ptp(command.at(chosen), axis=0).max() >= smallest
        for part, likeness in [_peak(command, measured, chosen, shifts)]
        if likeness >= least
    ] or [seconds]
    return Lag(seconds, resemblance, min(parts), max(parts), len(times) * _GRID_S)


def _usable(command: Signal, measured: Signal, longest: float) -> Array:
    """Times of a grid at which the command is known from `longest` seconds before on."""
    window = _window(command)
    start = max(command.times[0], measured.times[0]) + longest + window
    end = min(command.times[-1], measured.times[-1])
    grid = np.arange(start, end, _GRID_S)
    pauses = np.flatnonzero(np.diff(command.times) > _GAP_S)
    usable = np.ones(len(grid), dtype=bool)
    for i in pauses:
        begin, until = command.times[i], command.times[i + 1] + longest + window
        usable &= (grid < begin) | (grid > until)
    return np.asarray(grid[usable])


def _peak(command: Signal, measured: Signal, times: Array, shifts: Array) -> tuple[float, float]:
    """Shift in seconds at which the two motions resemble one another most, and how much."""
    window = _window(command)
    follows = _motion(measured, times, window)
    likeness = np.array(
        [_correlation(_motion(command, times - shift, window), follows) for shift in shifts]
    )
    best = int(np.argmax(likeness))
    if not 0 < best < len(shifts) - 1:
        return float(shifts[best]), float(likeness[best])
    # The vertex of the parabola through the three highest points.
    before, top, after = likeness[best - 1 : best + 2]
    bend = before - 2.0 * top + after
    offset = 0.5 * (before - after) / bend if bend < 0.0 else 0.0
    return float(shifts[best] + offset * _GRID_S), float(top)


def _window(command: Signal) -> float:
    return _STEP_MOTION_S if command.held else _MOTION_S


def _motion(signal: Signal, times: Array, window: float) -> Array:
    return signal.at(times) - signal.at(times - window)


def _correlation(first: Array, second: Array) -> float:
    """Of all quantities together: those that move more weigh more."""
    size = float(np.sqrt((first * first).sum() * (second * second).sum()))
    return float((first * second).sum()) / size if size > 0.0 else 0.0
