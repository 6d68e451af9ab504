"""Joint-space moves with bounded speed, acceleration and jerk, by Ruckig."""

from __future__ import annotations

import numpy as np
import ruckig
from numpy.typing import NDArray

from xvla_ros.scheduler.params import MoveParams

Array = NDArray[np.float64]

# A halt may brake harder than an ordinary move starts.
_HALT_FACTOR = 4.0


class JointMove:
    """One move from joint angles (n,) with velocities (n,) to rest at a target (n,)."""

    def __init__(self, joints: Array, velocities: Array, target: Array, params: MoveParams) -> None:
        self._params = params
        self._elapsed = 0.0
        self._halted = False
        self._trajectory = self._solve(joints, velocities, np.zeros(len(joints)), target)

    @property
    def done(self) -> bool:
        """Whether the move has come to rest."""
        return self._elapsed >= float(self._trajectory.duration)

    @property
    def duration(self) -> float:
        """Seconds that the whole move takes."""
        return float(self._trajectory.duration)

    def advance(self, elapsed: float) -> Array:
        """Joint angles (n,) after `elapsed` more seconds."""
        self._elapsed += elapsed
        return np.array(self._trajectory.at_time(self._elapsed)[0])

    def ahead(self, count: int) -> tuple[Array, float]:
        """Joint angles (count, n) evenly spread over the move, and the seconds between them."""
        times = np.linspace(0.0, self.duration, count)
        return np.array([self._trajectory.at_time(t)[0] for t in times]), float(times[1])

    def halt(self) -> None:
        """Comes to rest as soon as possible instead of at the target."""
        if self._halted or self.done:
            return
        self._halted = True
        position, velocity, acceleration = map(np.array, self._trajectory.at_time(self._elapsed))
        self._trajectory = self._solve(position, velocity, acceleration, None)
        self._elapsed = 0.0

    def _solve(
        self, joints: Array, velocities: Array, accelerations: Array, target: Array | None
    ) -> ruckig.Trajectory:
        n = len(joints)
        factor = 1.0 if target is not None else _HALT_FACTOR
        request = ruckig.InputParameter(n)
        request.current_position = joints.tolist()
        request.current_velocity = velocities.tolist()
        request.current_acceleration = accelerations.tolist()
        request.target_velocity = [0.0] * n
        request.max_velocity = [self._params.max_speed] * n
        request.max_acceleration = [factor * self._params.max_acceleration] * n
        request.max_jerk = [factor * self._params.max_jerk] * n
        if target is None:
            request.control_interface = ruckig.ControlInterface.Velocity
        else:
            request.target_position = target.tolist()
        trajectory = ruckig.Trajectory(n)
        result = ruckig.Ruckig(n).calculate(request, trajectory)
        if result not in (ruckig.Result.Working, ruckig.Result.Finished):
            raise ValueError(f"no joint move to {target}: {result}")
        return trajectory


def slowed(params: MoveParams, factor: float) -> MoveParams:
    """The bounds with which the same move takes 1 / factor of the time."""
    return MoveParams(
        params.max_speed * factor,
        params.max_acceleration * factor**2,
        params.max_jerk * factor**3,
    )
