"""A chunk as a smooth SE(3) function of time.

Positions: cubic Hermite with Fritsch-Butland tangents (SIAM J. Sci. Stat. Comput. 5, 1984), which
never leave the interval between two knots, so that a path along the table does not dip into it.
The price is that tangents are taken per axis of the base frame. Rotations: the cubic quaternion
curve of Kim, Kim and Shin (SIGGRAPH 1995), which passes its knots with given angular velocities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xvla_ros import scalars
from xvla_ros.geometry import Pose

Array = NDArray[np.float64]

_IDENTITY = np.eye(3)
_TINY = 1e-300
# Up to so many phases plain floats are faster than numpy.
_FEW = 3
_TINY_ANGLE = 1e-12


def exp_rows(vectors: Array) -> Array:
    """Rotation matrices (n, 3, 3) of rotation vectors (n, 3)."""
    if len(vectors) == 1:
        return np.array((scalars.exp(*vectors[0].tolist()),))
    # So small an angle that sin(x) / x is exactly 1 stands for 0.
    angle = np.maximum(np.sqrt(np.einsum("ni,ni->n", vectors, vectors)), _TINY_ANGLE)
    a = np.sin(angle) / angle
    b = 2.0 * (np.sin(0.5 * angle) / angle) ** 2
    out = b[:, None, None] * vectors[:, :, None] * vectors[:, None, :]
    out += (1.0 - b * angle**2)[:, None, None] * _IDENTITY
    s = a[:, None] * vectors
    out[:, 0, 1] -= s[:, 2]
    out[:, 1, 0] += s[:, 2]
    out[:, 0, 2] += s[:, 1]
    out[:, 2, 0] -= s[:, 1]
    out[:, 1, 2] -= s[:, 0]
    out[:, 2, 1] += s[:, 0]
    return out


def log_rows(rotations: Array) -> Array:
    """Rotation vectors (n, 3) of rotation matrices (n, 3, 3) with angles well below pi."""
    sine_axis = 0.5 * np.stack(
        [
            rotations[:, 2, 1] - rotations[:, 1, 2],
            rotations[:, 0, 2] - rotations[:, 2, 0],
            rotations[:, 1, 0] - rotations[:, 0, 1],
        ],
        axis=-1,
    )
    sine = np.sqrt(np.einsum("ni,ni->n", sine_axis, sine_axis))
    angle = np.arctan2(sine, 0.5 * (np.trace(rotations, axis1=1, axis2=2) - 1.0))
    scale = np.where(sine > 1e-9, angle / np.maximum(sine, _TINY), 1.0)
    return scale[:, None] * sine_axis


def _harmonic_tangents(slopes: Array) -> Array:
    """Tangents (n + 1, 3) at the knots from the slopes (n, 3) between them, per component."""
    before, after = slopes[:-1], slopes[1:]
    product = before * after
    same_sign = product > 0.0
    inner = np.where(same_sign, 2.0 * product / np.where(same_sign, before + after, 1.0), 0.0)
    return np.concatenate([slopes[:1], inner, slopes[-1:]])


def _harmonic_rates(rates: Array) -> Array:
    """Angular velocities (n + 1, 3) at the knots from those (n, 3) between them.

    Harmonic in magnitude and along the bisector: independent of the frame, zero at a reversal.
    """
    before, after = rates[:-1], rates[1:]
    size0 = np.linalg.norm(before, axis=-1, keepdims=True)
    size1 = np.linalg.norm(after, axis=-1, keepdims=True)
    inner = (before * size1 + after * size0) / np.maximum(size0 + size1, _TINY)
    return np.concatenate([rates[:1], inner, rates[-1:]])


class Curve(Protocol):
    """Poses as a continuous function of a phase in seconds."""

    @property
    def duration(self) -> float:
        """Phase of the last pose, seconds; it is held from there on."""

    def sample(self, phases: Array) -> tuple[Array, Array]:
        """Positions (m, 3) and rotations (m, 3, 3) at ascending phases (m,)."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Poses as a function of the phase in seconds: knot k (from 0) is passed at k * step_dt.

    Continuously differentiable in position and rotation. After the last knot the last pose is
    held. Before phase 0 the first segment's polynomial goes on: a splice looks back by at most
    one command period.
    """

    step_dt: float
    positions: Array
    """(n + 1, 3), metres."""
    tangents: Array
    """(n + 1, 3), metres per step."""
    rotations: Array
    """(n + 1, 3, 3)."""
    controls: Array
    """(n, 3, 3): the three rotation vectors of each segment's Bezier curve."""

    @staticmethod
    def through(positions: Array, rotations: Array, step_dt: float) -> Trajectory:
        """The trajectory through n + 1 >= 2 knots, less than pi apart."""
        tangents = _harmonic_tangents(np.diff(positions, axis=0))
        steps = log_rows(np.swapaxes(rotations[:-1], 1, 2) @ rotations[1:])
        rates = _harmonic_rates(steps)
        first, third = rates[:-1] / 3.0, rates[1:] / 3.0
        second = log_rows(exp_rows(-first) @ exp_rows(steps) @ exp_rows(-third))
        controls = np.stack([first, second, third], axis=1)
        return Trajectory(step_dt, positions, tangents, rotations, controls)

    @property
    def duration(self) -> float:
        """Phase of the last knot, seconds."""
        return len(self.controls) * self.step_dt

    def sample(self, phases: Array) -> tuple[Array, Array]:
        """Positions (m, 3) and rotations (m, 3, 3) at phases (m,)."""
        if len(phases) <= _FEW:
            found = [self._at(phase) for phase in phases.tolist()]
            return np.array([p for p, _ in found]), np.array([r for _, r in found])
        x = np.minimum(phases / self.step_dt, float(len(self.controls)))
        k = np.minimum(np.maximum(x.astype(np.intp), 0), len(self.controls) - 1)
        start = (self.positions[k], self.tangents[k], self.rotations[k], self.controls[k])
        return _within(x - k, start, (self.positions[k + 1], self.tangents[k + 1]))

    def pose(self, phase: float) -> Pose:
        """The pose at one phase."""
        position, rotation = self._at(phase)
        return Pose(np.array(position), np.array(rotation))

    def _at(self, phase: float) -> tuple[list[float], scalars.AnyRows]:
        """Position and rotation at one phase, in plain floats: what a command period asks for."""
        count = len(self.controls)
        x = min(phase / self.step_dt, float(count))
        k = min(max(int(x), 0), count - 1)
        u = x - k
        v = 1.0 - u
        value0, slope0 = v * v * (1.0 + 2.0 * u), v * v * u
        value1, slope1 = u * u * (3.0 - 2.0 * u), -u * u * v
        p0, p1 = self.positions[k : k + 2].tolist()
        m0, m1 = self.tangents[k : k + 2].tolist()
        position = [
            value0 * a + slope0 * b + value1 * c + slope1 * d
            for a, b, c, d in zip(p0, m0, p1, m1, strict=True)
        ]
        rotation: scalars.AnyRows = self.rotations[k].tolist()
        weights = (1.0 - v * v * v, value1, u * u * u)
        for weight, (i, j, h) in zip(weights, self.controls[k].tolist(), strict=True):
            rotation = scalars.product(rotation, scalars.exp(weight * i, weight * j, weight * h))
        return position, rotation


class Bundle:
    """Several trajectories that are sampled at once."""

    def __init__(self, trajectories: Sequence[Trajectory]) -> None:
        counts = np.array([len(t.controls) for t in trajectories])
        self._last = counts[:, None] - 1
        self._step_dt = np.array([t.step_dt for t in trajectories])[:, None]
        # Every trajectory has one knot more than it has segments.
        self._first = np.concatenate([[0], np.cumsum(counts + 1)[:-1]])[:, None]
        self._positions = np.concatenate([t.positions for t in trajectories])
        self._tangents = np.concatenate([t.tangents for t in trajectories])
        self._rotations = np.concatenate([t.rotations for t in trajectories])
        spare = np.zeros((1, 3, 3))
        self._controls = np.concatenate([c for t in trajectories for c in (t.controls, spare)])

    def sample(self, phases: Array) -> tuple[Array, Array]:
        """Positions (n, m, 3) and rotations (n, m, 3, 3) of the n at their own phases (n, m)."""
        x = np.minimum(phases / self._step_dt, self._last + 1.0)
        k = np.minimum(np.maximum(x.astype(np.intp), 0), self._last)
        i = (self._first + k).ravel()
        start = (self._positions[i], self._tangents[i], self._rotations[i], self._controls[i])
        positions, rotations = _within(
            (x - k).ravel(), start, (self._positions[i + 1], self._tangents[i + 1])
        )
        return positions.reshape(*x.shape, 3), rotations.reshape(*x.shape, 3, 3)


def _within(
    u: Array, start: tuple[Array, Array, Array, Array], end: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Poses at fractions u (m,) of segments: positions (m, 3) and rotations (m, 3, 3).

    Args:
        u: 0 at the start of a segment, 1 at its end.
        start: positions (m, 3), tangents (m, 3), rotations (m, 3, 3) and controls (m, 3, 3).
        end: positions and tangents.
    """
    u = u[:, None]
    v = 1.0 - u
    positions = v * v * ((1.0 + 2.0 * u) * start[0] + u * start[1]) + u * u * (
        (3.0 - 2.0 * u) * end[0] - v * end[1]
    )
    basis = np.concatenate([1.0 - v**3, u * u * (3.0 - 2.0 * u), u**3], axis=1)
    turns = exp_rows((basis[:, :, None] * start[3]).reshape(-1, 3)).reshape(-1, 3, 3, 3)
    return positions, start[2] @ turns[:, 0] @ turns[:, 1] @ turns[:, 2]
