"""Curves made of several chunks, for the strategies that mix them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.scheduler.trajectory import Bundle, Curve, Trajectory, exp_rows, log_rows

Array = NDArray[np.float64]

# Two rotations further apart than this, radians, have no mean that is safe to command: at pi it
# jumps to the other side.
LARGEST_SPREAD = 2.0
# Spreads are judged at so many points of a window.
_SPREAD_SAMPLES = 12
# A chunk that leaves at once takes so many seconds.
_AT_ONCE_S = 1e-12
# Steps of the iteration to the mean; each squares an error that is below 1e-2 rad at first.
_MEAN_STEPS = 2


def ramp(u: Array) -> Array:
    """From 0 to 1 for u from 0 to 1, with no first and second derivative at both ends."""
    u = np.minimum(np.maximum(u, 0.0), 1.0)
    return np.asarray(u**3 * (10.0 - u * (15.0 - 6.0 * u)))


def largest_angles(first: Array, second: Array) -> Array:
    """Largest angle (...) in radians between rotations (..., m, 3, 3) of the same m phases."""
    cosine = 0.5 * (np.einsum("...ij,...ij->...", first, second) - 1.0)
    return np.asarray(np.arccos(np.clip(cosine.min(axis=-1), -1.0, 1.0)))


def window(start: float, end: float) -> Array:
    """Phases at which the angle between two curves is judged."""
    return np.linspace(start, end, _SPREAD_SAMPLES)


@dataclass(frozen=True, eq=False)
class Crossfade:
    """One curve that becomes another over a time, both being live.

    Positions are mixed in the base frame, rotations along the shortest way between the two.
    """

    old: Curve
    new: Curve
    ahead: float
    """The old curve's phase minus the new one's, seconds."""
    start: float
    """Phase of the new curve at which the old one still has the whole weight."""
    length: float
    """Seconds."""

    @property
    def duration(self) -> float:
        """Phase of the new curve's last pose, seconds."""
        return self.new.duration

    @property
    def end(self) -> float:
        """Phase from which nothing is left of the old curve."""
        return self.start + self.length

    def sample(self, phases: Array) -> tuple[Array, Array]:
        """Positions (m, 3) and rotations (m, 3, 3) at ascending phases (m,)."""
        positions, rotations = self.new.sample(phases)
        if float(phases[0]) >= self.end:
            return positions, rotations
        weight = 1.0 - ramp((phases - self.start) / self.length)[:, None]
        old_positions, old_rotations = self.old.sample(phases + self.ahead)
        turns = log_rows(np.swapaxes(rotations, 1, 2) @ old_rotations)
        return (
            positions + weight * (old_positions - positions),
            rotations @ exp_rows(weight * turns),
        )


@dataclass(frozen=True, eq=False)
class Member:
    """A chunk of an ensemble."""

    trajectory: Trajectory
    ahead: float
    """Its phase minus that of the ensemble, seconds."""
    end: float
    """Its own phase at which it is no longer trusted, seconds."""
    taper: float = 0.0
    """Seconds before its end over which it leaves; 0 = at once."""


class Ensemble:
    """The weighted mean of the chunks that cover a time; the phase is that of the newest.

    Weights are exp(-decay * k), k = 0 for the oldest chunk that is in force (Zhao et al.,
    "Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware", 2023). A chunk that
    leaves fades out before its end, so that the mean does not jump. The mean rotation is that of
    the rotation group (Moakher, SIAM J. Matrix Anal. Appl. 24, 2002).

    Attributes:
        members: the oldest first; the newest is always in force.
        shares: (n,) weights while none is leaving, up to a common factor.

    Args:
        members: see above.
        decay: see above.
    """

    def __init__(self, members: Sequence[Member], decay: float) -> None:
        self.members = tuple(members)
        self.shares = np.exp(-decay * np.arange(len(self.members)))
        self._taper = np.array([m.taper for m in self.members])[:, None]
        self._ahead = np.array([m.ahead for m in self.members])[:, None]
        self._ends = np.array([m.end for m in self.members])[:, None] - self._ahead
        self._bundle = Bundle([m.trajectory for m in self.members])

    @property
    def duration(self) -> float:
        """Phase of the newest chunk's last pose, seconds."""
        return self.members[-1].trajectory.duration

    def weights(self, phases: Array) -> Array:
        """Weights (n, m) of the n members at phases (m,), which add up to 1."""
        left = self._ends - phases
        inside = ramp(left / np.maximum(self._taper, _AT_ONCE_S))
        inside[-1] = 1.0
        weights = self.shares[:, None] * inside
        return np.asarray(weights / weights.sum(axis=0))

    def sample(self, phases: Array) -> tuple[Array, Array]:
        """Positions (m, 3) and rotations (m, 3, 3) at ascending phases (m,)."""
        weights = self.weights(phases)
        positions, rotations = self._bundle.sample(phases + self._ahead)
        mean = rotations[-1]
        for _ in range(_MEAN_STEPS):
            apart = np.swapaxes(mean, 1, 2) @ rotations
            turns = log_rows(apart.reshape(-1, 3, 3)).reshape(positions.shape)
            mean = mean @ exp_rows(np.einsum("nm,nmi->mi", weights, turns))
        return np.einsum("nm,nmi->mi", weights, positions), mean
