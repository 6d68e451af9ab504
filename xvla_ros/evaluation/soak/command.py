"""`xvla benchmark sequences`: random chunks and trouble, every command against its bounds."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

_EPILOG = """\
Each seed is one sequence of two seconds: an arm somewhere in its workspace, a strategy
(they take turns) with its own or other parameters, and a policy that sends random walks of
any speed that is accepted, late, in the wrong order, some with NaN, jumps, wrong stamps or
frames, while chunks get lost, ticks come late, the clock jumps, the arm is blocked or silent,
and somebody stops and releases it. Every command that reaches the arm is held against the
workspace, the speeds, the joints' limits and speeds and the gripper's dwell.

    xvla benchmark sequences --sequences 1000
    xvla benchmark sequences --seed 4711 --sequences 1
"""


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla benchmark sequences`."""
    parser = kinds.add_parser(
        "sequences",
        help="random chunk sequences, every command against its bounds",
        description="Plays random chunk sequences to the whole command tick in simulated time; "
        "exit code 1 if any command was out of bounds. A run that was ended goes on where it was "
        "when the same command is given again.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--sequences", type=int, default=2000, help="number of sequences (2000)")
    add("--seed", type=int, default=0, help="of the first sequence (0)")
    add("--jobs", type=int, help="processes; default: one per core")
    add("--out", type=Path, default=Path("out/sequences.json"), help="result file")
    add("--fresh", action="store_true", help="forget what an ended run has left beside it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plays, writes the result and says in a line what came of it."""
    from xvla_ros.errors import UsageError
    from xvla_ros.evaluation.result import write_json
    from xvla_ros.evaluation.soak import run as soak
    from xvla_ros.evaluation.soak.journal import Journal

    if arguments.sequences < 1 or arguments.seed < 0:
        raise UsageError("--sequences must be at least 1, and --seed at least 0")
    jobs = arguments.jobs or os.cpu_count() or 1
    shown = 0

    def progress(done: int) -> None:
        nonlocal shown
        percent = 100 * done // arguments.sequences
        if percent > shown:
            shown = percent
            print(f"{done} of {arguments.sequences} sequences", flush=True)

    journal = Journal(arguments.out.with_suffix(".jsonl"), fresh=arguments.fresh)
    result = soak.run(arguments.seed, arguments.sequences, jobs, journal, progress)
    write_json(arguments.out, result)
    worst = max(result["worst_fraction_of_bound"].values(), default=0.0)
    print(
        f"{result['published']} commands, {sum(result['violations'].values())} out of bounds; "
        f"the nearest came to {worst:.6f} of its bound -> {arguments.out}"
    )
    for what, count in result["violations"].items():
        print(f"  {what}: {count} times, first seeds {result['bad_seeds']}")
    return 1 if result["violations"] else 0
