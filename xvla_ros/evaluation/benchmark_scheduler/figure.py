"""The picture of a benchmark: one panel per figure, one line per strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xvla_ros.evaluation.benchmark_scheduler.cases import NOMINAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "benchmark.png"
_COLOURS = ("#d1495b", "#00798c", "#edae49", "#30638e", "#8d5b9a", "#5a7d2b", "#555555")
_MARKERS = "osD^vPX"
_DPI = 90

Cell = Mapping[str, Any]
Value = Callable[[Cell], float | None]


def write_picture(path: Path, summary: Mapping[str, Any]) -> None:
    """Draws what of the summary's tasks there is."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = _panels(summary)
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.9 * columns, 3.0 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis, (title, unit, task, value) in zip(axes, panels, strict=False):
        _draw(axis, summary, task, value)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_ylabel(unit)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=_DPI)


def _panels(summary: Mapping[str, Any]) -> list[tuple[str, str, str, Value]]:
    """Title, unit, task and value of each."""
    first = summary["tasks"][0]
    named: dict[str, tuple[str, str, Value]] = {
        "reach_jump": ("reaction to a jump", "s, median", _of("reaction_s", "p50")),
        "reach_moving": ("reach_moving: success", "%", _success),
    }
    tasks = []
    for task in summary["tasks"]:
        timed = (f"{task}: time, failure = limit", "s, mean", _of("seconds", "mean"))
        title, unit, value = named.get(task, timed)
        tasks.append((title, unit, task, value))
    return [
        *tasks,
        ("seam: largest step before limits", "mm per tick", first, _of("seam_mm", "max")),
        ("seam: largest velocity step", "mm per tick", first, _of("seam_velocity_mm", "max")),
        ("jerk of the command", "RMS, m/s³", first, _of("jerk_rms", "p50")),
        ("idle after the first chunk", "%", first, _idle),
        ("command to arm", "RMS, mm", first, _of("tracking_mm", "p50")),
    ]


def _draw(axis: Axes, summary: Mapping[str, Any], task: str, value: Value) -> None:
    for index, strategy in enumerate(summary["strategies"]):
        points = [
            (cell["latency_s"], value(cell))
            for cell in summary["cells"]
            if (cell["task"], cell["condition"], cell["strategy"]) == (task, NOMINAL, strategy)
        ]
        axis.plot(
            [x for x, _ in points],
            [float("nan") if y is None else y for _, y in points],
            color=_COLOURS[index % len(_COLOURS)],
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=5,
            linewidth=1.3,
            label=strategy,
        )
    axis.set_xlabel("latency, s")
    axis.set_ylim(bottom=0.0)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)


def _of(name: str, statistic: str) -> Value:
    return lambda cell: cell[name][statistic]


def _success(cell: Cell) -> float:
    return 100.0 * cell["successes"] / cell["n"]


def _idle(cell: Cell) -> float:
    return 100.0 * cell["idle_fraction"]["mean"]
