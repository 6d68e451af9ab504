"""Commands through two joint_trajectory_controllers, as the simulator and ros2_control offer them.

Each message replaces the one before and holds two points: the setpoint with its velocity, and a
point at rest a little further on. While messages keep coming only the way to the first point is
run, as a cubic, so the motion is smooth. If they cease, the arm brakes by itself. A single moving
point would not do: from Jazzy on the controller refuses a trajectory that ends with a velocity
(ros2_controllers, `allow_nonzero_velocity_at_trajectory_end`).
"""

from __future__ import annotations

import time
from array import array
from functools import lru_cache

import numpy as np
from builtin_interfaces.msg import Duration as DurationMsg
from numpy.typing import NDArray
from rclpy.duration import Duration
from rclpy.lifecycle.publisher import LifecyclePublisher
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.arm.mapping import TrajectoryPoint, arm_point, gripper_point
from xvla_ros.nodes import qos
from xvla_ros.nodes.backends.base import Health, Send
from xvla_ros.nodes.backends.drivers import absence, drivers
from xvla_ros.nodes.backends.jtc_settings import ControllerSettings
from xvla_ros.nodes.lifecycle import LifecycleNode
from xvla_ros.parameters.parameter import Values
from xvla_ros.scheduler.arm_io import JointMeasurement

BRAKE_S = 0.1
"""Time in which the arm comes to rest where the stream ends, seconds."""

_GRIPPER_S = 0.1
_LOOK_S = 1.0
# Discovery takes up to so long.
_GRACE_S = 3.0
_LOWER = np.array(constants.JOINT_LOWER)
_UPPER = np.array(constants.JOINT_UPPER)


class JtcBackend:
    """`<robot>/arm_controller` and `<robot>/gripper_controller`."""

    def __init__(self, node: LifecycleNode, values: Values) -> None:
        self._node = node
        self._robot = str(values["robot_name"])
        self._arm_topic = names.arm_trajectory(self._robot)
        self._gripper_topic = names.gripper_trajectory(self._robot)
        self._arm: LifecyclePublisher = node.create_lifecycle_publisher(
            JointTrajectory, self._arm_topic, qos.COMMAND
        )
        self._gripper: LifecyclePublisher = node.create_lifecycle_publisher(
            JointTrajectory, self._gripper_topic, qos.COMMAND
        )
        self._settings = [
            ControllerSettings(node, self._arm_topic, constants.ARM_JOINTS),
            ControllerSettings(node, self._gripper_topic, (constants.LEFT_FINGER,)),
        ]
        self._look = 0.0
        self._grace = time.monotonic() + _GRACE_S
        self._told = ""

    def ready(
        self, joints: NDArray, velocities: NDArray, gripper_closed: float, ahead: float
    ) -> Send:
        """A command for both controllers; see `Backend`."""
        arm = trajectory(arm_points(joints, velocities, ahead))
        gripper = trajectory((gripper_point(gripper_closed, ahead + _GRIPPER_S),))

        def send() -> None:
            self._arm.publish(arm)
            self._gripper.publish(gripper)

        return send

    def watch(self, measured: JointMeasurement | None, sent: bool) -> None:
        """Looks for the controllers and at how they are set up, now and then while idle."""
        now = time.monotonic()
        if sent or now < self._look:
            return
        self._look = now + _LOOK_S
        for settings in self._settings:
            settings.ask()
        if now > self._grace:
            self._tell(self.missing())

    def missing(self) -> str:
        """Which of the controllers is absent and who listens in its place, or which is wrong."""
        for topic in (self._arm_topic, self._gripper_topic):
            if not self._drivers(topic):
                return absence(self._node, topic, "joint_trajectory_controller")
        return next((s.fault for s in self._settings if s.fault), "")

    def drain(self, timeout: float) -> bool:
        """Waits for both controllers' acknowledgement."""
        wait = Duration(seconds=timeout)
        return all([self._arm.wait_for_all_acked(wait), self._gripper.wait_for_all_acked(wait)])

    def listeners(self) -> int:
        """Number of arm controllers."""
        return len(self._drivers(self._arm_topic))

    def health(self) -> Health | None:
        """ros2_control tells nothing of the motors on topics."""
        return None

    def close(self) -> None:
        """Frees the publishers and clients."""
        for settings in self._settings:
            settings.close()
        self._node.destroy_lifecycle_publisher(self._arm)
        self._node.destroy_lifecycle_publisher(self._gripper)

    def _drivers(self, topic: str) -> list[str]:
        state = f"{topic.rpartition('/')[0]}/controller_state"
        return drivers(self._node, topic, self._robot, (state,))

    def _tell(self, missing: str) -> None:
        """Logs each absence once."""
        if missing and missing != self._told:
            self._node.get_logger().warning(missing)
        self._told = missing


def arm_points(
    joints: NDArray, velocities: NDArray, ahead: float
) -> tuple[TrajectoryPoint, TrajectoryPoint]:
    """The setpoint, and where the arm rests after braking evenly from it for `BRAKE_S`."""
    rest = np.clip(joints + 0.5 * BRAKE_S * velocities, _LOWER, _UPPER)
    return (
        arm_point(joints, velocities, ahead),
        arm_point(rest, np.zeros_like(joints), ahead + BRAKE_S),
    )


def trajectory(points: tuple[TrajectoryPoint, ...]) -> JointTrajectory:
    """The message of the points; its stamp is zero, which means from now on."""
    message = JointTrajectory(joint_names=list(points[0].joint_names))
    for point in points:
        message.points.append(
            JointTrajectoryPoint(
                # rclpy looks at each element of a list, and takes an array as it is.
                positions=array("d", point.positions),
                velocities=array("d", point.velocities),
                time_from_start=_duration(point.time_from_start),
            )
        )
    return message


@lru_cache(maxsize=16)
def _duration(seconds: float) -> DurationMsg:
    """The message, which nobody changes: the same few in every command."""
    return Duration(seconds=seconds).to_msg()


make = JtcBackend
