"""What a path will command if nothing else happens."""

from __future__ import annotations

from math import ceil

import numpy as np

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.blending import Path
from xvla_ros.scheduler.gripper import GripperKnots, GripperState
from xvla_ros.scheduler.params import GripperParams
from xvla_ros.scheduler.rate import Profile

PLAN_DT = 0.05
"""Seconds between two poses of a forecast."""


def forecast(
    path: Path, knots: GripperKnots, state: GripperState, course: Profile, params: GripperParams
) -> tuple[tuple[Pose, ...], tuple[float, ...]]:
    """Poses and gripper commands from now to rest, one every PLAN_DT seconds."""
    count = ceil(course.duration / PLAN_DT) + 1
    phases = [course.at(i * PLAN_DT)[0] for i in range(count)]
    positions, rotations = path.sample(np.array(phases))
    grippers = [state.command]
    for phase in phases[1:]:
        state = state.advanced(knots, phase, PLAN_DT, params)
        grippers.append(state.command)
    poses = tuple(Pose(p, r) for p, r in zip(positions, rotations, strict=True))
    return poses, tuple(grippers)
