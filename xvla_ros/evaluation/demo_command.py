"""`xvla demo`: the whole loop on a machine with neither robot nor ROS installation."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from xvla_ros.errors import UsageError

NEEDED = 0.8
"""Share of the episodes that must succeed."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla demo`."""
    parser = subparsers.add_parser(
        "demo",
        description="Starts policy, scheduler and simulated robot, runs episodes in real time, "
        f"and reports. Ends with 1 when fewer than {NEEDED:.0%} of the episodes succeed.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--episodes", type=_count, default=10, help="how many")
    parser.add_argument("--seed", type=_seed, default=0, help="of the first episode")
    parser.add_argument("--task", default="pick", choices=("pick", "reach"), help="of the arm")
    parser.add_argument("--limit", type=float, default=15.0, help="seconds of an episode")
    parser.add_argument("--model", default="", help="checkpoint folder instead of models/demo")
    parser.add_argument("--device", default="", help="npu[:i] | cuda[:i] | cpu | auto")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of the results")
    parser.add_argument("--no-video", action="store_true", help="write no episode.gif")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo; 0 when enough episodes succeed."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from xvla_ros.evaluation import demo, live_demo
    from xvla_ros.evaluation.console import terminal
    from xvla_ros.evaluation.episode import Episode
    from xvla_ros.evaluation.live_conductor import NotRunning
    from xvla_ros.nodes.bringup import BringUpError

    began = time.monotonic()
    out: Path = arguments.out
    _prepare(out)
    options = live_demo.Options(
        out,
        arguments.episodes,
        arguments.seed,
        arguments.task,
        arguments.limit,
        arguments.model,
        arguments.device,
    )
    console = terminal()
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("episodes", total=arguments.episodes)

        def done(episode: Episode) -> None:
            result = "-" if episode.success is None else f"{episode.success:.1f} s"
            progress.console.print(f"seed {episode.seed}: {episode.ending} {result}")
            progress.advance(bar)

        try:
            result = live_demo.run(options, progress.console.print, done)
        except BringUpError as error:
            raise UsageError(str(error)) from error
        except NotRunning as error:
            print(f"xvla: error: {error}", file=sys.stderr)
            return 1
    summary = demo.write_report(out, result, film=not arguments.no_video)
    console.print(demo.table(summary))
    console.print(f"{time.monotonic() - began:.0f} s in all; results in {out}/")
    if result.fault:
        print(f"xvla: error: {result.fault}", file=sys.stderr)
    return 0 if result.successes.rate >= NEEDED and not result.fault else 1


def _prepare(out: Path) -> None:
    """Makes the folder, without the results of a run before."""
    from xvla_ros.evaluation import demo, live_demo, plots

    out.mkdir(parents=True, exist_ok=True)
    for name in (demo.SUMMARY, demo.VIDEO, *plots.FILES):
        (out / name).unlink(missing_ok=True)
    for name in (demo.BAG, live_demo.LOGS):
        shutil.rmtree(out / name, ignore_errors=True)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _seed(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"{text} is no seed: 0 to 4294967295")
    return number
