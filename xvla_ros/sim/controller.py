"""A joint trajectory controller: timed points in, position targets out.

Behaves as ros2_controllers' joint_trajectory_controller does in position control: a new
trajectory replaces the running one and starts from what is being commanded; points with
velocities are joined by cubics, others by straight lines; after the last point it holds.
Time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from xvla_ros.geometry import Array


class TrajectoryRefused(ValueError):
    """A trajectory that is not executed, with the reason in one line."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Points of a motion, in the controller's joint order."""

    times: Array
    """(n,) seconds on the clock of `sample`, strictly rising."""
    positions: Array
    """(n, joints)"""
    velocities: Array | None
    """(n, joints), or None for straight lines."""


class TrajectoryController:
    """Follows the newest trajectory of its joints.

    Args:
        joints: names, in the order of the positions given out.
        positions: what is commanded before the first trajectory.
    """

    def __init__(self, joints: Sequence[str], positions: ArrayLike) -> None:
        self.joints = tuple(joints)
        self._trajectory: Trajectory | None = None
        self.hold(positions)

    def hold(self, positions: ArrayLike) -> None:
        """Forgets the trajectory and commands these positions from now on."""
        self._position = np.array(positions, dtype=np.float64).reshape(len(self.joints))
        self._velocity = np.zeros(len(self.joints))
        self._start_position = self._position
        self._start_velocity = self._velocity
        self._start_time = 0.0
        self._trajectory = None

    def accept(
        self,
        names: Sequence[str],
        times: Sequence[float],
        positions: Sequence[Sequence[float]],
        velocities: Sequence[Sequence[float]],
        *,
        start: float,
        now: float,
    ) -> None:
        """Replaces the running trajectory.

        Args:
            names: joints of the columns, in any order.
            times: seconds from `start` to each point.
            positions: a row for each point.
            velocities: a row for each point; empty rows where there are none.
            start: time from which `times` count.
            now: the present time, from which the new motion leads to its first point.

        Raises:
            TrajectoryRefused: wrong joints, lengths, order of times, a number that is not finite,
                or all points in the past; the running trajectory goes on.
        """
        new = self._checked(names, times, positions, velocities, start)
        if new.times[-1] < now and start != now:
            raise TrajectoryRefused(
                f"ends {now - new.times[-1]:.3f} s in the past: are the clocks the same?"
            )
        self._start_position = self.sample(now)
        self._start_velocity = self._velocity
        self._start_time = now
        self._trajectory = new

    def sample(self, now: float) -> Array:
        """Positions (joints,) to command now."""
        trajectory = self._trajectory
        if trajectory is None:
            return self._position
        after = int(np.searchsorted(trajectory.times, now, side="right"))
        if after == len(trajectory.times):
            self._position = trajectory.positions[-1]
            self._velocity = np.zeros_like(self._position)
        else:
            self._position, self._velocity = self._segment(trajectory, after, now)
        return self._position

    def _segment(self, trajectory: Trajectory, after: int, now: float) -> tuple[Array, Array]:
        """Position and velocity on the way to the point `after`."""
        t1, p1 = trajectory.times[after], trajectory.positions[after]
        v1 = None if trajectory.velocities is None else trajectory.velocities[after]
        # A point that was already due when the trajectory came is not run to.
        first = after == 0 or trajectory.times[after - 1] <= self._start_time
        if first:
            t0, p0, v0 = self._start_time, self._start_position, self._start_velocity
        else:
            t0, p0 = trajectory.times[after - 1], trajectory.positions[after - 1]
            v0 = np.zeros_like(p0) if v1 is None else trajectory.velocities[after - 1]  # type: ignore[index]
        span = t1 - t0
        s = min(max((now - t0) / span, 0.0), 1.0)
        if v1 is None:
            return p0 + s * (p1 - p0), (p1 - p0) / span
        return _hermite(s, span, p0, v0, p1, v1)

    def _checked(
        self,
        names: Sequence[str],
        times: Sequence[float],
        positions: Sequence[Sequence[float]],
        velocities: Sequence[Sequence[float]],
        start: float,
    ) -> Trajectory:
        order = self._order(names)
        if not positions or len(times) != len(positions) or len(velocities) != len(positions):
            raise TrajectoryRefused("no points")
        due = np.asarray(times, dtype=np.float64)
        if not np.isfinite(due).all() or due[0] < 0.0 or np.any(np.diff(due) <= 0.0):
            raise TrajectoryRefused("time_from_start must rise from point to point")
        where = self._table("positions", positions, order)
        with_velocity = any(len(row) for row in velocities)
        speed = self._table("velocities", velocities, order) if with_velocity else None
        return Trajectory(start + due, where, speed)

    def _order(self, names: Sequence[str]) -> list[int]:
        """Column of each of our joints in the message."""
        if sorted(names) != sorted(self.joints):
            raise TrajectoryRefused(
                f"joints {', '.join(names) or '(none)'} instead of {', '.join(self.joints)}"
            )
        return [list(names).index(joint) for joint in self.joints]

    def _table(self, what: str, rows: Sequence[Sequence[float]], order: list[int]) -> Array:
        for i, row in enumerate(rows):
            if len(row) != len(order):
                raise TrajectoryRefused(f"point {i} has {len(row)} {what} for {len(order)} joints")
        table = np.asarray(rows, dtype=np.float64)[:, order]
        if not np.isfinite(table).all():
            i, joint = np.argwhere(~np.isfinite(table))[0]
            raise TrajectoryRefused(
                f"point {i}: {what} of {self.joints[joint]} is {table[i, joint]}"
            )
        return table


def _hermite(
    s: float, span: float, p0: Array, v0: Array, p1: Array, v1: Array
) -> tuple[Array, Array]:
    """Cubic with given ends at the fraction s of its time: position and velocity."""
    a, b = span * v0, span * v1
    rise = p1 - p0
    c2, c3 = 3.0 * rise - 2.0 * a - b, a + b - 2.0 * rise
    position = p0 + s * (a + s * (c2 + s * c3))
    return position, (a + s * (2.0 * c2 + 3.0 * s * c3)) / span
