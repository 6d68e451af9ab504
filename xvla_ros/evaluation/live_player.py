"""Plays the sensors of a recording to running nodes, in the recording's time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

from xvla_ros import images, names
from xvla_ros.evaluation.bag import discovery
from xvla_ros.evaluation.bag.discovery import Found
from xvla_ros.evaluation.bag.files import BagError
from xvla_ros.evaluation.bag.reader import Bag, Raw
from xvla_ros.evaluation.live_conductor import NotRunning
from xvla_ros.nodes import qos

_NANO = 1_000_000_000
_CLOCK_PERIOD_NS = 10_000_000
_CLOCK_QOS = QoSProfile(depth=10)
_LISTENER_S = 30.0


@dataclass(frozen=True)
class Target:
    """Where the pictures of a view go."""

    topic: str
    """As the policy node subscribes to it."""
    compressed: bool


class Player:
    """Publishes /clock, cameras, joint states and instruction of one bag.

    Recorded chunks and plans are not played: they belong to another epoch.

    Attributes:
        now_ns: the time that was last published.

    Args:
        node: gets the publishers.
        bag: stays open while it is played.
        found: its topics.
        targets: by view slot.
        robot: whose joint states they are.
        shift_ns: recorded time minus the time that is played.
        instruction: instead of what the recording says; empty = that.
    """

    def __init__(
        self,
        node: Node,
        bag: Bag,
        found: Found,
        targets: Mapping[int, Target],
        robot: str,
        shift_ns: int,
        instruction: str = "",
    ) -> None:
        self.now_ns = 0
        self._node = node
        self._bag = bag
        self._found = found
        self._targets = targets
        self._shift_ns = shift_ns
        self._fixed = bool(instruction)
        self._told = ""
        self._first = instruction or discovery.initial_instruction(bag, found)
        self._clock = node.create_publisher(Clock, "/clock", _CLOCK_QOS)
        self._instruction = node.create_publisher(
            String, names.of(names.POLICY_NODE, names.INSTRUCTION), qos.INSTRUCTION
        )
        self._joints = node.create_publisher(
            JointState, names.joint_states(robot), qos.JOINT_STATES_PUBLISHER
        )
        self._cameras: dict[int, Publisher] = {
            slot: node.create_publisher(
                CompressedImage if target.compressed else Image, target.topic, qos.IMAGE
            )
            for slot, target in targets.items()
        }
        self._slots = {view.topic: view.slot for view in found.views if view.slot in targets}

    def wait_for_listeners(self, stop: threading.Event) -> None:
        """Waits until somebody listens to every sensor.

        Raises:
            NotRunning: nobody does in time.
        """
        end = time.monotonic() + _LISTENER_S
        waiting = [self._joints, self._instruction, *self._cameras.values()]
        while waiting := [p for p in waiting if p.get_subscription_count() == 0]:
            if stop.is_set() or time.monotonic() > end:
                raise NotRunning(f"nobody listens to {', '.join(p.topic for p in waiting)}")
            time.sleep(0.02)

    def play(self, rate: float, stop: threading.Event, progress: Callable[[float], None]) -> None:
        """Plays everything; ends early when told to stop.

        Args:
            rate: seconds of the recording per second.
            stop: ends it.
            progress: told the fraction that has been played.
        """
        start_ns = self._bag.start_ns - self._shift_ns
        begun = time.monotonic()
        self._tell(self._first)
        topics = {self._found.joint_states, *self._slots}
        if self._found.instruction is not None:
            topics.add(self._found.instruction.name)
        span = max(self._bag.end_ns - self._bag.start_ns, 1)
        for raw in self._bag.messages(topics):
            due_ns = raw.time_ns - self._shift_ns
            if not self._advance(max(due_ns, self.now_ns), start_ns, begun, rate, stop):
                return
            self._publish(raw)
            progress((due_ns - start_ns) / span)

    def run_on(self, seconds: float, rate: float, stop: threading.Event) -> None:
        """Lets the time go on without messages."""
        start_ns, begun = self.now_ns, time.monotonic()
        self._advance(start_ns + int(seconds * _NANO), start_ns, begun, rate, stop)

    def _advance(
        self, due_ns: int, start_ns: int, begun: float, rate: float, stop: threading.Event
    ) -> bool:
        """Waits for a time, with the clock going on meanwhile; false when told to stop."""
        while True:
            passed = start_ns + int((time.monotonic() - begun) * rate * _NANO)
            step = min(due_ns, max(self.now_ns + _CLOCK_PERIOD_NS, start_ns))
            if passed >= step:
                self._set_clock(step)
                if step >= due_ns:
                    return not stop.is_set()
            elif stop.wait((step - passed) / (rate * _NANO)):
                return False

    def _set_clock(self, now_ns: int) -> None:
        self.now_ns = now_ns
        sec, nanosec = divmod(now_ns, _NANO)
        self._clock.publish(Clock(clock=Time(sec=sec, nanosec=nanosec)))

    def _publish(self, raw: Raw) -> None:
        if raw.topic == self._found.joint_states:
            self._joints.publish(raw.data)
        elif raw.topic in self._slots:
            data = self._picture(raw, self._slots[raw.topic])
            if data is not None:
                self._cameras[self._slots[raw.topic]].publish(data)
        elif not self._fixed:
            try:
                message = self._bag.decode(raw)
            except BagError:
                return
            text = discovery.instruction_of(message, raw.type_name)
            if text is not None:
                self._tell(text)

    def _tell(self, instruction: str) -> None:
        if instruction != self._told:
            self._told = instruction
            self._instruction.publish(String(data=instruction))

    def _picture(self, raw: Raw, slot: int) -> bytes | None:
        """The image message in the transport that the policy wants; None if it cannot be read."""
        compressed = self._targets[slot].compressed
        if compressed == (raw.type_name == discovery.COMPRESSED_IMAGE):
            return raw.data
        try:
            message = self._bag.decode(raw)
            rgb = images.from_message(message, raw.topic)
        except (BagError, images.ImageError):
            return None
        return bytes(serialize_message(_converted(message.header, rgb, compressed)))


def _converted(header: Any, rgb: Any, compressed: bool) -> Image | CompressedImage:
    """The picture without loss in the other transport."""
    made: Image | CompressedImage
    if compressed:
        _, data = cv2.imencode(".png", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
        made = CompressedImage(format="rgb8; png compressed bgr8")
        made.data = np.asarray(data).tobytes()
    else:
        height, width = rgb.shape[:2]
        made = Image(height=height, width=width, encoding="rgb8", step=3 * width)
        made.data = np.ascontiguousarray(rgb).tobytes()
    made.header.stamp = Time(sec=header.stamp.sec, nanosec=header.stamp.nanosec)
    made.header.frame_id = header.frame_id
    return made
