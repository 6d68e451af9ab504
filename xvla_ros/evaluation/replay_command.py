"""`xvla replay`: a recording played into the real nodes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.record_command import add_ros_arguments, ros_arguments, stop_on_signals

AGREED = 0.99
"""Share of the chunks whose observation must be the offline engine's, or explained."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla replay`."""
    parser = subparsers.add_parser(
        "replay",
        description="Plays the sensors of a bag, with /clock, into policy and scheduler, whose "
        "commands reach nobody; records what they publish, repeats each prediction offline, and "
        "writes the report of `xvla evaluate bag` about the live chunks.",
    )
    parser.add_argument("bag", type=Path, metavar="BAG")
    parser.add_argument("--params", type=Path, help="parameter file of the nodes")
    parser.add_argument("--model", default="", help="model folder; default: the parameter file's")
    parser.add_argument("--device", default="", help="npu[:i] | cuda[:i] | cpu | auto")
    parser.add_argument("--out", type=Path, default=Path("out/replay"), help="result folder")
    parser.add_argument("--rate", type=_rate, default=1.0, help="speed, 1 = as recorded")
    parser.add_argument("--instruction", default="", help="instead of what the recording says")
    parser.add_argument(
        "--attach", action="store_true", help="play to nodes that run already, started elsewhere"
    )
    add_ros_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plays and reports; 1 when live and offline differ."""
    from tqdm import tqdm

    from xvla_ros.evaluation.bag.files import BagError
    from xvla_ros.evaluation.live_conductor import NotRunning
    from xvla_ros.evaluation.live_replay import ReplayOptions, replay

    options = ReplayOptions(
        arguments.bag,
        arguments.out,
        arguments.params,
        arguments.model,
        arguments.device,
        arguments.rate,
        arguments.instruction,
        arguments.attach,
        ros_arguments=ros_arguments(arguments),
    )
    with tqdm(total=100, unit="%", desc="playing", leave=False) as bar:

        def progress(share: float) -> None:
            bar.update(max(0, int(100 * share) - bar.n))

        try:
            agreement = replay(options, stop_on_signals(), bar.write, progress)
        except BagError as error:
            raise UsageError(str(error)) from error
        except (NotRunning, OSError) as error:
            print(f"xvla: error: {error}", file=sys.stderr)
            return 1
    print(agreement.line())
    for text in agreement.others[:10]:
        print(f"  {text}")
    print(f"written to {arguments.out}")
    return 0 if agreement.explained >= AGREED * agreement.live else 1


def _rate(text: str) -> float:
    rate = float(text)
    if not 0.01 <= rate <= 100.0:
        raise argparse.ArgumentTypeError(f"{text} is no speed: 0.01 to 100")
    return rate
