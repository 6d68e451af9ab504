"""How a new chunk takes over from what is being commanded: the parameter `strategy`.

Each strategy answers two questions: whether a chunk may interrupt a running one, and which path
leads from the present command into the new trajectory. A strategy that mixes chunks builds a path
from both (`Splice.running`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.blending import Path, Twist, faded
from xvla_ros.scheduler.params import SchedulerParams, Strategy
from xvla_ros.scheduler.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Splice:
    """Everything that is known at the change of chunk."""

    command: Pose
    """Last commanded pose."""
    twist: Twist | None
    """Velocity of the command per second of plan time; None at rest."""
    running: Path | None
    """The path in execution, None when nothing is being executed."""
    running_phase: float
    trajectory: Trajectory
    """Of the new chunk."""
    phase: float
    """Where in the new chunk the command takes over, seconds."""

    def offset(self) -> tuple[float, float]:
        """Metres and radians between the command and the new trajectory."""
        return self.command.distance(self.trajectory.pose(self.phase))


class SpliceStrategy(Protocol):
    """One way of changing to a new chunk."""

    @property
    def interrupts(self) -> bool:
        """Whether a chunk may replace one that is still running."""

    def path(self, splice: Splice, params: SchedulerParams) -> Path:
        """The path to command from `splice.phase` on."""


@dataclass(frozen=True)
class AnchorFade:
    """The new chunk at once, anchored to the command by an offset that fades out."""

    interrupts: bool = True

    def path(self, splice: Splice, params: SchedulerParams) -> Path:
        """The faded path; a large offset, or a short chunk, changes the time of fading."""
        metres, radians = splice.offset()
        needed = max(
            metres / params.splice.blend_linear_speed,
            radians / params.splice.blend_angular_speed,
        )
        longest = min(params.splice.max_fade_s, splice.trajectory.duration - splice.phase)
        duration = 0.0
        if params.fade_s > 0.0:
            duration = min(max(params.fade_s, needed), longest)
        return faded(splice.trajectory, splice.phase, duration, splice.command, splice.twist)


@dataclass(frozen=True)
class Timestamp:
    """Each step at its time, with the command free to jump (the speed limits catch it)."""

    interrupts: bool = True

    def path(self, splice: Splice, params: SchedulerParams) -> Path:
        """The trajectory itself."""
        return Path(splice.trajectory)


_STRATEGIES: dict[Strategy, SpliceStrategy] = {
    "anchor_fade": AnchorFade(),
    "timestamp": Timestamp(),
    "sync": AnchorFade(interrupts=False),
}


def strategy(name: Strategy) -> SpliceStrategy:
    """The strategy of a name."""
    return _STRATEGIES[name]
