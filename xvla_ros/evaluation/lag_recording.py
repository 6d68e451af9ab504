"""Commands and measurements of an arm, collected from messages: out of a bag, or live."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.arm.mapping import read_joint_state
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.lag import Lag, Signal, measure_lag

_ARM_RAD = 0.05
_FINGER_M = 0.005
_CDR_HEADER = 4


class LagRecording:
    """What was commanded when, and what was measured when.

    Args:
        robot: name of the arm, which its topics begin with.
    """

    def __init__(self, robot: str = names.ROBOT) -> None:
        self._robot = robot
        self._arm: list[tuple[float, list[float]]] = []
        self._gripper: list[tuple[float, list[float]]] = []
        self._joints: list[tuple[float, list[float]]] = []
        self._fingers: list[tuple[float, list[float]]] = []

    @property
    def topics(self) -> tuple[str, ...]:
        """What is listened to."""
        return (
            names.joint_states(self._robot),
            names.arm_trajectory(self._robot),
            names.gripper_trajectory(self._robot),
            names.xs_joint_group(self._robot),
        )

    @property
    def heard(self) -> bool:
        """Whether commands of arm and gripper and joint states have come."""
        return bool(self._arm and self._gripper and self._joints)

    def take(self, topic: str, time: float, message: Any) -> None:
        """Takes a message that was published at a time in seconds."""
        states, arm, gripper, group = self.topics
        if topic == states:
            self._take_joint_states(message)
        elif topic == arm and message.points:
            position = dict(zip(message.joint_names, message.points[0].positions, strict=True))
            self._arm.append((time, [float(position[name]) for name in constants.ARM_JOINTS]))
        elif topic == gripper and message.points:
            self._gripper.append((time, [float(message.points[-1].positions[0])]))
        elif topic == group and len(message.cmd) == len(constants.ARM_JOINTS):
            self._arm.append((time, [float(value) for value in message.cmd]))

    def arm(self) -> Lag:
        """Lag of the arm's joints.

        Raises:
            UsageError: nothing can be said, and why.
        """
        return self._lag("arm", self._arm, self._joints, _ARM_RAD, held=False)

    def gripper(self) -> Lag:
        """Lag of the gripper: to half of its way.

        Raises:
            UsageError: nothing can be said, and why.
        """
        return self._lag("gripper", self._gripper, self._fingers, _FINGER_M, held=True)

    def _take_joint_states(self, message: Any) -> None:
        stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        try:
            reading = read_joint_state(list(message.name), list(message.position))
        except ValueError:
            # Another publisher on the topic, or a driver that starts up.
            return
        self._joints.append((stamp, reading.joints.tolist()))
        if reading.finger is not None:
            self._fingers.append((stamp, [reading.finger]))

    def _lag(
        self,
        what: str,
        commands: list[tuple[float, list[float]]],
        measured: list[tuple[float, list[float]]],
        smallest: float,
        held: bool,
    ) -> Lag:
        states, arm, gripper, group = self.topics
        if len(measured) < 2:
            raise UsageError(f"{what}: no usable message on {states}")
        if len(commands) < 2:
            wanted = f"{arm} or {group}" if what == "arm" else gripper
            raise UsageError(f"{what}: no commands on {wanted}")
        return measure_lag(what, _signal(commands, held), _signal(measured, False), smallest)


def _signal(samples: list[tuple[float, list[float]]], held: bool) -> Signal:
    """In order of time, each time once."""
    ordered = dict(sorted(samples))
    return Signal(np.array(list(ordered)), np.array(list(ordered.values())), held)


def stamp_of(data: bytes) -> float:
    """Seconds of the header's stamp that a CDR message begins with, without decoding the rest."""
    order = "<" if data[1] & 1 else ">"
    seconds, nanoseconds = struct.unpack_from(f"{order}iI", data, _CDR_HEADER)
    return float(seconds) + 1e-9 * float(nanoseconds)
