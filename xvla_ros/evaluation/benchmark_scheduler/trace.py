"""What a scheduler commanded, period by period."""

from __future__ import annotations

from dataclasses import dataclass

from xvla_ros.geometry import Array, Pose, so3_log
from xvla_ros.scheduler.params import SchedulerParams
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import Advance, SchedulerState, Setpoint


@dataclass(frozen=True, eq=False)
class Step:
    """From one command to the next: metres in the base frame, radians in the body frame."""

    linear: Array
    """(3,)"""
    angular: Array
    """(3,)"""

    @staticmethod
    def between(start: Pose, end: Pose) -> Step:
        """The step from one pose to another."""
        return Step(end.position - start.position, so3_log(start.rotation.T @ end.rotation))


@dataclass(frozen=True, eq=False)
class Period:
    """One command period."""

    sequence: int
    """Of the chunk in execution; 0 = none."""
    executing: bool
    asked: Step
    """What the plan asked for."""
    given: Step
    """What the limits left of it."""
    position: Array
    """(3,) commanded then, m."""


class TracedScheduler(ChunkScheduler):
    """Keeps what it commanded.

    Attributes:
        periods: since it was made.
    """

    def __init__(self, params: SchedulerParams) -> None:
        super().__init__(params)
        self.periods: list[Period] = []

    def commit(self, advance: Advance, fraction: float = 1.0, pose: Pose | None = None) -> Setpoint:
        """Executes a fraction of an advance."""
        setpoint = self.executed(advance, fraction, pose)
        if advance.elapsed > 0.0:
            self.periods.append(
                Period(
                    setpoint.sequence,
                    setpoint.state == SchedulerState.EXECUTING,
                    Step.between(advance.held, advance.pose()),
                    Step.between(advance.held, setpoint.pose),
                    setpoint.pose.position,
                )
            )
        return setpoint

    def executed(self, advance: Advance, fraction: float, pose: Pose | None) -> Setpoint:
        """The setpoint that is traced."""
        return super().commit(advance, fraction, pose)
