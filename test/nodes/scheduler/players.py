"""The other ends of the scheduler's topics, for tests: a robot and a policy.

Run as a script it is a policy in a process of its own, which can be killed.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.chunk import Chunk, Plan
from xvla_ros.msg import ActionChunk
from xvla_ros.msg import Plan as PlanMsg
from xvla_ros.nodes import qos
from xvla_ros.nodes.conversions import chunk_msg, plan_from_msg

STEPS = 30
STEP_DT = 1.0 / 6.0


class Robot(Node):
    """An arm that runs to the first point of each trajectory in the time given for it.

    Attributes:
        commands: (monotonic time of arrival, positions, velocities) of every arm command.
        order: joint names in the order in which they are published.
        silent: no joint states while true.
        stuck: the arm does not move while true.
    """

    def __init__(self, context: Any = None, **options: Any) -> None:
        super().__init__("robot", context=context, **options)
        self.joints = np.array(constants.READY)
        self.finger = constants.FINGER_UPPER
        self.commands: list[tuple[float, np.ndarray, np.ndarray]] = []
        self.fingers: list[float] = []
        self.order = list(constants.JOINT_STATE_NAMES)
        self.silent = False
        self.stuck = False
        self._goal: tuple[float, np.ndarray] = (0.0, self.joints)
        self._last = time.monotonic()
        self._output = self.create_publisher(
            JointState, names.joint_states(), qos.JOINT_STATES_PUBLISHER
        )
        # Deeper than a driver's, so that a busy test misses no command.
        self.create_subscription(JointTrajectory, names.arm_trajectory(), self._arm, 200)
        self.create_subscription(JointTrajectory, names.gripper_trajectory(), self._gripper, 200)
        self.create_timer(0.01, self._step)

    def _arm(self, message: JointTrajectory) -> None:
        assert tuple(message.joint_names) == constants.ARM_JOINTS
        first = message.points[0]
        self.commands.append(
            (time.monotonic(), np.array(first.positions), np.array(first.velocities))
        )
        self._goal = (
            time.monotonic() + first.time_from_start.nanosec * 1e-9,
            np.array(first.positions),
        )

    def _gripper(self, message: JointTrajectory) -> None:
        self.finger = message.points[-1].positions[0]
        self.fingers.append(self.finger)

    def _step(self) -> None:
        now = time.monotonic()
        due, goal = self._goal
        left = due - self._last
        if not self.stuck and self.commands:
            share = 1.0 if left <= 0.0 else min(1.0, (now - self._last) / left)
            self.joints = self.joints + share * (goal - self.joints)
        self._last = now
        if self.silent:
            return
        values = dict(zip(constants.ARM_JOINTS, self.joints, strict=True))
        values |= {"gripper": 1.0, "left_finger": self.finger, "right_finger": -self.finger}
        message = JointState(name=self.order, position=[float(values[name]) for name in self.order])
        message.header.stamp = self.get_clock().now().to_msg()
        self._output.publish(message)

    def steps(self, since: int = 0) -> np.ndarray:
        """Largest joint step between each two commands, rad."""
        positions = np.array([command[1] for command in self.commands[since:]])
        return np.abs(np.diff(positions, axis=0)).max(axis=1)


class Policy(Node):
    """A policy that leads the arm forwards and back at constant speed, from wherever it is."""

    def __init__(
        self, context: Any = None, speed: float = 0.05, rate: float = 4.0, **options: Any
    ) -> None:
        super().__init__("policy_player", context=context, **options)
        self.speed = speed
        self.paused = False
        self.plans: list[Plan] = []
        self.sequence = 0
        self._output = self.create_publisher(ActionChunk, names.ACTION_CHUNK, qos.CHUNK)
        self.create_subscription(PlanMsg, names.PLAN, self._plan, qos.PLAN)
        self.create_timer(1.0 / rate, self._predict)

    def _plan(self, message: PlanMsg) -> None:
        self.plans.append(plan_from_msg(message))

    @property
    def connected(self) -> bool:
        return self._output.get_subscription_count() > 0

    def now(self) -> float:
        return self.get_clock().now().nanoseconds * 1e-9

    def chunk(self, latency: float = 0.1) -> Chunk:
        """What the policy says, as of an observation `latency` seconds ago."""
        plan = self.plans[-1]
        stamp = self.now() - latency
        pose, _ = plan.at(stamp)
        if pose.position[0] > 0.34:
            self.speed = -abs(self.speed)
        if pose.position[0] < 0.14:
            self.speed = abs(self.speed)
        ahead = self.speed * STEP_DT * np.arange(1, STEPS + 1)
        positions = pose.position + ahead[:, None] * np.array([1.0, 0.0, 0.0])
        self.sequence += 1
        return Chunk(
            stamp=stamp,
            t_ref=stamp,
            step_dt=STEP_DT,
            positions=positions,
            rotations=np.repeat(pose.rotation[None], STEPS, axis=0),
            gripper=np.zeros(STEPS),
            frame_id=names.base_frame(),
            ee_frame=names.ee_frame(),
            sequence=self.sequence,
            epoch=plan.epoch,
        )

    def send(self, chunk: Chunk | None = None, **changes: Any) -> Chunk:
        """Publishes a chunk, with some fields changed."""
        chunk = replace(chunk or self.chunk(), **changes)
        self._output.publish(chunk_msg(chunk))
        return chunk

    def _predict(self) -> None:
        if self.plans and not self.paused:
            self.send()


if __name__ == "__main__":
    rclpy.init(args=sys.argv)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(Policy())
