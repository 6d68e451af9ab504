"""What the executor knows of an arm, reads from it and tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.setpoint import SchedulerState

Array = NDArray[np.float64]


class ArmModel(Protocol):
    """Kinematics of a six-joint arm."""

    lower: Array
    """(6,) lowest joint angles, rad."""
    upper: Array
    """(6,) highest joint angles, rad."""
    max_speed: Array
    """(6,) highest joint speeds, rad/s."""

    def fk(self, joints: Array, /) -> Pose:
        """Pose of the end effector in the base frame for joint angles (6,)."""

    def ik(self, pose: Pose, seed: Array, /) -> Array | None:
        """Joint angles (6,) of a pose nearest to a seed, None where there are none."""


@dataclass(frozen=True, eq=False)
class JointMeasurement:
    """One message of joint states, by the arm's own joint order."""

    stamp: float
    """Seconds on the clock of `tick`."""
    positions: Array
    """(6,), rad."""
    efforts: Array | None = None
    """(6,) in the unit of `limits.max_effort`, None where the driver has none."""
    gripper_closed: float | None = None
    """0 = open, 1 = closed; None or not finite where the driver does not say."""

    def gripper_or(self, otherwise: float) -> float:
        """How far the gripper is closed, in [0, 1], if that is known."""
        if self.gripper_closed is None or not np.isfinite(self.gripper_closed):
            return otherwise
        return min(max(self.gripper_closed, 0.0), 1.0)


def staleness(measured: JointMeasurement | None, now: float, max_age_s: float) -> str:
    """Why joint states cannot be used now, or empty."""
    if measured is None:
        return "no joint states have come"
    if measured.positions.shape != (6,) or not np.isfinite(measured.positions).all():
        return "the joint states are not six finite numbers"
    age = now - measured.stamp
    # A stamp that is not a number fails every comparison and must not pass.
    if -max_age_s <= age <= max_age_s:
        return ""
    if age > max_age_s:
        return f"joint states are {age:.2f} s old"
    return f"clocks differ: joint states are {-age:.2f} s in the future"


@dataclass(frozen=True, eq=False)
class ArmCommand:
    """What one tick decides."""

    publish: bool
    """Whether the command may reach the arm; nothing else may be sent."""
    joints: Array | None
    """(6,), rad; None until the joint states have come once."""
    velocities: Array | None
    """(6,), rad/s since the previous command."""
    gripper_closed: float
    """0 = open, 1 = closed."""
    pose: Pose | None
    """Of the end effector at `joints`."""
    state: SchedulerState
    sequence: int
    """Of the chunk in execution; 0 = none."""
    rate: float
    """Plan time per time."""
    remaining: float
    """Seconds of the trusted horizon."""
    limits: tuple[str, ...]
    """The limits that acted on this command."""
    message: str
    """Why the arm rests, or empty."""

    @staticmethod
    def unknown(reason: str) -> ArmCommand:
        """The command for an arm whose pose is not known: none."""
        state = SchedulerState.SUSPENDED
        return ArmCommand(False, None, None, 0.0, None, state, 0, 0.0, 0.0, (), reason)


@dataclass(frozen=True, eq=False)
class HeldCommand:
    """What the servos were told last, and hold."""

    joints: Array
    """(6,), rad."""
    gripper_closed: float
    """0 = open, 1 = closed."""


@dataclass(frozen=True)
class Outcome:
    """Answer to a request of the operator."""

    accepted: bool
    message: str


@dataclass(frozen=True)
class ExecutorStatus:
    """What is to be known of an executor besides its last command."""

    state: SchedulerState
    message: str
    actuating: bool
    tracking_error: tuple[float, float]
    """Between command and measurement: metres, radians."""
    limits: dict[str, int]
    """How often each limit acted."""
