"""Chunks that the scheduler has accepted."""

from __future__ import annotations

from dataclasses import dataclass

from xvla_ros.chunk import Chunk
from xvla_ros.scheduler.blending import Path
from xvla_ros.scheduler.gripper import GripperKnots
from xvla_ros.scheduler.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Running:
    """A chunk in execution."""

    path: Path
    gripper: GripperKnots
    sequence: int


@dataclass(frozen=True, eq=False)
class Pending:
    """An accepted chunk whose t_ref still lies ahead."""

    chunk: Chunk
    trajectory: Trajectory
    due: float
    """Progress of plan time at which its phase is 0."""
