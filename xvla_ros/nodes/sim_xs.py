"""Topics and services of Interbotix' xs_sdk for the simulated arm."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from interbotix_xs_msgs.msg import JointGroupCommand, JointSingleCommand
from interbotix_xs_msgs.srv import OperatingModes, Reboot, RegisterValues, RobotInfo, TorqueEnable
from rclpy.node import Node

from xvla_ros import names
from xvla_ros.sim.xs_driver import SimulatedXsSdk

_DEPTH = 10
_LONGEST_CHANGE_S = 2.0


class XsInterface:
    """Hands requests to the simulated driver.

    As with the real one, a request that it refuses gets the same empty answer as any other.

    Args:
        node: whose executor takes commands and requests.
        robot: name of the robot.
        driver: what the requests go to.
        lock: is held meanwhile.
        clock: seconds on the clock of the trajectories.
    """

    def __init__(
        self,
        node: Node,
        robot: str,
        driver: SimulatedXsSdk,
        lock: threading.Lock,
        clock: Callable[[], float],
    ) -> None:
        self._driver = driver
        self._lock = lock
        self._clock = clock
        node.create_subscription(
            JointGroupCommand, names.xs_joint_group(robot), self._group, _DEPTH
        )
        node.create_subscription(
            JointSingleCommand, names.xs_joint_single(robot), self._single, _DEPTH
        )
        for kind, service, answer in (
            (RobotInfo, "get_robot_info", self._info),
            (OperatingModes, "set_operating_modes", self._modes),
            (TorqueEnable, "torque_enable", self._torque),
            (Reboot, "reboot_motors", self._reboot),
            (RegisterValues, "set_motor_registers", self._set_registers),
            (RegisterValues, "get_motor_registers", self._get_registers),
        ):
            node.create_service(kind, names.xs_service(service, robot), answer)

    def _group(self, message: JointGroupCommand) -> None:
        with self._lock:
            self._driver.command_group(message.name, message.cmd, self._clock())

    def _single(self, message: JointSingleCommand) -> None:
        with self._lock:
            self._driver.command_single(message.name, message.cmd, self._clock())

    def _info(self, request: Any, response: Any) -> Any:
        info = self._driver.info(request.cmd_type, request.name)
        response.mode, response.profile_type = info.mode, info.profile_type
        response.joint_names, response.joint_ids = list(info.joints), list(info.ids)
        response.joint_lower_limits = list(info.lower)
        response.joint_upper_limits = list(info.upper)
        response.joint_velocity_limits = list(info.max_speed)
        response.num_joints = len(info.joints)
        response.name = [request.name] if info.joints else []
        return response

    def _modes(self, request: Any, response: Any) -> Any:
        times = request.profile_velocity, request.profile_acceleration
        with self._lock:
            self._driver.set_modes(
                request.cmd_type,
                request.name,
                request.mode,
                request.profile_type,
                times,
                self._clock(),
            )
        # The real driver answers, and does anything else, only when all motors have torque again.
        end = time.monotonic() + _LONGEST_CHANGE_S
        while self._driver.changing and time.monotonic() < end:
            time.sleep(0.005)
        return response

    def _torque(self, request: Any, response: Any) -> Any:
        with self._lock:
            self._driver.torque_enable(
                request.cmd_type, request.name, request.enable, self._clock()
            )
        return response

    def _reboot(self, request: Any, response: Any) -> Any:
        with self._lock:
            self._driver.reboot(
                request.cmd_type,
                request.name,
                request.enable,
                request.smart_reboot,
                self._clock(),
            )
        return response

    def _set_registers(self, request: Any, response: Any) -> Any:
        with self._lock:
            self._driver.set_registers(request.cmd_type, request.name, request.reg, request.value)
        return response

    def _get_registers(self, request: Any, response: Any) -> Any:
        response.values = self._driver.registers(request.cmd_type, request.name, request.reg)
        return response
