"""`xvla benchmark scheduler`: strategies side by side in simulated time."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from xvla_ros.errors import UsageError
from xvla_ros.runtime.arguments import add_run_arguments, run_arguments

if TYPE_CHECKING:
    from xvla_ros.evaluation.benchmark_scheduler.cases import Benchmark
    from xvla_ros.evaluation.benchmark_scheduler.runner import Journal

RESULT, REPORT = "benchmark.json", "tables.md"
_EPILOG = """\
A strategy is a name (anchor_fade), a name with parameters of the scheduler
(anchor_fade,fade_s=0.2), or module:Class of another project's scheduler: a class
with reset, submit and sample (docs/scheduler_benchmark.md). All meet the same
seeds, chunks' noise, latencies and faults.

The default policy is the simulator's scripted expert with noise on every chunk: it
needs no network, so an episode takes about half a second, and what differs between
two rows is the strategy's doing. --model DIR runs a network on pictures instead.

    xvla benchmark scheduler --episodes 3
    xvla benchmark scheduler --strategies anchor_fade timestamp my_package.player:Player
    xvla benchmark scheduler --model models/demo --conditions nominal --episodes 50
"""


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla benchmark scheduler`."""
    parser = kinds.add_parser(
        "scheduler",
        help="strategies side by side in simulated time, without ROS",
        description="Closed loop in lockstep under latencies and faults: success and time, seams, "
        "jerk, idle time, reaction and tracking of each strategy. A run that was ended goes on "
        "where it was when the same command is given again.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--strategies", nargs="+", metavar="S", help="the first one is compared against; all ours")
    add(
        "--strategy", action="append", default=[], metavar="S", help="one more, beside --strategies"
    )
    add("--latencies", nargs="+", type=float, metavar="SECONDS", help="0 0.135 0.4 0.8")
    add("--tasks", nargs="+", metavar="TASK", help="pick reach_moving reach_jump")
    add("--conditions", nargs="+", metavar="C", help="default: all; on the first task only")
    add("--episodes", type=int, default=10, help="seeds in each cell (10)")
    add("--seed", type=int, default=0, help="of the first episode (0)")
    add("--policy-rate", type=float, default=2.0, help="Hz (2)")
    add("--model", type=Path, help="model folder; default: the scripted expert with noise")
    add("--jobs", type=int, help="processes; default: one per core")
    add("--out", type=Path, default=Path("out/benchmark_scheduler"), help="result folder")
    add("--fresh", action="store_true", help="forget what the result folder holds")
    add_run_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs what is missing, and writes the result."""
    from xvla_ros.evaluation.benchmark_scheduler import runner
    from xvla_ros.evaluation.benchmark_scheduler.figure import PICTURE, write_picture
    from xvla_ros.evaluation.benchmark_scheduler.summary import summarise
    from xvla_ros.evaluation.benchmark_scheduler.tables import sheets
    from xvla_ros.evaluation.console import terminal
    from xvla_ros.evaluation.result import write_json

    benchmark = planned(arguments)
    facts = benchmark.facts(runner.model_hash(benchmark))
    journal = runner.Journal(arguments.out, facts, fresh=arguments.fresh)
    _run(benchmark, journal, arguments.jobs or os.cpu_count() or 1)
    summary = summarise(benchmark, facts, journal.records)
    write_json(arguments.out / RESULT, summary)
    write_picture(arguments.out / PICTURE, summary)
    tables = list(sheets(summary))
    text = "\n".join(sheet.markdown() for sheet in tables)
    (arguments.out / REPORT).write_text(text, encoding="utf-8")
    console = terminal()
    for sheet in tables:
        console.print(sheet.table())
    print(f"written to {arguments.out}: {RESULT}, {REPORT}, {PICTURE}")
    return 0


def planned(arguments: argparse.Namespace) -> Benchmark:
    """The benchmark of a command line.

    Raises:
        UsageError: an option that cannot be.
    """
    from xvla_ros.evaluation.benchmark_scheduler import cases
    from xvla_ros.evaluation.benchmark_scheduler.contenders import contenders
    from xvla_ros.scheduler.params import STRATEGIES
    from xvla_ros.sim.tasks import TASKS

    for option in ("episodes", "jobs"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option} is {value}; ask for at least one")
    if arguments.seed < 0:
        raise UsageError(f"--seed is {arguments.seed}; it must not be negative")
    if not arguments.policy_rate > 0.0:
        raise UsageError(f"--policy-rate is {arguments.policy_rate}; it must be positive")
    latencies = tuple(dict.fromkeys(arguments.latencies or cases.LATENCIES))
    if not all(0.0 <= latency <= 10.0 for latency in latencies):
        raise UsageError(f"--latencies are {latencies}; each must lie in 0 to 10 s")
    # Without a denoiser there is nothing to inpaint, and `inpaint` is `anchor_fade`.
    ours = [name for name in STRATEGIES if arguments.model is not None or name != "inpaint"]
    words = arguments.strategies or (() if arguments.strategy else ours)
    return cases.Benchmark(
        contenders=contenders([*words, *arguments.strategy]),
        tasks=_known("--tasks", arguments.tasks or cases.TASKS, TASKS),
        latencies_s=latencies,
        conditions=_known(
            "--conditions", arguments.conditions or cases.CONDITIONS, cases.CONDITIONS
        ),
        episodes=arguments.episodes,
        seed=arguments.seed,
        policy_rate_hz=arguments.policy_rate,
        model=arguments.model,
        options=tuple(run_arguments(arguments).items()),
    )


def _known(option: str, words: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    for word in words:
        if word not in known:
            raise UsageError(f"{option}: no '{word}'; known: {', '.join(known)}")
    return tuple(dict.fromkeys(words))


def _run(benchmark: Benchmark, journal: Journal, jobs: int) -> None:
    """Runs the episodes that are missing behind a bar with the time that is left."""
    from tqdm import tqdm

    from xvla_ros.evaluation.benchmark_scheduler import runner

    cases = list(benchmark.cases())
    todo = [case for case in cases if case not in journal.records]
    with tqdm(
        total=len(cases), initial=len(cases) - len(todo), unit="episode", mininterval=1.0
    ) as bar:

        def done(record: runner.Record) -> None:
            journal.add(record)
            bar.set_postfix_str(f"{record['strategy']}, {record['task']}")
            bar.update()

        runner.run(benchmark, todo, jobs, done)
