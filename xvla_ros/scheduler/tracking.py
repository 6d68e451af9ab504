"""Notices an arm that does not follow its command, or strains against something."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.limits import EFFORT, TRACKING
from xvla_ros.scheduler.params import LimitParams, TrackingParams, Vector6

Array = NDArray[np.float64]


class TrackingMonitor:
    """Compares command and measurement.

    Attributes:
        error: last distance between command and measurement (m, rad).
    """

    def __init__(self) -> None:
        self.error = (0.0, 0.0)
        self._seconds = {TRACKING: 0.0, EFFORT: 0.0}

    def reset(self) -> None:
        """Forgets for how long a bound has been exceeded."""
        self._seconds = {TRACKING: 0.0, EFFORT: 0.0}

    def update(
        self,
        elapsed: float,
        commanded: Pose,
        measured: Pose,
        efforts: Array | None,
        tracking: TrackingParams,
        limits: LimitParams,
    ) -> str | None:
        """The bound that has been exceeded for longer than allowed, or None."""
        self.error = commanded.distance(measured)
        over = {
            TRACKING: self.error[0] > tracking.max_error_m
            or self.error[1] > tracking.max_error_rad,
            EFFORT: efforts is not None and _strains(efforts, limits.max_effort),
        }
        for name, exceeded in over.items():
            self._seconds[name] = self._seconds[name] + elapsed if exceeded else 0.0
        return next((n for n, s in self._seconds.items() if s > tracking.max_duration_s), None)


def _strains(efforts: Array, bounds: Vector6) -> bool:
    """Whether a joint's effort exceeds its bound; a bound of 0 is none."""
    if efforts.shape != (len(bounds),):
        return False
    return any(abs(e) > bound > 0.0 for e, bound in zip(efforts.tolist(), bounds, strict=True))
