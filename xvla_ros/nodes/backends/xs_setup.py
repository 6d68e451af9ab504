"""Brings Interbotix' xs_sdk to where its motors can be streamed to, or says why it cannot be.

The driver's services say nothing about success, so what was asked for is read again afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from interbotix_xs_msgs.srv import OperatingModes, RegisterValues, RobotInfo
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from xvla_ros import names
from xvla_ros.arm import constants, xs_driver
from xvla_ros.arm.xs_motors import MotorWatch, Question
from xvla_ros.nodes.backends.base import BackendError
from xvla_ros.parameters.xs import XsParams

GET_INFO, GET_REGISTERS = "get_robot_info", "get_motor_registers"
# The driver changes seven motors' mode one by one, each within tens of milliseconds.
_ANSWER_S = 5.0
_GRIPPER_MS = (300, 100)


class Services:
    """The driver's services, with answers that are waited for.

    Args:
        node: makes the calls and is not being spun by anybody else.
        robot: name of the robot.
        timeout: seconds to wait for the driver.
    """

    def __init__(self, node: Node, robot: str, timeout: float) -> None:
        self._node = node
        self._robot = robot
        self._end = time.monotonic() + timeout
        self._timeout = timeout
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)
        self._clients: dict[str, Any] = {}

    def info(self, kind: str, name: str) -> xs_driver.RobotInfo:
        """What get_robot_info says about a `group` or a `single`."""
        answer = self._call(RobotInfo, GET_INFO, RobotInfo.Request(cmd_type=kind, name=name))
        return xs_driver.RobotInfo(
            answer.mode,
            answer.profile_type,
            tuple(answer.joint_names),
            tuple(answer.joint_ids),
            tuple(answer.joint_lower_limits),
            tuple(answer.joint_upper_limits),
            tuple(answer.joint_velocity_limits),
        )

    def set_mode(self, kind: str, name: str, mode: str, velocity: int, acceleration: int) -> None:
        """Sets operating mode and time profile (ms); the motors have no torque meanwhile."""
        request = OperatingModes.Request(
            cmd_type=kind,
            name=name,
            mode=mode,
            profile_type=xs_driver.TIME_PROFILE,
            profile_velocity=velocity,
            profile_acceleration=acceleration,
        )
        self._call(OperatingModes, "set_operating_modes", request)

    def set_register(self, kind: str, name: str, register: str, value: int) -> None:
        """Writes a register of one motor or of all of a group."""
        request = RegisterValues.Request(cmd_type=kind, name=name, reg=register, value=value)
        self._call(RegisterValues, "set_motor_registers", request)

    def register(self, question: Question) -> Sequence[int]:
        """The values in the answer: one, or none from a dead motor."""
        answer = self._call(RegisterValues, GET_REGISTERS, register_request(question))
        return list(answer.values)

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        full = names.xs_service(service, self._robot)
        if service not in self._clients:
            self._clients[service] = self._node.create_client(kind, full)
        client = self._clients[service]
        if not client.wait_for_service(timeout_sec=max(self._end - time.monotonic(), 0.1)):
            raise BackendError(
                f"no service {full} within {self._timeout:g} s: start the arm's driver "
                "(ros2 launch xvla_ros widowx_bringup.launch.py), then configure again"
            )
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, _ANSWER_S)
        if not future.done():
            raise BackendError(
                f"{full} does not answer within {_ANSWER_S:g} s: restart the arm's driver"
            )
        return future.result()

    def close(self) -> None:
        """Frees the clients."""
        self._executor.remove_node(self._node)
        self._executor.shutdown()
        for client in self._clients.values():
            self._node.destroy_client(client)


def register_request(question: Question) -> RegisterValues.Request:
    """Asks for one register of one motor."""
    return RegisterValues.Request(cmd_type="single", name=question.motor, reg=question.register)


@contextmanager
def services(node: Node, robot: str, timeout: float) -> Iterator[Services]:
    """The services through a node of their own: the given one is busy with its transition."""
    helper = Node(
        f"{node.get_name()}_setup",
        namespace=node.get_namespace(),
        context=node.context,
        use_global_arguments=False,
        start_parameter_services=False,
        enable_rosout=False,
    )
    calls = Services(helper, robot, timeout)
    try:
        yield calls
    finally:
        calls.close()
        helper.destroy_node()


def set_up(node: Node, calls: Services, params: XsParams) -> tuple[tuple[int, ...], MotorWatch]:
    """Checks the arm, sets modes and profile where they differ, and reads every motor once.

    Returns:
        Which of our joints stands at each place of the arm's command, and the motors' watch.

    Raises:
        DriverMismatch: the driver runs another arm.
        BackendError: no answer, a dead motor, or a mode that cannot be set.
    """
    arm = calls.info("group", xs_driver.ARM_GROUP)
    order = xs_driver.arm_order(arm)
    gripper = calls.info("single", constants.GRIPPER_JOINT)
    xs_driver.check_gripper(gripper, arm.ids)
    watch = MotorWatch(
        xs_driver.expected_registers(params.gripper_mode, params.profile_velocity_ms),
        params.motor_check_s,
    )
    # Before anything is written: a motor that has shut down must not be woken by a change of mode.
    _check(calls, watch, xs_driver.HARDWARE_ERROR)
    _set_arm(node, calls, params, arm)
    _set_gripper(node, calls, params, gripper)
    for register in (xs_driver.OPERATING_MODE, xs_driver.TORQUE, xs_driver.PROFILE_VELOCITY):
        _check(calls, watch, register)
    return order, watch


def _check(calls: Services, watch: MotorWatch, register: str) -> None:
    for question in watch.questions():
        if question.register == register:
            watch.answer(question, calls.register(question))
            if watch.fault:
                raise BackendError(watch.fault)


def _set_arm(node: Node, calls: Services, params: XsParams, info: xs_driver.RobotInfo) -> None:
    group, mode = xs_driver.ARM_GROUP, xs_driver.POSITION
    velocity, acceleration = params.profile_velocity_ms, params.profile_acceleration_ms
    registers = [
        calls.register(Question(joint, xs_driver.OPERATING_MODE)) for joint in constants.ARM_JOINTS
    ]
    as_wanted = [[xs_driver.MODE_REGISTER[mode]]] * len(registers)
    if (info.mode, info.profile_type) == (mode, xs_driver.TIME_PROFILE) and registers == as_wanted:
        # Without a change of mode, which would let the arm sag. The shorter first: the motors
        # bound the time for speeding up by half of the whole.
        for kind, name in (("group", group), *(("single", s) for s in xs_driver.SHADOWS.values())):
            calls.set_register(kind, name, xs_driver.PROFILE_ACCELERATION, acceleration)
            calls.set_register(kind, name, xs_driver.PROFILE_VELOCITY, velocity)
        return
    node.get_logger().warning(
        f"the arm is in mode '{info.mode}' with profile '{info.profile_type}': changing it to "
        f"'{mode}', '{xs_driver.TIME_PROFILE}'; each joint is without torque for a moment"
    )
    calls.set_mode("group", group, mode, velocity, acceleration)
    _confirm(calls, "group", group, mode)


def _set_gripper(node: Node, calls: Services, params: XsParams, info: xs_driver.RobotInfo) -> None:
    joint, mode = constants.GRIPPER_JOINT, params.gripper_mode
    velocity, acceleration = _GRIPPER_MS
    register = calls.register(Question(joint, xs_driver.OPERATING_MODE))
    if info.mode != mode or register != [xs_driver.MODE_REGISTER[mode]]:
        node.get_logger().warning(
            f"the gripper is in mode '{info.mode}': changing it to '{mode}'; it lets go for a "
            "moment"
        )
        calls.set_mode("single", joint, mode, velocity, acceleration)
        _confirm(calls, "single", joint, mode)
    if mode == xs_driver.LINEAR_POSITION:
        calls.set_register("single", joint, xs_driver.PROFILE_ACCELERATION, acceleration)
        calls.set_register("single", joint, xs_driver.PROFILE_VELOCITY, velocity)
        # Bounds the current of a gripper that holds something thicker than its target.
        calls.set_register("single", joint, xs_driver.GOAL_PWM, params.gripper_pwm)


def _confirm(calls: Services, kind: str, name: str, mode: str) -> None:
    now = calls.info(kind, name)
    if (now.mode, now.profile_type) != (mode, xs_driver.TIME_PROFILE):
        raise BackendError(
            f"{kind} '{name}' stays in mode '{now.mode}' with profile '{now.profile_type}' though "
            f"'{mode}' with '{xs_driver.TIME_PROFILE}' was set: see the driver's log"
        )
