"""The newest joint states, as the executor wants them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sensor_msgs.msg import JointState

from xvla_ros.arm import constants
from xvla_ros.arm.gripper import closed_from_finger
from xvla_ros.arm.mapping import read_joint_state
from xvla_ros.nodes.conversions import seconds
from xvla_ros.scheduler.arm_io import JointMeasurement


class JointInput:
    """Keeps one message and its age.

    How old a message is when it comes, the ROS clock says; from then on steady time counts, so
    that a clock that stands still or jumps cannot make dead joint states look alive.

    Attributes:
        count: messages taken.
        rejected: messages that could not be used.
        rejection: why the newest message could not be used, or empty.
    """

    def __init__(self) -> None:
        self.count = 0
        self.rejected = 0
        self.rejection = ""
        self._newest: JointMeasurement | None = None
        self._delay = 0.0
        self._arrival = 0.0

    def take(self, message: JointState, now: float, steady: float) -> None:
        """Keeps a message that arrives at `now` (ROS clock) and `steady`, both in seconds.

        Raises:
            ValueError: a joint of the arm is missing or not finite; what was kept stays.
        """
        try:
            reading = read_joint_state(message.name, message.position, message.velocity)
        except ValueError as error:
            self.rejected += 1
            self.rejection = str(error)
            raise
        self.rejection = ""
        stamp = seconds(message.header.stamp)
        self.count += 1
        self._delay = now - stamp
        self._arrival = steady
        self._newest = JointMeasurement(
            stamp,
            reading.joints,
            _efforts(message),
            None if reading.finger is None else closed_from_finger(reading.finger),
        )

    def age(self, steady: float) -> float:
        """Seconds since the newest message was stamped; infinite before the first."""
        if self._newest is None:
            return float("inf")
        return self._delay + steady - self._arrival

    def measurement(self, now: float, steady: float) -> JointMeasurement | None:
        """The newest message, stamped so that its age is right at `now`."""
        if self._newest is None:
            return None
        return replace(self._newest, stamp=now - self.age(steady))


def _efforts(message: JointState) -> np.ndarray | None:
    """Efforts (6,) of the arm joints; the simulated Interbotix driver has none."""
    if len(message.effort) != len(message.name):
        return None
    efforts = dict(zip(message.name, message.effort, strict=True))
    values = np.array([efforts[name] for name in constants.ARM_JOINTS])
    return values if np.isfinite(values).all() else None
