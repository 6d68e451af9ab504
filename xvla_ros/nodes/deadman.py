"""The dead-man's button: the arm moves only while somebody holds it.

Any gamepad with `joy_node`, or `xvla deadman` at a keyboard. Messages that stop coming count as a
button that was let go, whatever the last one said.
"""

from __future__ import annotations

import time

from rclpy.node import Node
from sensor_msgs.msg import Joy

from xvla_ros import names
from xvla_ros.nodes import qos


class DeadMan:
    """Whether the button is held.

    Args:
        timeout: seconds after which a message no longer counts.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._held = False
        self._time: float | None = None

    def take(self, held: bool, steady: float) -> None:
        """Takes what a message says that arrives at a time of the steady clock, seconds."""
        self._held = held
        self._time = steady

    def released(self, steady: float) -> str:
        """Why the arm may not move, or empty."""
        if self._time is None:
            return "nothing is heard of the dead-man's button"
        silent = steady - self._time
        if silent > self._timeout:
            return f"nothing is heard of the dead-man's button for {self._timeout:g} s"
        return "" if self._held else "the dead-man's button is not held"


class DeadManInput:
    """Listens to one button of a sensor_msgs/Joy topic.

    Args:
        node: gets the subscription.
        button: index among the message's buttons.
        deadman: is told.
    """

    def __init__(self, node: Node, button: int, deadman: DeadMan) -> None:
        self._node = node
        self._button = button
        self._deadman = deadman
        self._subscription = node.create_subscription(Joy, names.JOY, self._on_joy, qos.JOY)

    def close(self) -> None:
        """Ends the subscription."""
        self._node.destroy_subscription(self._subscription)

    def _on_joy(self, message: Joy) -> None:
        buttons = message.buttons
        held = self._button < len(buttons) and buttons[self._button] == 1
        self._deadman.take(held, time.monotonic())
        if self._button >= len(buttons):
            self._node.get_logger().error(
                f"{names.JOY} has {len(buttons)} buttons, deadman.button is {self._button}",
                throttle_duration_sec=2.0,
            )
