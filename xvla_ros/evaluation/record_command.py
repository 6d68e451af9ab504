"""`xvla record`: a bag with everything needed to repeat an episode."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla record`."""
    parser = subparsers.add_parser(
        "record",
        description="Records cameras, joint states, instruction, chunks, plan, status, and the "
        "nodes' parameters and versions to an mcap bag, until Ctrl-C. `xvla evaluate bag` reads "
        "it without options.",
    )
    parser.add_argument(
        "--out", type=Path, help="folder of the bag; default: recording_<date>_<time>"
    )
    parser.add_argument("--raw", action="store_true", help="keep raw images raw, not as JPEG")
    parser.add_argument("--quality", type=_quality, default=90, help="of the JPEG images")
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    parser.add_argument("--wait", type=float, default=30.0, help="seconds for the policy node")
    add_ros_arguments(parser)
    parser.set_defaults(run=run)


def add_ros_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--ros-args`, which takes everything behind it."""
    parser.add_argument(
        "--ros-args",
        nargs=argparse.REMAINDER,
        default=[],
        help="namespace, remappings and parameters in the words of ROS 2; the last argument",
    )


def ros_arguments(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What ROS is told."""
    return ("--ros-args", *arguments.ros_args) if arguments.ros_args else ()


def stop_on_signals() -> threading.Event:
    """Set by Ctrl-C and by a polite request to end."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def run(arguments: argparse.Namespace) -> int:
    """Records; 0 when the bag is complete."""
    from xvla_ros.evaluation.live_conductor import NotRunning
    from xvla_ros.evaluation.live_record import RecordOptions, record

    stop = stop_on_signals()
    out = arguments.out or Path(time.strftime("recording_%Y%m%d_%H%M%S"))
    options = RecordOptions(
        out, arguments.raw, arguments.quality, arguments.wait, ros_arguments(arguments)
    )

    def said(text: str) -> None:
        print(f"{text}; Ctrl-C ends", flush=True)
        if arguments.seconds is not None:
            timer = threading.Timer(arguments.seconds, stop.set)
            timer.daemon = True
            timer.start()

    try:
        recorded = record(options, stop, said)
    except (NotRunning, OSError) as error:
        print(f"xvla: error: {error}", file=sys.stderr)
        return 1
    for topic, count in sorted(recorded.counts.items()):
        print(f"{count:8d}  {topic}")
    if recorded.dropped:
        print(f"{recorded.dropped} messages came too fast and are missing", file=sys.stderr)
    print(f"written to {recorded.folder}")
    return 0


def _quality(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is no JPEG quality: 1 to 100")
    return number
