"""Interbotix' xs_sdk in front of the simulated arm, with what surprises its users.

Nothing is told about success; a change of operating mode takes the torque for a moment; no limit
is checked; a motor that dies does so without a word. As its source behaves
(Interbotix/interbotix_ros_core, `interbotix_xs_sdk`, and Interbotix/interbotix_xs_driver). The
trapezoid of a time profile is a cubic of the same duration here. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from xvla_ros.arm import constants as c
from xvla_ros.arm import xs_driver as xs
from xvla_ros.arm.gripper import finger_from_motor
from xvla_ros.sim.device import SimulatedRobot
from xvla_ros.sim.world import JointState
from xvla_ros.sim.xs_kinds import FROZEN, LIMITS, OVERLOAD, UNPLUGGED

_LIMP_S = 0.03
"""s without torque for each joint whose mode is changed, one after another."""
_MODES = {**xs.MODE_REGISTER, "current": 0, "ext_position": 4}
_OVERLOAD_BIT = 0x20
_ZERO_RAD = -np.pi
"""Angle of the register value 0, which the driver publishes for what it could not read."""
_FRICTION_PWM = 40
_FAR_S = 10.0


@dataclass
class _Motor:
    """One servo: what the driver keeps of it, and its registers."""

    number: int
    mode: str = xs.POSITION
    profile_type: str = xs.TIME_PROFILE
    registers: dict[str, int] = field(
        default_factory=lambda: {
            xs.HARDWARE_ERROR: 0,
            xs.TORQUE: 1,
            xs.OPERATING_MODE: _MODES[xs.POSITION],
            xs.PROFILE_VELOCITY: 2000,
            xs.PROFILE_ACCELERATION: 300,
            xs.GOAL_PWM: 885,
        }
    )


class SimulatedXsSdk:
    """Topics and services of the driver as plain calls.

    Args:
        robot: the arm; nobody else commands it.
        order: the arm's joints as the driver's group and joint states have them.
        model: whose limits the driver's URDF has, of `LIMITS`.
    """

    def __init__(
        self, robot: SimulatedRobot, order: Sequence[str] = c.ARM_JOINTS, model: str = "wx250s"
    ) -> None:
        self._robot = robot
        self._order = tuple(order)
        self._limits = LIMITS[model]
        # Numbers of interbotix_xsarm_control/config/wx250s.yaml.
        numbers = dict(zip(c.ARM_JOINTS, (1, 2, 4, 6, 7, 8), strict=True))
        numbers |= {xs.SHADOWS["shoulder"]: 3, xs.SHADOWS["elbow"]: 5, c.GRIPPER_JOINT: 9}
        self._motors = {name: _Motor(number) for name, number in numbers.items()}
        self._apply_mode(c.GRIPPER_JOINT, xs.PWM)
        self._group_mode = (xs.POSITION, xs.TIME_PROFILE)
        self._limp: dict[str, tuple[float, float]] = {}
        self._broken: dict[str, str] = {}
        self._read: dict[str, float] = {}
        self._pwm = 0.0

    # ------------------------------------------------------------------ services

    def names(self, kind: str, name: str) -> tuple[str, ...]:
        """Motors that a request concerns; empty where the driver refuses it without a word."""
        if kind == "group" and name == xs.ARM_GROUP:
            return self._order
        if kind == "group" and name == "all":
            return (*self._order, c.GRIPPER_JOINT)
        return (name,) if kind == "single" and name in self._motors else ()

    def info(self, kind: str, name: str) -> xs.RobotInfo:
        """get_robot_info; the gripper is described as its left finger."""
        motors = self.names(kind, name)
        if not motors:
            return xs.RobotInfo("", "", (), (), (), (), ())
        first = self._motors[motors[0]]
        mode = self._group_mode if kind == "group" else (first.mode, first.profile_type)
        limits = [self._limit(motor) for motor in motors]
        return xs.RobotInfo(
            *mode,
            tuple(c.LEFT_FINGER if motor == c.GRIPPER_JOINT else motor for motor in motors),
            tuple(self._motors[motor].number for motor in motors),
            tuple(low for low, _, _ in limits),
            tuple(high for _, high, _ in limits),
            tuple(speed for _, _, speed in limits),
        )

    def set_modes(
        self, kind: str, name: str, mode: str, profile: str, times: tuple[int, int], now: float
    ) -> None:
        """set_operating_modes; `times` are Profile_Velocity and Profile_Acceleration."""
        if mode not in _MODES:
            return
        for i, joint in enumerate(self.names(kind, name)):
            for motor in (joint, *filter(None, [xs.SHADOWS.get(joint)])):
                if self._answers(motor):
                    self._apply_mode(motor, mode)
                    self._motors[motor].profile_type = profile
                    if mode in (xs.POSITION, xs.LINEAR_POSITION, "ext_position"):
                        self._motors[motor].registers[xs.PROFILE_VELOCITY] = times[0]
                        self._motors[motor].registers[xs.PROFILE_ACCELERATION] = times[1]
            self._limp[joint] = (now + i * _LIMP_S, now + (i + 1) * _LIMP_S)
        if kind == "group":
            self._group_mode = (mode, profile)

    def torque_enable(self, kind: str, name: str, enable: bool, now: float) -> None:
        """torque_enable; a motor that has shut down stays so."""
        for motor in self.names(kind, name):
            self._set_torque(motor, enable, now)

    def reboot(self, kind: str, name: str, enable: bool, smart: bool, now: float) -> None:
        """reboot_motors; clears what a motor has shut down for."""
        for motor in self.names(kind, name):
            if smart and not self._motors[motor].registers[xs.HARDWARE_ERROR]:
                continue
            if self._broken.get(motor) == OVERLOAD:
                del self._broken[motor]
            self._motors[motor].registers[xs.HARDWARE_ERROR] = 0
            self._set_torque(motor, enable, now)

    def set_registers(self, kind: str, name: str, register: str, value: int) -> None:
        """set_motor_registers; shadows hear what their masters hear."""
        for joint in self.names(kind, name):
            for motor in (joint, *filter(None, [xs.SHADOWS.get(joint)])):
                if self._answers(motor) and register in self._motors[motor].registers:
                    self._motors[motor].registers[register] = value

    def registers(self, kind: str, name: str, register: str) -> list[int]:
        """get_motor_registers; ends before the first motor that does not answer."""
        values = []
        for motor in self.names(kind, name):
            if not self._answers(motor) or register not in self._motors[motor].registers:
                break
            values.append(self._motors[motor].registers[register])
        return values

    # ------------------------------------------------------------------ commands

    def command_group(self, name: str, command: Sequence[float], now: float) -> None:
        """commands/joint_group; the number of values must fit, nothing else is checked."""
        if name != xs.ARM_GROUP or len(command) != len(self._order):
            return
        values = dict(zip(self._order, command, strict=True))
        self._command_arm(values, self._group_mode[0], now)

    def command_single(self, name: str, command: float, now: float) -> None:
        """commands/joint_single."""
        if name == c.GRIPPER_JOINT:
            self._command_gripper(command, now)
        elif name in c.ARM_JOINTS:
            self._command_arm({name: command}, self._motors[name].mode, now)

    def _command_arm(self, values: dict[str, float], mode: str, now: float) -> None:
        arm = self._robot.arm
        here = arm.sample(now)
        asked = [values.get(name, here[i]) for i, name in enumerate(c.ARM_JOINTS)]
        goal, seconds = np.array(asked, dtype=np.float64), _FAR_S
        velocities: list[float] = []
        if mode in (xs.POSITION, "ext_position"):
            profile = self._motors[next(iter(values))].registers[xs.PROFILE_VELOCITY]
            seconds, velocities = max(profile * 1e-3, 1e-3), [0.0] * len(goal)
        elif mode == xs.VELOCITY:
            speeds = np.array([values.get(name, 0.0) for name in c.ARM_JOINTS])
            goal = np.clip(here + _FAR_S * speeds, c.JOINT_LOWER, c.JOINT_UPPER)
        else:
            return
        if np.isfinite(goal).all():
            arm.accept(c.ARM_JOINTS, [seconds], [goal.tolist()], [velocities], start=now, now=now)

    def _command_gripper(self, command: float, now: float) -> None:
        gripper, motor = self._robot.gripper, self._motors[c.GRIPPER_JOINT]
        if motor.mode == xs.PWM:
            self._pwm = command
            here = self._finger()
            end = c.FINGER_UPPER if command > 0.0 else c.FINGER_LOWER
            gripper.hold([here if abs(command) < _FRICTION_PWM else end])
            return
        finger = command / 2.0 if motor.mode == xs.LINEAR_POSITION else finger_from_motor(command)
        seconds = max(motor.registers[xs.PROFILE_VELOCITY] * 1e-3, 1e-3)
        if np.isfinite(finger):
            gripper.accept((c.LEFT_FINGER,), [seconds], [[finger]], [[0.0]], start=now, now=now)

    # ------------------------------------------------------------------ motors

    @property
    def changing(self) -> bool:
        """Whether a change of mode is going on."""
        return bool(self._limp)

    def step(self, now: float) -> None:
        """Takes and gives the torque of joints whose mode is being changed."""
        for joint, (start, end) in list(self._limp.items()):
            if now >= end:
                del self._limp[joint]
                self._set_torque(joint, True, now)
            elif now >= start:
                self._set_torque(joint, False, now)

    def reset(self, now: float) -> None:
        """Whole again, with torque; modes and profiles stay."""
        self._broken.clear()
        self._limp.clear()
        for name, motor in self._motors.items():
            motor.registers[xs.HARDWARE_ERROR] = 0
            self._set_torque(name, True, now)

    def break_motor(self, motor: str, failure: str, now: float) -> None:
        """Lets a motor die in one of the ways of `FAILURES`."""
        state = self._robot.world.joint_state()
        self._read = dict(zip(c.JOINT_STATE_NAMES, state.position.tolist(), strict=True))
        self._broken[motor] = failure
        if failure == OVERLOAD:
            self._motors[motor].registers[xs.HARDWARE_ERROR] = _OVERLOAD_BIT
            self._motors[motor].registers[xs.TORQUE] = 0
        if motor not in xs.SHADOWS.values():
            self._robot.world.set_torque(motor, False)

    def joint_state(self, state: JointState) -> tuple[list[str], JointState]:
        """Names and values as the driver publishes them, in its own order."""
        order = [*self._order, c.GRIPPER_JOINT, c.LEFT_FINGER, c.RIGHT_FINGER]
        at = [c.JOINT_STATE_NAMES.index(name) for name in order]
        position, velocity = state.position[at], state.velocity[at]
        effort = state.effort[at]
        if UNPLUGGED in self._broken.values():
            # One motor that does not answer spoils the read of all.
            finger = finger_from_motor(_ZERO_RAD)
            position = np.array([_ZERO_RAD] * 7 + [finger, -finger])
            velocity, effort = np.zeros(9), np.zeros(9)
        for i, name in enumerate(order):
            if self._broken.get(name) == FROZEN:
                position[i], velocity[i], effort[i] = self._read[name], 0.0, 0.0
        return order, JointState(state.time, position, velocity, effort)

    def _answers(self, motor: str) -> bool:
        return self._broken.get(motor) != UNPLUGGED

    def _apply_mode(self, motor: str, mode: str) -> None:
        self._motors[motor].mode = mode
        self._motors[motor].registers[xs.OPERATING_MODE] = _MODES[mode]

    def _set_torque(self, motor: str, on: bool, now: float) -> None:
        if not self._answers(motor) or self._broken.get(motor) == FROZEN:
            return
        state = self._motors[motor].registers
        if on and state[xs.HARDWARE_ERROR]:
            return
        state[xs.TORQUE] = int(on)
        if motor in xs.SHADOWS:
            self._motors[xs.SHADOWS[motor]].registers[xs.TORQUE] = int(on)
        if motor in xs.SHADOWS.values() or self._robot.world.has_torque(motor) == on:
            return
        self._robot.world.set_torque(motor, on)
        if motor == c.GRIPPER_JOINT:
            self._robot.gripper.hold([self._finger()])
        elif on:
            held = self._robot.arm.sample(now).copy()
            i = c.ARM_JOINTS.index(motor)
            held[i] = self._robot.world.joints()[i]
            self._robot.arm.hold(held)

    def _finger(self) -> float:
        return float(self._robot.world.joint_state().position[7])

    def _limit(self, motor: str) -> tuple[float, float, float]:
        if motor == c.GRIPPER_JOINT:
            return c.FINGER_LOWER, c.FINGER_UPPER, 1.0
        if motor not in c.ARM_JOINTS:
            return 0.0, 0.0, 0.0
        i = c.ARM_JOINTS.index(motor)
        return self._limits[0][i], self._limits[1][i], c.JOINT_MAX_SPEED[i]
