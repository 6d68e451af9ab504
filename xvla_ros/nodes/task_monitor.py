"""When a task is over. Free of ROS; the time is an argument.

That the task succeeded is not claimed: a policy does not know. What can be seen from outside is
that no motion is commanded any more, that time is up, or that something is wrong.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

from xvla_ros.chunk import Plan
from xvla_ros.geometry import Pose


class End(IntEnum):
    """Why a task ended; the numbers are those of the action's result."""

    SETTLED = 0
    TIMEOUT = 1
    CANCELLED = 2
    STOPPED = 3
    STALLED = 4
    DEACTIVATED = 5
    ERROR = 6
    BLOCKED = 7


@dataclass(frozen=True)
class Outcome:
    """The end of a task, and what to tell about it."""

    end: End
    message: str


@dataclass(frozen=True)
class TaskParams:
    """What counts as rest, and how long a fault is borne."""

    settle_s: float = 2.0
    settle_m: float = 0.005
    settle_rad: float = 0.03
    stall_s: float = 5.0


@dataclass(frozen=True)
class Progress:
    """What the policy node knows at one moment."""

    now: float
    plan: Plan | None
    """What the scheduler commands; None without a recent plan."""
    first_sequence: int
    """Sequence of the first chunk made for the task; 0 = none yet."""
    stalled: bool
    failed: bool
    message: str = ""
    stop: str = ""
    """What the scheduler says while a stop is latched; empty = none is."""
    blocked: str = ""
    """What the scheduler says while it leads a blocked arm back; empty = it does not."""


class TaskMonitor:
    """Follows one task until it ends.

    Args:
        params: see `TaskParams`.
        max_duration: seconds; 0 = no limit.
        now: time of the start, seconds.
    """

    def __init__(self, params: TaskParams, max_duration: float, now: float) -> None:
        self._params = params
        self._max_duration = max_duration
        self._started = now
        self._latest = now
        self._epoch: int | None = None
        self._fault_since: float | None = None
        self._commands: deque[tuple[float, Pose, float]] = deque()

    def elapsed(self, now: float) -> float:
        """Seconds since the start; a clock that went back does not count."""
        return now - self._started

    def update(self, progress: Progress) -> Outcome | None:
        """The end of the task if it has come."""
        self._follow_clock(progress.now)
        for check in (self._stopped, self._faulty, self._timed_out, self._settled):
            outcome = check(progress)
            if outcome is not None:
                return outcome
        return None

    def _follow_clock(self, now: float) -> None:
        if now < self._latest:
            back = self._latest - now
            self._started -= back
            self._fault_since = None
            self._commands.clear()
        self._latest = now

    def _stopped(self, progress: Progress) -> Outcome | None:
        """A latched stop, or another epoch than that of the first plan made after the start.

        An older plan tells nothing: what began a new epoch before the start, as switching
        actuation on does, may be heard of only after it.
        """
        if progress.stop:
            return Outcome(End.STOPPED, f"the scheduler: {progress.stop}")
        plan = progress.plan
        if plan is None:
            return None
        if self._epoch is None:
            self._epoch = plan.epoch if plan.start >= self._started else None
        elif plan.epoch != self._epoch and progress.blocked:
            return Outcome(End.BLOCKED, f"the scheduler: {progress.blocked}")
        elif plan.epoch != self._epoch:
            return Outcome(End.STOPPED, "the scheduler was stopped, reset or restarted")
        return None

    def _faulty(self, progress: Progress) -> Outcome | None:
        if not (progress.stalled or progress.failed):
            self._fault_since = None
            return None
        if self._fault_since is None:
            self._fault_since = progress.now
        if progress.now - self._fault_since < self._params.stall_s:
            return None
        return Outcome(End.STALLED if progress.stalled else End.ERROR, progress.message)

    def _timed_out(self, progress: Progress) -> Outcome | None:
        if 0.0 < self._max_duration <= self.elapsed(progress.now):
            return Outcome(End.TIMEOUT, f"after {self._max_duration:g} s")
        return None

    def _settled(self, progress: Progress) -> Outcome | None:
        """No commanded motion for `settle_s` while chunks of the task are executed."""
        plan, params = progress.plan, self._params
        working = plan is not None and 0 < progress.first_sequence <= plan.sequence
        if plan is None or not working or progress.stalled or progress.failed:
            self._commands.clear()
            return None
        pose, gripper = plan.at(progress.now)
        while self._commands and self._moved(self._commands[0], pose, gripper):
            self._commands.popleft()
        self._commands.append((progress.now, pose, gripper))
        at_rest = progress.now - self._commands[0][0]
        if at_rest < params.settle_s:
            return None
        return Outcome(End.SETTLED, f"no commanded motion for {at_rest:.1f} s")

    def _moved(self, before: tuple[float, Pose, float], pose: Pose, gripper: float) -> bool:
        metres, radians = before[1].distance(pose)
        params = self._params
        return metres > params.settle_m or radians > params.settle_rad or gripper != before[2]
