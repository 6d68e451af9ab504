"""Predictions that need no camera, so that an error of the policy means something."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.evaluation import so3
from xvla_ros.evaluation.open_loop_metrics import Motion, resample, step_times
from xvla_ros.geometry import Pose, so3_log

Array = NDArray[np.float64]

HOLD_STILL = "hold_still"
CONSTANT_VELOCITY = "constant_velocity"
PREVIOUS_CHUNK = "previous_chunk"
BASELINES = (HOLD_STILL, CONSTANT_VELOCITY, PREVIOUS_CHUNK)


@dataclass(frozen=True, eq=False)
class Earlier:
    """The policy's chunk of the observation before."""

    stamp: float
    start: Pose
    """Measured pose at that time."""
    motion: Motion


def hold_still(start: Pose, closed: float, horizon: int) -> Motion:
    """Stays where it is; `closed` is 0 or 1."""
    return Motion(
        np.tile(start.position, (horizon, 1)),
        np.tile(start.rotation, (horizon, 1, 1)),
        np.full(horizon, closed),
        np.full(horizon, closed),
    )


def constant_velocity(
    start: Pose, before: Pose | None, elapsed: float, closed: float, horizon: int, step_dt: float
) -> Motion:
    """Goes on as in the last moments: velocity in the base frame, angular velocity in its own.

    Args:
        start: measured pose now.
        before: measured pose `elapsed` seconds ago; None = not known, which is rest.
        elapsed: seconds.
        closed: gripper, 0 or 1.
        horizon: number of steps.
        step_dt: seconds between two steps.
    """
    if before is None or elapsed <= 0.0:
        return hold_still(start, closed, horizon)
    times = step_times(horizon, step_dt)
    velocity = (start.position - before.position) / elapsed
    turning = so3_log(before.rotation.T @ start.rotation) / elapsed
    return Motion(
        start.position + times[:, None] * velocity,
        start.rotation @ so3.exp(times[:, None] * turning),
        np.full(horizon, closed),
        np.full(horizon, closed),
    )


def previous_chunk(earlier: Earlier, stamp: float, step_dt: float) -> Motion:
    """The earlier chunk at the times of one that begins at `stamp`; its last pose is held."""
    return resample(earlier.motion, earlier.start, step_dt, stamp - earlier.stamp)
