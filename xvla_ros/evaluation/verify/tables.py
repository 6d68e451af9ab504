"""The figures of `xvla verify` for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from xvla_ros.evaluation.verify.agreement import Chunks
from xvla_ros.evaluation.verify.closed_loop import ClosedLoop
from xvla_ros.evaluation.verify.same_inputs import SameInputs, Tolerance


def same_inputs_table(
    found: Sequence[SameInputs], spread: Chunks, allowed: Tolerance, observations: int
) -> Table:
    """Differences of each variant from the reference, and those between two noise seeds."""
    made = Table(
        title=f"B - A on {observations} observations, {spread.steps} steps of chunks",
        caption=f"within: root mean square at most {100 * allowed.spread:g} % of that between two "
        f"noise seeds, at most {100 * allowed.flips:g} % gripper flips",
    )
    made.add_column("")
    for name in ("features\nPearson", "max / rms", "actions\nPearson", "max abs", "mm\nrmse / max",
                 "deg\nrmse / max", "gripper\nflips", "verdict"):  # fmt: skip
        made.add_column(name, justify="right")
    made.add_row("A, other noise", "", "", *_action_cells(spread), "")
    for row in found:
        made.add_row(
            row.label,
            f"{row.features.pearson:.7f}",
            f"{row.features.relative:.1e}",
            *_action_cells(row.actions),
            "; ".join(row.faults(spread, allowed)) or "within",
        )
    return made


def _action_cells(chunks: Chunks) -> tuple[str, ...]:
    return (
        f"{chunks.numbers.pearson:.7f}",
        f"{chunks.numbers.max_abs:.1e}",
        f"{chunks.mm_rmse:.3g} / {chunks.mm_max:.3g}",
        f"{chunks.deg_rmse:.3g} / {chunks.deg_max:.3g}",
        f"{chunks.flips} / {chunks.steps}",
    )


def closed_loop_table(found: ClosedLoop) -> Table:
    """Success and time to success of each variant beside the reference."""
    verdicts = found.verdicts()
    first = verdicts[0][1]
    made = Table(
        title=f"{found.conditions.task} in closed loop, {first.a.trials} paired episodes",
        caption=f"accepted: the 95 % interval of the difference lies above "
        f"{-100 * found.margin:g} points",
    )
    made.add_column("", overflow="fold")
    for name in ("success", "only\nA / B", "B - A, points", "p", "seconds to success", "verdict"):
        made.add_column(name, justify="right")
    made.add_row(f"A: {found.reference.label}", f"{100 * first.a.rate:.2f} %", "", "", "", "", "")
    for variant, v in verdicts:
        time = ""
        if v.seconds is not None:
            time = f"{v.seconds.mean:+.2f} [{v.seconds.low:+.2f}, {v.seconds.high:+.2f}]"
        made.add_row(
            variant.label,
            f"{100 * v.b.rate:.2f} %",
            f"{v.only_a} / {v.only_b}",
            f"{100 * (v.b.rate - v.a.rate):+.2f} [{100 * v.low:+.2f}, {100 * v.high:+.2f}]",
            f"{v.p_value:.3f}",
            time,
            "accepted" if v.accepted else "not shown",
        )
    return made
