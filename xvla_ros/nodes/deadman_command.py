"""`xvla deadman`: the space bar as the dead-man's button."""

from __future__ import annotations

import argparse
import sys

_EPILOG = """\
The scheduler must have been started with deadman.enabled:=true; it then moves the arm only while
this command says that the space bar is held. A terminal does not tell when a key is let go, only
that it repeats: the first press counts for --first seconds, each repetition for --again. A gamepad
reacts faster (ros2 run joy joy_node), and is the better choice where somebody stands near the arm.

    xvla deadman
    xvla deadman --button 5        the scheduler's deadman.button
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla deadman`."""
    parser = subparsers.add_parser(
        "deadman",
        description="Publishes sensor_msgs/Joy on the topic `joy`, with a button down while "
        "the space bar is held.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--button", type=int, default=0, help="index of the button (0)")
    add("--first", type=float, default=0.7, help="seconds that the first press counts (0.7)")
    add("--again", type=float, default=0.2, help="seconds that a repetition counts (0.2)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Publishes until q, Ctrl-C or the end of input; the last message says released."""
    from xvla_ros.errors import UsageError

    if not 0 <= arguments.button < 64:
        raise UsageError("--button is an index from 0 to 63")
    if not (arguments.first > 0.0 and arguments.again > 0.0):
        raise UsageError("--first and --again must be positive")
    if not sys.stdin.isatty():
        raise UsageError("xvla deadman needs a terminal: it watches the space bar")
    from xvla_ros.nodes.deadman_keyboard import watch

    return watch(arguments.button, arguments.first, arguments.again)
