"""The figures of `xvla verify` for a terminal."""

from __future__ import annotations

from rich.table import Table

from xvla_ros.evaluation.verify.closed_loop import ClosedLoop


def closed_loop_table(found: ClosedLoop) -> Table:
    """Success and time to success of each variant beside the reference."""
    verdicts = found.verdicts()
    made = Table(
        title=f"{found.conditions.task} in closed loop, {verdicts[0][1].a.trials} paired episodes",
        caption=f"accepted: the 95 % interval of the difference lies above "
        f"{-100 * found.margin:g} points",
    )
    made.add_column("")
    for name in ("success", "only A / B", "B - A, points", "p", "time, s", "verdict"):
        made.add_column(name, justify="right")
    first = verdicts[0][1]
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
