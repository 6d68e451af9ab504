"""What a driver of the WidowX 250S wants to hear, and what it says, in plain numbers.

The topics and joints of the joint_trajectory_controller route are those of Interbotix'
`interbotix_xsarm_ros_control/config/controllers/wx250s_controllers.yaml`. Its controller reads
a point with positions and velocities as the end of a cubic (ros2_controllers,
`joint_trajectory_controller/doc/trajectory.rst`), so a stream of such points moves smoothly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xvla_ros.arm import constants as c
from xvla_ros.arm.gripper import finger_from_closed, finger_from_motor

Array = NDArray[np.float64]

# A joint may be pushed a little beyond its limits. Interbotix' driver publishes -pi for what it
# could not read.
_BEYOND = 0.2
_LOWEST = np.array(c.JOINT_LOWER) - _BEYOND
_HIGHEST = np.array(c.JOINT_UPPER) + _BEYOND


@dataclass(frozen=True)
class TrajectoryPoint:
    """One-point joint trajectory, to be reached `time_from_start` seconds after its arrival."""

    joint_names: tuple[str, ...]
    positions: tuple[float, ...]
    """rad, or m for a finger."""
    velocities: tuple[float, ...]
    """rad/s; empty = left to the controller."""
    time_from_start: float


@dataclass(frozen=True, eq=False)
class ArmReading:
    """What a joint_states message says about the arm."""

    joints: Array
    """(6,) rad, in the order of `constants.ARM_JOINTS`."""
    velocities: Array | None
    """(6,) rad/s; None where the driver gives none."""
    finger: float | None
    """Position of the left finger, m; None where the driver does not give the gripper."""


def arm_point(
    joints: ArrayLike, velocities: ArrayLike | None, time_from_start: float
) -> TrajectoryPoint:
    """Point for `arm_controller`: joints (6,) in rad and, optionally, rad/s.

    Raises:
        ValueError: not six finite numbers, or the time is not positive.
    """
    speed = () if velocities is None else _six("joint velocities", velocities)
    _positive(time_from_start)
    return TrajectoryPoint(c.ARM_JOINTS, _six("joint angles", joints), speed, time_from_start)


def gripper_point(closed: float, time_from_start: float) -> TrajectoryPoint:
    """Point for `gripper_controller`, which drives the left finger; 0 = open, 1 = closed.

    Raises:
        ValueError: the fraction is not finite, or the time is not positive.
    """
    _positive(time_from_start)
    return TrajectoryPoint((c.LEFT_FINGER,), (finger_from_closed(closed),), (), time_from_start)


def read_joint_state(
    names: Sequence[str], positions: Sequence[float], velocities: Sequence[float] = ()
) -> ArmReading:
    """The arm's part of a joint_states message, found by name whatever the order.

    Args:
        names: joint names; more than the arm's are ignored.
        positions: one per name, rad or m.
        velocities: one per name, or empty (Interbotix' simulated driver sends none).

    Raises:
        ValueError: an arm joint is missing, not finite or where it cannot be, or the lengths
            differ.
    """
    if len(positions) != len(names):
        raise ValueError(f"joint state has {len(names)} names but {len(positions)} positions")
    index = {name: i for i, name in enumerate(names)}
    missing = [name for name in c.ARM_JOINTS if name not in index]
    if missing:
        raise ValueError(f"joint state lacks {', '.join(missing)}; it has {', '.join(names)}")
    order = [index[name] for name in c.ARM_JOINTS]
    joints = np.array([positions[i] for i in order], dtype=np.float64)
    if not np.isfinite(joints).all():
        bad = c.ARM_JOINTS[int(np.argmin(np.isfinite(joints)))]
        raise ValueError(f"joint state gives {bad} = {positions[index[bad]]}")
    outside = (joints < _LOWEST) | (joints > _HIGHEST)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"joint state gives {c.ARM_JOINTS[i]} = {joints[i]:.3f} rad, where it cannot be: a "
            "motor does not answer its driver, or it is another arm"
        )
    speed = None
    if len(velocities) == len(names):
        speed = np.array([velocities[i] for i in order], dtype=np.float64)
        speed = speed if np.isfinite(speed).all() else None
    return ArmReading(joints, speed, _finger(index, positions))


def _finger(index: dict[str, int], positions: Sequence[float]) -> float | None:
    """Left finger, else from the motor; ros2_control's driver leaves the finger NaN."""
    if c.LEFT_FINGER in index and np.isfinite(positions[index[c.LEFT_FINGER]]):
        return float(positions[index[c.LEFT_FINGER]])
    if c.GRIPPER_JOINT in index and np.isfinite(positions[index[c.GRIPPER_JOINT]]):
        return finger_from_motor(positions[index[c.GRIPPER_JOINT]])
    return None


def _six(what: str, values: ArrayLike) -> tuple[float, ...]:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (6,) or not np.isfinite(numbers).all():
        raise ValueError(f"{what} must be six finite numbers, not {numbers.tolist()}")
    return tuple(numbers.tolist())


def _positive(time_from_start: float) -> None:
    if not 0.0 < time_from_start < float("inf"):
        raise ValueError(f"time_from_start must be positive, not {time_from_start}")
