"""`xvla calibrate latency`: how long arm, gripper and cameras take, from a recording or live."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xvla_ros.evaluation.lag import Lag
    from xvla_ros.evaluation.lag_recording import LagRecording

_EPILOG = """\
The lag of the arm is the time by which its measured motion follows the commanded one, found by
cross-correlation; so is the gripper's, to half of its way. Nothing is moved: record a task, or let
one run, or call ~/go_ready and ~/go_sleep while this listens.

    xvla calibrate latency recordings/episode_1
    xvla calibrate latency --live --seconds 30

Put the lines that it prints into the parameter file: `arm_lag_s` leads a chunk that starts from a
measured pose, `gripper_lag_s` lets the gripper close when the arm arrives. A recording also tells
how old images are when they are published; what a camera takes before it stamps them is not in it.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla calibrate`."""
    parser = subparsers.add_parser("calibrate", description="Measures what belongs to one robot.")
    kinds = parser.add_subparsers(title="what", metavar="what", required=True)
    latency = kinds.add_parser(
        "latency",
        help="lag of arm and gripper behind their commands",
        description="Measures the lag of arm and gripper and prints the parameters to keep.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = latency.add_argument
    add("bags", nargs="*", type=Path, help="recordings: files or folders")
    add("--live", action="store_true", help="listen to the running system instead; needs ROS 2")
    add("--seconds", type=float, default=30.0, help="with --live, for how long (30)")
    add("--robot-name", default="wx250s", help="namespace of the driver's topics (wx250s)")
    latency.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measures and prints; 1 if nothing can be said of the arm or the gripper."""
    from xvla_ros.errors import UsageError

    if arguments.live == bool(arguments.bags):
        raise UsageError("give recordings, or --live")
    if not arguments.seconds > 0.0:
        raise UsageError("--seconds must be positive")
    cameras: dict[str, float] = {}
    if arguments.live:
        from xvla_ros.evaluation.live_lag import listen

        print(f"listening for {arguments.seconds:g} s; nothing is moved ...", flush=True)
        recording = listen(arguments.robot_name, arguments.seconds)
    else:
        recording, cameras = _read(arguments.bags, arguments.robot_name)
    found = {
        "arm_lag_s": _try("arm", recording.arm),
        "gripper_lag_s": _try("gripper", recording.gripper),
    }
    for topic, seconds in sorted(cameras.items()):
        print(f"{topic}: published {seconds:.3f} s after its stamp")
    known = {name: lag for name, lag in found.items() if lag is not None}
    if known:
        print("\nfor the parameter file:\n\nchunk_scheduler:\n  ros__parameters:")
        for name, lag in known.items():
            print(f"    {name}: {lag.seconds:.3f}")
    return 0 if len(known) == len(found) else 1


def _try(what: str, measure: Callable[[], Lag]) -> Lag | None:
    """The lag, told in a line; or why there is none."""
    from xvla_ros.errors import UsageError

    try:
        lag = measure()
    except UsageError as error:
        print(error)
        return None
    print(f"{what}: {lag}")
    return lag


def _read(bags: Iterable[Path], robot: str) -> tuple[LagRecording, dict[str, float]]:
    """Everything from recordings, with the age of the images of each camera."""
    import statistics

    from xvla_ros.errors import UsageError
    from xvla_ros.evaluation.bag import files
    from xvla_ros.evaluation.bag.discovery import COMPRESSED_IMAGE, IMAGE
    from xvla_ros.evaluation.bag.reader import Bag
    from xvla_ros.evaluation.lag_recording import LagRecording, stamp_of

    recording = LagRecording(robot)
    ages: dict[str, list[float]] = {}
    try:
        for found in files.find(list(bags)):
            with Bag(found) as bag:
                for raw in bag.messages([t for t in recording.topics if t in bag.topics]):
                    recording.take(raw.topic, raw.time_ns * 1e-9, bag.decode(raw))
                images = [
                    t for t in bag.topics.values() if t.type_name in (IMAGE, COMPRESSED_IMAGE)
                ]
                for raw in bag.messages([topic.name for topic in images]):
                    ages.setdefault(raw.topic, []).append(raw.time_ns * 1e-9 - stamp_of(raw.data))
    except files.BagError as error:
        raise UsageError(str(error)) from error
    return recording, {topic: statistics.median(values) for topic, values in ages.items()}
