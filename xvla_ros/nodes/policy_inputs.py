"""Subscriptions of the policy node: callbacks that store, and what was stored as one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from builtin_interfaces.msg import Time
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image, JointState

from xvla_ros import names
from xvla_ros.msg import Plan as PlanMsg
from xvla_ros.nodes import conversions as convert
from xvla_ros.nodes import qos
from xvla_ros.observation import Observation, ObservationBuffer
from xvla_ros.parameters import policy as parameters
from xvla_ros.parameters.parameter import Values
from xvla_ros.runtime.observer import Observer
from xvla_ros.runtime.proprio import ProprioSelector

AnyImage: TypeAlias = Image | CompressedImage


class PolicyInputs:
    """Cameras, joint states and plans of one policy node.

    Args:
        node: gets the subscriptions.
        values: its parameters.
        awaited: called when the joint state comes that a due observation has waited for.
    """

    def __init__(self, node: Node, values: Values, awaited: Callable[[], None]) -> None:
        self._node = node
        self._awaited = awaited
        self._views = [
            None if view is None else replace(view, topic=node.resolve_topic_name(view.topic))
            for view in parameters.views(values)
        ]
        joints_topic = names.joint_states(str(values["robot_name"]))
        self.observer: Observer[AnyImage] = Observer(
            self._views,
            parameters.rotated(values),
            convert.image_to_rgb,
            node.resolve_topic_name(joints_topic),
            parameters.limits(values),
            parameters.proprio(values),
        )
        node.create_subscription(JointState, joints_topic, self._on_joints, qos.JOINT_TRACK)
        node.create_subscription(PlanMsg, names.PLAN, self._on_plan, qos.PLAN)
        self._subscribe_cameras(values)
        self._plan_fault = ""

    @property
    def buffer(self) -> ObservationBuffer[AnyImage]:
        """The stored messages."""
        return self.observer.buffer

    @property
    def proprio(self) -> ProprioSelector:
        """Follows the scheduler's plans."""
        return self.observer.proprio

    @property
    def slots(self) -> tuple[int, ...]:
        """View slots that have a camera."""
        return self.observer.slots

    def set_values(self, values: Values) -> None:
        """Takes changed limits and proprio rules."""
        self.buffer.limits = parameters.limits(values)
        self.proprio.params = parameters.proprio(values)

    @staticmethod
    def stamps(observation: Observation[AnyImage]) -> list[Time]:
        """The exact stamps of the images."""
        return [m.header.stamp for m in observation.images if m is not None]

    def _subscribe_cameras(self, values: Values) -> None:
        for slot, view in enumerate(self._views):
            if view is None:
                continue
            compressed = values[f"cameras.{slot}.transport"] == parameters.COMPRESSED
            kind: type = CompressedImage if compressed else Image
            callback: Callable[[Any], None] = partial(self._on_image, slot)
            self._node.create_subscription(kind, view.topic, callback, qos.IMAGE)

    def _now(self) -> float:
        return convert.now_seconds(self._node.get_clock())

    def _on_image(self, slot: int, message: AnyImage) -> None:
        self.buffer.add_image(slot, convert.seconds(message.header.stamp), self._now(), message)

    def _on_joints(self, message: JointState) -> None:
        stamp = convert.seconds(message.header.stamp)
        self.buffer.add_joints(stamp, self._now(), message.name, message.position)
        if self.observer.awaits_joints:
            self._awaited()

    def _on_plan(self, message: PlanMsg) -> None:
        try:
            plan = convert.plan_from_msg(message)
        except ValueError as error:
            if str(error) != self._plan_fault:
                self._plan_fault = str(error)
                self._node.get_logger().warning(f"{names.PLAN}: ignored: {error}")
            return
        self._plan_fault = ""
        self.proprio.add_plan(plan, self._now())
