"""Commands through Interbotix' xs_sdk, the driver itself without ros2_control.

A stream of positions: the motors run to each one in the time of their profile, which is written
once, at configuration. The driver tells neither whether a service did anything nor whether a motor
still lives, so both are read from the motors' registers.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from interbotix_xs_msgs.msg import JointGroupCommand, JointSingleCommand
from interbotix_xs_msgs.srv import RegisterValues, RobotInfo
from numpy.typing import NDArray
from rclpy.duration import Duration
from rclpy.lifecycle.publisher import LifecyclePublisher

from xvla_ros import names
from xvla_ros.arm import constants, xs_driver
from xvla_ros.arm.gripper import finger_from_closed
from xvla_ros.arm.xs_gripper import PwmGripper
from xvla_ros.arm.xs_motors import SUSPECT_RAD, Question, SilentJoints
from xvla_ros.nodes import qos
from xvla_ros.nodes.backends.base import Health, Send
from xvla_ros.nodes.backends.drivers import absence, drivers
from xvla_ros.nodes.backends.xs_setup import (
    GET_INFO,
    GET_REGISTERS,
    register_request,
    services,
    set_up,
)
from xvla_ros.nodes.diagnostics import Level
from xvla_ros.nodes.lifecycle import LifecycleNode
from xvla_ros.parameters.parameter import Values
from xvla_ros.parameters.xs import xs_params
from xvla_ros.scheduler.arm_io import JointMeasurement

# One write to the gripper holds the driver up for about 2 ms: only what changes, and now and then
# again for a driver that has missed it.
_AGAIN_S = 0.5
# What the arm does for so long after a command of ours is ours to end.
_OURS_S = 2.0
_VELOCITY = xs_driver.MODE_REGISTER[xs_driver.VELOCITY]


class XsBackend:
    """`<robot>/commands/joint_group` for the arm, `<robot>/commands/joint_single` for the gripper.

    Raises:
        BackendError: the driver is absent, a motor is dead, or a mode cannot be set.
        DriverMismatch: the driver runs another arm.
    """

    def __init__(self, node: LifecycleNode, values: Values) -> None:
        self._node = node
        self._robot = str(values["robot_name"])
        self._params = xs_params(values)
        with services(node, self._robot, self._params.driver_timeout_s) as calls:
            order, self._motors = set_up(node, calls, self._params)
        self._order = list(order)
        self._topic = names.xs_joint_group(self._robot)
        self._arm: LifecyclePublisher = node.create_lifecycle_publisher(
            JointGroupCommand, self._topic, qos.COMMAND
        )
        self._single: LifecyclePublisher = node.create_lifecycle_publisher(
            JointSingleCommand, names.xs_joint_single(self._robot), qos.COMMAND
        )
        self._registers = node.create_client(
            RegisterValues, names.xs_service(GET_REGISTERS, self._robot)
        )
        self._info = node.create_client(RobotInfo, names.xs_service(GET_INFO, self._robot))
        self._pending: Any = None
        self._dead = ""
        self._commanded, self._last = np.zeros(6), -np.inf
        self._silent = SilentJoints()
        self._pwm = PwmGripper(self._params.gripper_pwm, self._params.gripper_hold_pwm)
        self._sent: tuple[float, float] | None = None
        node.get_logger().info(
            f"xs_sdk: profile {self._params.profile_velocity_ms} / "
            f"{self._params.profile_acceleration_ms} ms, gripper {self._params.gripper_mode}"
        )

    def ready(
        self, joints: NDArray, velocities: NDArray, gripper_closed: float, ahead: float
    ) -> Send:
        """A command for arm and gripper; see `Backend`. Speeds are the motors' profile's."""
        command = [float(joints[i]) for i in self._order]
        message = JointGroupCommand(name=xs_driver.ARM_GROUP, cmd=command)

        def send() -> None:
            self._arm.publish(message)
            self._commanded, self._last = np.array(joints), time.monotonic()
            if self._params.gripper_mode == xs_driver.PWM:
                self._pwm.command(gripper_closed, time.monotonic())
            else:
                self._send_gripper(2.0 * finger_from_closed(gripper_closed))

        return send

    def watch(self, measured: JointMeasurement | None, sent: bool) -> None:
        """Looks after gripper and motors; see `Backend`."""
        now = time.monotonic()
        if self._params.gripper_mode == xs_driver.PWM:
            pwm = self._pwm.update(now, None if measured is None else measured.gripper_closed)
            if pwm is not None:
                self._send_gripper(float(pwm), again=sent)
        question = self._motors.due(now)
        if question is not None:
            if self._pending is not None:
                self._registers.remove_pending_request(self._pending)
            self._pending = self._registers.call_async(register_request(question))
            self._pending.add_done_callback(partial(self._answered, question))
        self._dead = self._dead_joint(now, measured, sent)

    def health(self) -> Health:
        """What the registers and the joint states say of the motors."""
        fault = self._motors.fault or self._dead
        count = self._motors.motors
        return Health(
            Level.ERROR if fault else Level.OK,
            fault or f"{count} motors answer",
            {"motors": count, "registers read": self._motors.answers},
            self._robot,
            fault,
        )

    def missing(self) -> str:
        """Why commands would reach no driver, or empty."""
        return "" if self.listeners() else absence(self._node, self._topic, "xs_sdk")

    def drain(self, timeout: float) -> bool:
        """Leaves the gripper without more force than it needs and waits for acknowledgements."""
        if self._params.gripper_mode == xs_driver.PWM and self._sent is not None:
            self._send_gripper(float(self._pwm.resting()), again=False)
        wait = Duration(seconds=timeout)
        return all([self._arm.wait_for_all_acked(wait), self._single.wait_for_all_acked(wait)])

    def listeners(self) -> int:
        """Number of drivers."""
        return len(drivers(self._node, self._topic, self._robot))

    def close(self) -> None:
        """Frees publishers and client."""
        self._node.destroy_client(self._registers)
        self._node.destroy_client(self._info)
        self._node.destroy_lifecycle_publisher(self._arm)
        self._node.destroy_lifecycle_publisher(self._single)

    def _send_gripper(self, value: float, *, again: bool = True) -> None:
        """Sends what has changed; the same `again` only while the arm is commanded as well."""
        now = time.monotonic()
        value_before, then = self._sent or (None, 0.0)
        if value != value_before or (again and now - then > _AGAIN_S):
            self._single.publish(JointSingleCommand(name=constants.GRIPPER_JOINT, cmd=value))
            self._sent = (value, now)

    def _answered(self, question: Question, future: Any) -> None:
        if future.exception() is None and not future.cancelled():
            self._pending = None
            values = list(future.result().values)
            self._motors.answer(question, values)
            ours = time.monotonic() - self._last < _OURS_S
            if ours and question.register == xs_driver.OPERATING_MODE and values == [_VELOCITY]:
                arm = RobotInfo.Request(cmd_type="group", name=xs_driver.ARM_GROUP)
                self._info.call_async(arm).add_done_callback(self._end_speeds)

    def _end_speeds(self, future: Any) -> None:
        """Ends what the driver has made of our positions where it takes them for speeds."""
        if future.exception() is None and future.result().mode == xs_driver.VELOCITY:
            zeros = [0.0] * len(self._order)
            self._arm.publish(JointGroupCommand(name=xs_driver.ARM_GROUP, cmd=zeros))

    def _dead_joint(self, now: float, measured: JointMeasurement | None, sent: bool) -> str:
        if not sent or measured is None:
            self._silent.reset()
            return ""
        joints = measured.positions
        apart = np.abs(self._commanded - joints)
        furthest = int(np.argmax(apart))
        if apart[furthest] > SUSPECT_RAD:
            self._motors.suspect(constants.ARM_JOINTS[furthest])
        i = self._silent.update(now, self._commanded, joints, measured.efforts)
        if i is None:
            return ""
        return (
            f"motor '{constants.ARM_JOINTS[i]}' is dead: commanded {self._commanded[i]:.2f} rad, "
            f"it stays at {joints[i]:.2f} rad and draws no current"
        )


make = XsBackend
