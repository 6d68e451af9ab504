"""The tables of a benchmark: for each figure the strategies by latencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xvla_ros.evaluation.benchmark_scheduler.cases import NOMINAL

if TYPE_CHECKING:
    from rich.table import Table

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Sheet:
    """One table."""

    title: str
    latencies_s: tuple[float, ...]
    rows: tuple[tuple[str, ...], ...]
    """Strategy, and its text at each latency."""

    def markdown(self) -> str:
        """As Markdown, under a heading."""
        head = ("latency, s", *(f"{latency:g}" for latency in self.latencies_s))
        lines = [head, ("---",) * len(head), *self.rows]
        return f"### {self.title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def table(self) -> Table:
        """For a terminal."""
        from rich.table import Table

        made = Table(title=self.title, title_justify="left")
        made.add_column("latency, s")
        for latency in self.latencies_s:
            made.add_column(f"{latency:g}", justify="right")
        for row in self.rows:
            made.add_row(*row)
        return made


def sheets(summary: Mapping[str, Any]) -> Iterator[Sheet]:
    """The tables that have something in them."""
    for title, task, condition, text in _wanted(summary):
        sheet = _sheet(summary, title, task, condition, text)
        if sheet is not None:
            yield sheet


def _wanted(
    summary: Mapping[str, Any],
) -> Iterator[tuple[str, str, str, Callable[[Cell], str]]]:
    first = summary["tasks"][0]
    for task in summary["tasks"]:
        yield (
            f"{task}: successes, mean seconds (a failure counts as the limit)",
            task,
            NOMINAL,
            _outcome,
        )
    yield (
        "Reaction to the cube's jump: median seconds",
        "reach_jump",
        NOMINAL,
        _median("reaction_s"),
    )
    for condition in dict.fromkeys(cell["condition"] for cell in summary["cells"]):
        for title, text in (
            ("largest step at a seam, mm and rad per tick", _largest("seam")),
            ("largest velocity step at a seam, mm and rad per tick", _largest("seam_velocity")),
            ("largest step elsewhere, mm and rad per tick", _largest("step")),
            ("idle after the first chunk, mean", _idle),
        ):
            yield f"{first}, {condition}: {title}", first, condition, text
    for title, name in (
        ("jerk RMS, m/s³, median", "jerk_rms"),
        ("distance between command and arm, RMS in mm, median", "tracking_mm"),
    ):
        yield f"{first}: {title}", first, NOMINAL, _median(name)


def _sheet(
    summary: Mapping[str, Any], title: str, task: str, condition: str, text: Callable[[Cell], str]
) -> Sheet | None:
    cells = {
        (cell["strategy"], cell["latency_s"]): text(cell)
        for cell in summary["cells"]
        if cell["task"] == task and cell["condition"] == condition
    }
    if not cells:
        return None
    latencies = tuple(summary["latencies_s"])
    rows = tuple(
        (strategy, *(cells.get((strategy, latency), "") for latency in latencies))
        for strategy in summary["strategies"]
    )
    return Sheet(title, latencies, rows)


def _outcome(cell: Cell) -> str:
    return f"{cell['successes']}/{cell['n']}, {cell['seconds']['mean']:.2f}"


def _median(name: str) -> Callable[[Cell], str]:
    def text(cell: Cell) -> str:
        value = cell[name]["p50"]
        return "-" if value is None else f"{value:.3g}"

    return text


def _largest(name: str) -> Callable[[Cell], str]:
    def text(cell: Cell) -> str:
        metres, radians = cell[f"{name}_mm"]["max"], cell[f"{name}_rad"]["max"]
        return "-" if metres is None else f"{metres:.2f}, {radians:.4f}"

    return text


def _idle(cell: Cell) -> str:
    return f"{100.0 * cell['idle_fraction']['mean']:.1f} %"
