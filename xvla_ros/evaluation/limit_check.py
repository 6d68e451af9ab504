"""Which limits of the scheduler a chunk would have met, had the arm executed it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Chunk, ChunkRefused
from xvla_ros.scheduler.arm_io import JointMeasurement
from xvla_ros.scheduler.commander import ArmCommander
from xvla_ros.scheduler.limits import WORKSPACE, StepLimiter
from xvla_ros.scheduler.params import ExecutorParams, SchedulerParams
from xvla_ros.scheduler.scheduler import ChunkScheduler

# The rate at which BridgeData's robots are commanded.
_PERIOD_S = 0.2


@dataclass(frozen=True)
class LimitReport:
    """What came of one chunk."""

    refusal: str = ""
    """Name of the reason why it is refused; empty = accepted."""
    first_steps: dict[str, int] = field(default_factory=dict)
    """By limit, the step of the chunk on the way to which it first acted."""


class LimitChecker:
    """Executes chunks on an arm that follows exactly, from the measured pose.

    The scheduler and the limiter are those of the nodes, at 5 commands per second instead of 50:
    an average over a command's period can hide a speed that lasts for less.
    """

    def __init__(self, scheduler: SchedulerParams, executor: ExecutorParams) -> None:
        self._scheduler = scheduler
        self._executor = executor
        self._arm = WidowX250s()

    def check(self, chunk: Chunk, measured: JointMeasurement) -> LimitReport:
        """Executes the trusted horizon of a chunk.

        Args:
            chunk: of any epoch.
            measured: at the chunk's stamp.
        """
        params = replace(self._scheduler, command_rate_hz=1.0 / _PERIOD_S)
        scheduler = ChunkScheduler(params)
        limiter = StepLimiter(self._arm, self._executor.limits)
        scheduler.set_workspace(limiter.box())
        commander = ArmCommander(scheduler, self._arm, limiter, None)
        commander.start_from(measured, chunk.stamp, self._executor.resume_tolerance_rad)
        try:
            scheduler.submit(replace(chunk, epoch=scheduler.epoch, sequence=1), chunk.stamp)
        except ChunkRefused as refusal:
            return LimitReport(refusal.reason.name)
        first: dict[str, int] = {}
        if limiter.outside_box(scheduler.pose):
            first[WORKSPACE] = 0
        # Slowed down and to the end, no chunk takes longer than this.
        for tick in range(1, 4 * math.ceil(params.execution_horizon_s / _PERIOD_S) + 4):
            advance = scheduler.propose(chunk.stamp + tick * _PERIOD_S)
            _, acted = commander.step(advance)
            step = max(0, math.ceil((advance.phase + advance.step) / chunk.step_dt - 1e-6) - 1)
            for name in sorted(acted):
                first.setdefault(name, min(step, chunk.horizon - 1))
            if not scheduler.executing:
                break
        return LimitReport("", first)
