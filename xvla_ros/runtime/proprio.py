"""Which end-effector pose the policy is told to be at: the commanded or the measured one.

The published X-VLA clients condition on the pose they last commanded, not on the measured one
(github.com/2toinf/X-VLA, evaluation/simpler/WidowX), which makes successive chunks join. But a
command means something only while it is being followed; otherwise the measurement is the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from xvla_ros.chunk import Plan, PlanHistory
from xvla_ros.geometry import Pose
from xvla_ros.runtime import inpainting
from xvla_ros.runtime.interface import Prefix
from xvla_ros.streams import CLOCK_BACK_S

ProprioSource = Literal["commanded", "commanded_future", "measured"]
SOURCES: tuple[ProprioSource, ...] = ("commanded", "commanded_future", "measured")


@dataclass(frozen=True)
class ProprioParams:
    """When the commanded pose is believed."""

    source: ProprioSource = "commanded"
    max_plan_age_s: float = 1.5
    """Without a plan for so long the scheduler counts as absent; it sends one every 0.5 s."""
    max_error_m: float = 0.06
    """Metres between command and measurement above which the arm is not following."""
    max_error_rad: float = 0.35
    """Radians between command and measurement above which the arm is not following."""
    inpaint_strength: float = 1.0
    """How firmly a chunk is made to go on from the plan where the scheduler asks for it."""


@dataclass(frozen=True, eq=False)
class Proprio:
    """The pose to give to the policy, where it is from, and when it holds."""

    pose: Pose
    source: ProprioSource
    t_ref: float
    """Time from which the actions count, seconds: that of the pose."""


class ProprioSelector:
    """Follows the scheduler's plans and chooses the proprio of each observation."""

    def __init__(self, params: ProprioParams | None = None) -> None:
        self.params = params or ProprioParams()
        self._plans = PlanHistory()
        self._arrival = -math.inf
        # Whether a chunk has been executed since the epoch began: after a stop, a reset or a
        # restart the plan only holds a pose that nobody asked for.
        self._executed = False

    def add_plan(self, plan: Plan, now: float) -> None:
        """Takes a plan that arrived at `now`."""
        latest = self._plans.latest
        if latest is None or latest.epoch != plan.epoch or now < self._arrival - CLOCK_BACK_S:
            self.clear()
        self._executed = self._executed or not plan.holding
        self._plans.add(plan)
        self._arrival = now

    def clear(self) -> None:
        """Forgets every plan."""
        self._plans.clear()
        self._arrival = -math.inf
        self._executed = False

    def plan(self, now: float) -> Plan | None:
        """The newest plan, unless it is too old to say what is being commanded."""
        age = now - self._arrival
        return self._plans.latest if -CLOCK_BACK_S <= age <= self.params.max_plan_age_s else None

    def choose(self, stamp: float, measured: Pose, now: float) -> Proprio:
        """The proprio of an observation.

        Args:
            stamp: its reference time, seconds.
            measured: pose of the end effector at that time.
            now: seconds.
        """
        plan = self.plan(now)
        fallback = Proprio(measured, "measured", stamp)
        if self.params.source == "measured" or plan is None:
            return fallback
        commanded = self._plans.commanded(stamp)
        if commanded is None or not plan.actuating or not self._executed:
            return fallback
        metres, radians = commanded[0].distance(measured)
        if metres > self.params.max_error_m or radians > self.params.max_error_rad:
            return fallback
        if self.params.source == "commanded_future" and plan.latency > 0.0:
            ahead = stamp + plan.latency
            return Proprio(plan.at(ahead)[0], "commanded_future", ahead)
        return Proprio(commanded[0], "commanded", stamp)

    def prefix(
        self, stamp: float, proprio: Proprio, now: float, step_dt: float, horizon: int
    ) -> Prefix | None:
        """What a chunk is to go on from, if the scheduler's strategy asks for it.

        Nothing where the proprio is measured: the plan is not being followed then.

        Args:
            stamp: reference time of the observation, seconds.
            proprio: chosen for it.
            now: seconds.
            step_dt: seconds between two steps of the chunk.
            horizon: its number of steps.
        """
        plan = self.plan(now)
        wanted = plan is not None and plan.strategy == inpainting.STRATEGY and not plan.holding
        if plan is None or not wanted or proprio.source == "measured":
            return None
        strength = self.params.inpaint_strength
        return inpainting.committed(plan, stamp, proprio.t_ref, step_dt, horizon, strength)
