"""The commanded path: a curve plus the offset of a splice that fades out.

A new curve is followed at once. What was being commanded differs from it by an offset in
SE(3) and by a difference in velocity; both are added to the curve and fade to zero, so that
the command is continuously differentiable whatever the chunk and whatever its latency.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.geometry import Pose, skew, so3_exp, so3_log
from xvla_ros.scheduler.trajectory import Curve, exp_rows

Array = NDArray[np.float64]

# Half-width in seconds of the central differences that measure velocities along a path.
_DIFFERENCE = 1e-4
_SMALL_ANGLE = 1e-4
_IDENTITY = np.eye(3)


@dataclass(frozen=True, eq=False)
class Twist:
    """Velocity per second of plan time: linear in the base frame, angular in the body frame."""

    linear: Array
    """(3,), m/s."""
    angular: Array
    """(3,), rad/s."""

    def within(self, linear_speed: float, angular_speed: float) -> Twist:
        """The same directions, no faster than two speeds."""
        return Twist(_shortened(self.linear, linear_speed), _shortened(self.angular, angular_speed))


@dataclass(frozen=True, eq=False)
class Fade:
    """An offset that fades out between two phases.

    Weights are the quintic Hermite functions: value 1 and slope 1 at the start, everything
    else, accelerations included, zero at both ends.
    """

    start: float
    duration: float
    """Seconds."""
    shift: Array
    """(3,), metres in the base frame."""
    shift_rate: Array
    """(3,), m/s."""
    turn: Array
    """(3,), rotation vector in the body frame of the curve."""
    turn_rate: Array
    """(3,), its derivative, rad/s."""

    def sample(self, phases: Array) -> tuple[Array, Array]:
        """Offsets at phases (m,): positions (m, 3) and rotation vectors (m, 3)."""
        u: Array | float
        if len(phases) == 1:
            # Plain floats are several times faster for the one phase of a command.
            u = min(max((float(phases[0]) - self.start) / self.duration, 0.0), 1.0)
        else:
            u = np.minimum(np.maximum((phases - self.start) / self.duration, 0.0), 1.0)[:, None]
        value = 1.0 + u**3 * (-10.0 + u * (15.0 - 6.0 * u))
        slope = self.duration * (u + u**3 * (-6.0 + u * (8.0 - 3.0 * u)))
        shift = value * self.shift + slope * self.shift_rate
        turn = value * self.turn + slope * self.turn_rate
        return shift.reshape(-1, 3), turn.reshape(-1, 3)

    @property
    def end(self) -> float:
        """Phase from which nothing is left of the offset."""
        return self.start + self.duration


@dataclass(frozen=True, eq=False)
class Box:
    """An axis-aligned region of the base frame."""

    low: Array
    """(3,), metres."""
    high: Array
    """(3,), metres."""

    def nearest(self, positions: Array) -> Array:
        """The points (..., 3) of the box nearest to positions (..., 3)."""
        return np.asarray(np.minimum(np.maximum(positions, self.low), self.high))


@dataclass(frozen=True, eq=False)
class Path:
    """Commanded poses as a function of the phase of one chunk, inside a box if there is one."""

    curve: Curve
    fade: Fade | None = None
    box: Box | None = None

    @property
    def duration(self) -> float:
        """Phase of the last pose, seconds."""
        return self.curve.duration

    def sample(self, phases: Array) -> tuple[Array, Array]:
        """Positions (m, 3) and rotations (m, 3, 3) at phases (m,)."""
        positions, rotations = self.curve.sample(phases)
        if self.fade is not None and float(phases[0]) < self.fade.end:
            shift, turn = self.fade.sample(phases)
            positions, rotations = positions + shift, rotations @ exp_rows(turn)
        return positions if self.box is None else self.box.nearest(positions), rotations

    def pose(self, phase: float) -> Pose:
        """The pose at one phase."""
        positions, rotations = self.sample(np.array([phase]))
        return Pose(positions[0], rotations[0])

    def twist(self, phase: float) -> Twist:
        """The velocity at a phase."""
        positions, rotations = self.sample(np.array([phase - _DIFFERENCE, phase + _DIFFERENCE]))
        return Twist(
            (positions[1] - positions[0]) / (2.0 * _DIFFERENCE),
            so3_log(rotations[0].T @ rotations[1]) / (2.0 * _DIFFERENCE),
        )


def faded(
    curve: Curve, phase: float, new: Pose, duration: float, command: Pose, twist: Twist | None
) -> Path:
    """The path that leaves `command` with velocity `twist` at a phase, where the curve is `new`.

    After `duration` seconds it is the curve itself. With a duration of 0 it is the curve at once,
    offset or not. A command at rest (no twist) has no velocity to keep: plan time starts from
    rate 0.
    """
    if duration <= 0.0:
        return Path(curve)
    turn = so3_log(new.rotation.T @ command.rotation)
    shift_rate, turn_rate = np.zeros(3), np.zeros(3)
    if twist is not None:
        new_twist = Path(curve).twist(phase)
        shift_rate = twist.linear - new_twist.linear
        # With R = R_new exp(r), the body velocity is exp(-r) w_new + J(r) dr/dt.
        missing = twist.angular - so3_exp(-turn) @ new_twist.angular
        turn_rate = _inverse_right_jacobian(turn) @ missing
    shift = command.position - new.position
    return Path(curve, Fade(phase, duration, shift, shift_rate, turn, turn_rate))


def _shortened(vector: Array, longest: float) -> Array:
    length = float(np.linalg.norm(vector))
    return vector if length <= longest else np.asarray(vector * (longest / length))


def _inverse_right_jacobian(vector: Array) -> Array:
    """Rotation vector's rate for a body velocity (Chirikjian, 2012, section 10.8.3)."""
    angle = float(np.linalg.norm(vector))
    k = skew(vector)
    if angle < _SMALL_ANGLE:
        factor = 1.0 / 12.0
    else:
        factor = 1.0 / angle**2 - (1.0 + np.cos(angle)) / (2.0 * angle * np.sin(angle))
    return np.asarray(_IDENTITY + 0.5 * k + factor * k @ k)
