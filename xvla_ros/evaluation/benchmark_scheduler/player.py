"""Schedulers of other projects, run side by side with ours on the same chunks and the same arm."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from xvla_ros.chunk import Chunk, ChunkRefused, Plan
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.benchmark_scheduler.trace import TracedScheduler
from xvla_ros.geometry import Pose, rotation_angle, slerp
from xvla_ros.scheduler import admission
from xvla_ros.scheduler.blending import Box, Path
from xvla_ros.scheduler.params import SchedulerParams
from xvla_ros.scheduler.rate import PlanRate
from xvla_ros.scheduler.setpoint import Advance, SchedulerState, Setpoint
from xvla_ros.scheduler.trajectory import Trajectory

# Between two rotations further apart than this, radians, the shortest way is not well determined.
_LARGEST_TURN = 2.0


class ChunkPlayer(Protocol):
    """Anything that turns chunks into one command per period; made without arguments.

    All times are seconds on one clock. The benchmark keeps the limits, solves the kinematics and
    commands the arm; what a player commands is reached as fast as the limits allow.
    """

    def reset(self, pose: Pose, gripper: float, now: float) -> None:
        """The arm holds a pose, and a gripper command (0 = open, 1 = closed); forget all chunks."""

    def submit(self, chunk: Chunk, now: float) -> None:
        """A chunk has arrived: observed at `chunk.stamp`, step k due at `chunk.due(k)`."""

    def sample(self, now: float) -> tuple[Pose, float] | None:
        """The pose and the gripper command now; None = nothing to execute, the arm holds."""


class PlayerScheduler(TracedScheduler):
    """A player in the place of our scheduler, so that the same executor drives the arm."""

    def __init__(self, player: ChunkPlayer, params: SchedulerParams) -> None:
        super().__init__(params)
        self._player = player
        self._workspace: Box | None = None
        self._grip: float | None = None
        self._sequence = 0
        self._idle = True

    @property
    def executing(self) -> bool:
        """Whether the player had something to execute."""
        return not self._idle

    @property
    def state(self) -> SchedulerState:
        """State of the command stream."""
        return SchedulerState.HOLDING if self._idle else SchedulerState.EXECUTING

    @property
    def gripper(self) -> float:
        """Last gripper command."""
        return super().gripper if self._grip is None else self._grip

    def set_workspace(self, box: Box | None) -> None:
        """Keeps what the player commands inside a box."""
        self._workspace = box

    def follow(self, pose: Pose, gripper: float, now: float) -> None:
        """Starts from a pose without any chunk."""
        super().follow(pose, gripper, now)
        self._grip, self._sequence, self._idle = gripper, 0, True
        self._player.reset(pose, gripper, now)

    def submit(self, chunk: Chunk, now: float) -> None:
        """Gives a chunk to the player, unless its numbers are no chunk for anyone."""
        try:
            admission.check(chunk, now, self.params)
        except ChunkRefused as refusal:
            self.refusals[refusal.reason] += 1
            raise
        self.latency.add(now - chunk.stamp)
        self.accepted += 1
        self._sequence = chunk.sequence
        self._player.submit(chunk, now)

    def propose(self, now: float) -> Advance:
        """The way from the command to what the player wants now."""
        advance = super().propose(now)
        target = self._player.sample(now)
        self._idle = target is None
        if target is None or advance.elapsed <= 0.0:
            return advance
        pose, self._grip = target
        if not pose.is_finite():
            name = type(self._player).__name__
            raise UsageError(f"{name}.sample({now:.3f}) is no pose: {pose.matrix().tolist()}")
        whole = _segment(advance.held, pose, advance.elapsed)
        return replace(
            advance,
            step=advance.elapsed,
            rate=PlanRate(rate=1.0, resting=False),
            path=Path(whole, box=self._workspace),
            end=advance.elapsed,
        )

    def plan(self, now: float, actuating: bool = False) -> Plan:
        """The command now: what a player will do is not known."""
        present = super().plan(now, actuating)
        return replace(present, gripper=(self.gripper,), holding=self._idle)

    def executed(self, advance: Advance, fraction: float, pose: Pose | None) -> Setpoint:
        """The setpoint, with the player's gripper and state."""
        return replace(
            super().executed(advance, fraction, pose),
            gripper=self.gripper,
            state=self.state,
            sequence=0 if self._idle else self._sequence,
            rate=0.0 if self._idle else fraction,
        )


def _segment(start: Pose, end: Pose, seconds: float) -> Trajectory:
    """Straight from one pose to another; a large turn only as far as its direction is certain."""
    turn = rotation_angle(start.rotation, end.rotation)
    rotation = end.rotation
    if turn > _LARGEST_TURN:
        rotation = slerp(start.rotation, end.rotation, _LARGEST_TURN / turn)
    return Trajectory.through(
        np.stack([start.position, end.position]), np.stack([start.rotation, rotation]), seconds
    )
