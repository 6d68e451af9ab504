"""What a path will command if nothing else happens."""

from __future__ import annotations

from math import ceil

import numpy as np

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.blending import Path
from xvla_ros.scheduler.gripper import GripperSource, GripperState
from xvla_ros.scheduler.params import SchedulerParams
from xvla_ros.scheduler.rate import PlanTime

PLAN_DT = 0.05
"""Seconds between two poses of a forecast."""


def forecast(
    path: Path, source: GripperSource, state: GripperState, time: PlanTime, params: SchedulerParams
) -> tuple[tuple[Pose, ...], tuple[float, ...]]:
    """Poses and gripper commands from now to rest, one every PLAN_DT seconds."""
    count = ceil(time.until_rest(params.rate) / PLAN_DT) + 1
    course = [time.ahead(i * PLAN_DT, params.rate) for i in range(count)]
    positions, rotations = path.sample(np.array([phase for phase, _ in course]))
    grippers = [state.command]
    for phase, rate in course[1:]:
        due = phase + params.gripper_lead_s * rate.rate
        state = state.advanced(source, due, PLAN_DT, params.gripper)
        grippers.append(state.command)
    poses = tuple(Pose(p, r) for p, r in zip(positions, rotations, strict=True))
    return poses, tuple(grippers)
