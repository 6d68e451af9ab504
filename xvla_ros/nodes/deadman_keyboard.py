"""Whether a key is held, from a terminal that only tells of presses and repetitions."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Joy

from xvla_ros import names
from xvla_ros.nodes import qos

_PERIOD_S = 0.05
_HOLD = b" "
_QUIT = (b"q", b"\x03", b"\x04")


class HeldKey:
    """A key counts as held for a while after a press, and for a shorter one after each repetition.

    Args:
        first: seconds that a press counts: longer than a keyboard waits before it repeats.
        again: seconds that a repetition counts.
    """

    def __init__(self, first: float, again: float) -> None:
        self._first = first
        self._again = again
        self._until = float("-inf")

    def press(self, now: float) -> None:
        """Takes a press or a repetition at a time in seconds."""
        held = self.held(now)
        self._until = max(self._until, now + (self._again if held else self._first))

    def held(self, now: float) -> bool:
        """Whether the key counts as held."""
        return now <= self._until


def watch(button: int, first: float, again: float) -> int:
    """Publishes the space bar's state until q, Ctrl-C or the end of input."""
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = Node(f"xvla_deadman_{os.getpid()}")
    publisher = node.create_publisher(Joy, names.JOY, qos.JOY_PUBLISHER)
    key = HeldKey(first, again)

    def publish(held: bool) -> None:
        message = Joy(buttons=[0] * button + [int(held)])
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)

    print("hold the space bar to let the arm move; q ends", flush=True)
    shown: bool | None = None
    try:
        with _raw(sys.stdin.fileno()) as descriptor:
            while True:
                ready, _, _ = select.select([descriptor], [], [], _PERIOD_S)
                if ready:
                    pressed = os.read(descriptor, 1)
                    if not pressed or pressed in _QUIT:
                        return 0
                    if pressed == _HOLD:
                        key.press(time.monotonic())
                held = key.held(time.monotonic())
                publish(held)
                if held != shown:
                    shown = held
                    print("\r" + ("HELD    " if held else "released"), end="", flush=True)
    except KeyboardInterrupt:
        return 130
    finally:
        publish(False)
        publisher.wait_for_all_acked(Duration(seconds=1.0))
        node.destroy_node()
        rclpy.try_shutdown()
        print()


@contextmanager
def _raw(descriptor: int) -> Iterator[int]:
    """A terminal that hands over each key at once and does not show it."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
