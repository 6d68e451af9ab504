"""Where the arm really was: recorded joint states as poses at any time."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xvla_ros.arm.constants import ARM_JOINTS, GRIPPER_JOINT, LEFT_FINGER
from xvla_ros.arm.gripper import closed_from_finger, finger_from_motor
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Pose

Array = NDArray[np.float64]

_SAME_TIME_S = 1e-9


class JointReader:
    """Reads joint states by name, many with the same names one after another."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._arm: list[int] | None = None
        self._finger: int | None = None
        self._motor: int | None = None

    def row(self, names: Sequence[str], positions: Sequence[float]) -> Array | None:
        """Joints (6,) in rad and the gripper's closed fraction (NaN = unknown).

        None where the message has not all of the arm's joints, or one is not finite.
        """
        if names is not self._names:
            self._find(names)
        if self._arm is None or len(positions) != len(self._names):
            return None
        arm = [float(positions[k]) for k in self._arm]
        if not all(map(math.isfinite, arm)):
            return None
        return np.array([*arm, self._closed(positions)])

    def _find(self, names: Sequence[str]) -> None:
        index = {name: k for k, name in enumerate(names)}
        self._names = names
        complete = index.keys() >= set(ARM_JOINTS)
        self._arm = [index[name] for name in ARM_JOINTS] if complete else None
        self._finger, self._motor = index.get(LEFT_FINGER), index.get(GRIPPER_JOINT)

    def _closed(self, positions: Sequence[float]) -> float:
        """From the left finger, else the motor; ros2_control's driver leaves the finger NaN."""
        if self._finger is not None and math.isfinite(finger := float(positions[self._finger])):
            return closed_from_finger(finger)
        if self._motor is not None and math.isfinite(motor := float(positions[self._motor])):
            return closed_from_finger(finger_from_motor(motor))
        return math.nan


@dataclass(frozen=True, eq=False)
class Poses:
    """Poses of `ee_gripper_link` at n times; NaN where they are not known."""

    positions: Array
    """(n, 3), metres."""
    rotations: Array
    """(n, 3, 3)."""
    closed: Array
    """(n,), fraction of the gripper's way, 1 = closed."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """(n,), whether the pose is known."""
        return np.isfinite(self.positions[:, 0])


class MotionTrack:
    """Joint states of the last seconds.

    Args:
        max_gap: no interpolation across a longer pause, seconds.
    """

    def __init__(self, max_gap: float) -> None:
        self._max_gap = max_gap
        self._arm = WidowX250s()
        self._stamps: list[float] = []
        self._rows: list[Array] = []

    @property
    def latest(self) -> float:
        """Stamp of the newest joint state; -inf without one."""
        return self._stamps[-1] if self._stamps else -np.inf

    @property
    def earliest(self) -> float:
        """Stamp of the oldest joint state kept; inf without one."""
        return self._stamps[0] if self._stamps else np.inf

    def add(self, stamp: float, row: Array) -> None:
        """Keeps a row of `JointReader`; one that is late is left out."""
        if stamp > self.latest:
            self._stamps.append(stamp)
            self._rows.append(row)

    def stamps(self, first: float, last: float) -> list[float]:
        """Stamps of the joint states from one time to another, both included."""
        return self._stamps[bisect_left(self._stamps, first) : bisect_right(self._stamps, last)]

    def forget(self, before: float) -> None:
        """Drops what no time from `before` on can need."""
        first = bisect_right(self._stamps, before) - 1
        # Lists shrink at their front in linear time, so not at every call.
        if first > 1000 or first > len(self._stamps) // 2 > 0:
            del self._stamps[:first], self._rows[:first]

    def clear(self) -> None:
        """Forgets everything."""
        self._stamps.clear()
        self._rows.clear()

    def joints(self, time: float) -> Array:
        """Joints (6,) and closed fraction at a time; NaN (7,) where they are not known."""
        stamps = self._stamps
        after = bisect_left(stamps, time - _SAME_TIME_S)
        if after == len(stamps):
            return np.full(7, np.nan)
        if stamps[after] <= time + _SAME_TIME_S:
            return self._rows[after]
        if after == 0 or stamps[after] - stamps[after - 1] > self._max_gap:
            return np.full(7, np.nan)
        before = after - 1
        share = (time - stamps[before]) / (stamps[after] - stamps[before])
        return np.asarray(self._rows[before] + share * (self._rows[after] - self._rows[before]))

    def pose_between(self, first: float, last: float, time: float) -> Pose:
        """The pose at a time, interpolated between the joint states of two stamps around it."""
        before, after = self.joints(first), self.joints(last)
        share = (time - first) / (last - first) if last > first else 0.0
        return self._arm.fk((before + share * (after - before))[:6])

    def poses(self, times: ArrayLike) -> Poses:
        """Poses at times (n,)."""
        rows = [self.joints(float(time)) for time in np.asarray(times).ravel()]
        n = len(rows)
        result = Poses(np.full((n, 3), np.nan), np.full((n, 3, 3), np.nan), np.full(n, np.nan))
        for k, row in enumerate(rows):
            if np.isfinite(row[0]):
                pose = self._arm.fk(row[:6])
                result.positions[k], result.rotations[k] = pose.position, pose.rotation
                result.closed[k] = row[6]
        return result
