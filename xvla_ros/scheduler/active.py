"""Chunks that the scheduler has accepted."""

from __future__ import annotations

from dataclasses import dataclass

from xvla_ros.chunk import Chunk
from xvla_ros.scheduler.blending import Path
from xvla_ros.scheduler.gripper import GripperKnots, GripperSource
from xvla_ros.scheduler.params import GripperParams
from xvla_ros.scheduler.rate import PlanTime
from xvla_ros.scheduler.strategies import Previous
from xvla_ros.scheduler.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Running:
    """A chunk in execution."""

    path: Path
    gripper: GripperSource
    trajectory: Trajectory
    """Of the chunk alone."""
    sequence: int
    epoch: int

    def to_mix(self, epoch: int, time: PlanTime) -> Previous | None:
        """What a new chunk may be mixed with; nothing of an epoch that is over."""
        if epoch != self.epoch:
            return None
        return Previous(self.path, self.trajectory, self.gripper, time.phase, time.end)


@dataclass(frozen=True, eq=False)
class Pending:
    """An accepted chunk whose t_ref still lies ahead."""

    chunk: Chunk
    trajectory: Trajectory
    due: float
    """Progress of plan time at which its phase is 0."""

    def knots(self, params: GripperParams) -> GripperKnots:
        """Its gripper."""
        chunk = self.chunk
        return GripperKnots.of(
            chunk.gripper,
            chunk.step_dt,
            chunk.gripper_threshold,
            params,
            chunk.gripper_open_below,
        )


class Waiting:
    """Accepted chunks that have not begun, the next one first."""

    def __init__(self) -> None:
        self._chunks: list[Pending] = []

    def clear(self) -> None:
        """None of them will be executed."""
        self._chunks = []

    def add(self, pending: Pending) -> None:
        """A newer chunk replaces those that begin later, not one whose time comes before."""
        self._chunks = [p for p in self._chunks if p.due < pending.due]
        self._chunks.append(pending)

    def take(self, reached: float | None) -> Pending | None:
        """The newest chunk that is due at a progress, with what it replaces; None takes any."""
        ready = [p for p in self._chunks if reached is None or p.due <= reached]
        if not ready:
            return None
        self._chunks = [p for p in self._chunks if p.due > ready[-1].due]
        return ready[-1]
