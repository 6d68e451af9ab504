"""`xvla evaluate compare`: two results side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

COMPARISON = "comparison.json"
LABELS = {
    "position_error_mm_dt": "position error, first step, mm",
    "position_error_mm_1s": "position error at 1 s, mm",
    "position_error_mm_end": "position error at the end, mm",
    "rotation_error_deg_dt": "rotation error, first step, deg",
    "rotation_error_deg_1s": "rotation error at 1 s, deg",
    "rotation_error_deg_end": "rotation error at the end, deg",
    "gripper_agreement": "gripper agreement, share",
    "spread_mm_1s": "spread of the seeds at 1 s, mm",
    "network_ms": "network, ms",
}


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla evaluate compare`."""
    parser = kinds.add_parser(
        "compare",
        help="two results side by side, with paired statistics",
        description="Pairs the predictions of two results by recording and stamp. The interval "
        "is that of the mean difference B - A, from a bootstrap over episodes.",
    )
    parser.add_argument("a", type=Path, metavar="A", help="--out of an evaluation")
    parser.add_argument("b", type=Path, metavar="B", help="--out of another one")
    parser.add_argument("--out", type=Path, default=Path("out/comparison"), help="result folder")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the table and writes comparison.json and comparison.html."""
    from xvla_ros.evaluation.comparison import compare, load
    from xvla_ros.evaluation.console import terminal
    from xvla_ros.evaluation.report.compare_page import write_comparison
    from xvla_ros.evaluation.result import write_json

    result = compare(load(arguments.a), load(arguments.b))
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / COMPARISON, result)
    write_comparison(arguments.out, result, LABELS)
    console = terminal()
    console.print(table(result))
    for note in result["notes"]:
        console.print(f"[yellow]{note}[/]", soft_wrap=True)
    print(f"written to {arguments.out}")
    return 0


def table(result: dict[str, Any]) -> Any:
    """The differences for a terminal."""
    from rich.table import Table

    made = Table(
        title=f"B - A over {result['pairs']} pairs, drawn by {result['units']}",
        caption=f"A: {result['a']['path']}\nB: {result['b']['path']}",
    )
    made.add_column("")
    for name in ("A", "B", "B - A", "95 % interval", "p", "better"):
        made.add_column(name, justify="right")
    for name, d in result["differences"].items():
        made.add_row(
            LABELS[name],
            f"{d['mean_a']:.3g}",
            f"{d['mean_b']:.3g}",
            f"{d['mean']:+.3g}",
            "too few" if d["low"] is None else f"{d['low']:+.3g} to {d['high']:+.3g}",
            f"{d['p_value']:.3f}",
            {"a": "A", "b": "B", None: ""}[d["better"]],
        )
    loop = result["closed_loop"]
    if loop is not None:
        made.add_row(
            f"success of {loop['pairs']} seeds",
            str(loop["a"]),
            str(loop["b"]),
            f"{loop['b'] - loop['a']:+d}",
            f"only A {loop['only_a']}, only B {loop['only_b']}",
            f"{loop['p_value']:.3f}",
            "",
        )
    return made
