"""What the scheduler commands at one instant, and the step that leads there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.blending import Path
from xvla_ros.scheduler.rate import PlanRate


class SchedulerState(IntEnum):
    """State of the command stream; the numbers are those of msg/SchedulerStatus."""

    HOLDING = 0
    """Nothing to execute."""
    EXECUTING = 1
    STARVED = 2
    """Rested because no new chunk came in time."""
    STOPPED = 3
    """Latched until `clear_stop`."""
    SUSPENDED = 4
    """Joint states are missing or too old."""


@dataclass(frozen=True, eq=False)
class Setpoint:
    """One command for the end effector."""

    pose: Pose
    gripper: float
    """0 = open, 1 = closed; between them only where the gripper was found at the last reset."""
    state: SchedulerState
    sequence: int
    """Of the chunk in execution; 0 = none."""
    rate: float
    """Plan time per time: 1 in full motion, 0 at rest."""
    linear_speed: float
    """m/s since the previous setpoint."""
    angular_speed: float
    """rad/s since the previous setpoint."""
    remaining: float
    """Seconds of plan left in the trusted horizon."""


@dataclass(frozen=True, eq=False)
class Advance:
    """One command period ahead, before limits have said how much of it may be executed."""

    elapsed: float
    """Seconds since the last command, at most two periods."""
    phase: float
    """Where the command stands, seconds into its chunk."""
    step: float
    """Seconds of plan that the whole advance executes."""
    rate: PlanRate
    """State of plan time after the whole advance."""
    path: Path | None
    """None when there is no chunk: the held pose stays."""
    end: float
    """Phase at which the trusted horizon ends, seconds."""
    held: Pose
    """Last commanded pose."""

    def pose(self, fraction: float = 1.0) -> Pose:
        """Commanded pose after a fraction of the advance."""
        if self.path is None:
            return self.held
        return self.path.pose(self.phase + fraction * self.step)

    def pose_ahead(self, seconds: float) -> Pose | None:
        """The pose `seconds` of plan after the advance, None if that is never commanded."""
        phase = self.phase + self.step + seconds
        return None if self.path is None or phase >= self.end else self.path.pose(phase)
