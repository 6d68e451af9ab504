"""Plan time: how fast the command goes along its path.

The phase along the path moves with a rate between 0 and 1 (real time), with bounded acceleration
and jerk, and stops exactly at the end that is trusted. Ruckig (github.com/pantor/ruckig) gives the
time-optimal profile under these bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import ruckig

from xvla_ros.scheduler.params import RateParams, SchedulerParams

# Ruckig meets its target to about 1e-12; beyond this a profile really overshoots.
_OVERSHOOT = 1e-6
_STILL = 1e-9


@dataclass(frozen=True)
class PlanRate:
    """State of plan time: the rate, its acceleration, and whether it is coming to rest."""

    rate: float = 0.0
    acceleration: float = 0.0
    """1/s^2."""
    resting: bool = True
    hard: bool = False
    """Rests with the stop bounds."""

    @property
    def still(self) -> bool:
        """At rest, and not about to start."""
        return self.resting and self.rate <= _STILL

    def run(self) -> PlanRate:
        """Goes on, or starts again, towards rate 1."""
        return replace(self, resting=False, hard=False)

    def rest(self, actual_rate: float, hard: bool = False) -> PlanRate:
        """Comes to rest from the rate that the limits really allowed."""
        if self.resting and self.hard >= hard:
            return self
        if actual_rate < self.rate:
            return PlanRate(max(actual_rate, 0.0), 0.0, True, hard)
        return replace(self, resting=True, hard=hard)


@dataclass(frozen=True)
class Profile:
    """The course of the phase from now on, if nothing else happens."""

    start: float
    end: float
    state: PlanRate
    trajectory: ruckig.Trajectory | None
    """None at rest."""

    def at(self, elapsed: float) -> tuple[float, PlanRate]:
        """Phase in seconds and state after `elapsed` seconds."""
        if self.trajectory is None:
            return self.start, PlanRate(resting=True, hard=self.state.hard)
        position, velocity, acceleration = self.trajectory.at_time(elapsed)
        phase = min(max(position[0], self.start), self.end)
        finished = elapsed >= self.trajectory.duration or position[0] > self.end + _OVERSHOOT
        if finished:
            return phase, PlanRate(resting=True, hard=self.state.hard)
        return phase, replace(
            self.state, rate=min(max(velocity[0], 0.0), 1.0), acceleration=acceleration[0]
        )

    @property
    def duration(self) -> float:
        """Seconds until rest."""
        return 0.0 if self.trajectory is None else float(self.trajectory.duration)


def profile(phase: float, end: float, state: PlanRate, params: RateParams) -> Profile:
    """The fastest course from a phase to rest: at `end`, or as soon as possible if resting.

    Where the end is nearer than the gentle bounds can stop, the stop bounds are taken.
    """
    if state.still or phase >= end:
        return Profile(phase, end, state, None)
    gentle = (params.acceleration, params.jerk)
    hard = (params.stop_acceleration, params.stop_jerk)
    for bounds in [hard] if state.hard else [gentle, hard]:
        trajectory = _solve(phase, None if state.resting else end, state, bounds)
        if trajectory is not None and trajectory.position_extrema[0].max <= end + _OVERSHOOT:
            break
    return Profile(phase, end, state, trajectory)


@lru_cache(maxsize=256)
def stop_distance(state: PlanRate, params: RateParams, hard: bool = False) -> float:
    """Phase in seconds that passes until rest. Most states recur: full rate, rest."""
    if hard:
        bounds = (params.stop_acceleration, params.stop_jerk)
    else:
        bounds = (params.acceleration, params.jerk)
    trajectory = _solve(0.0, None, state, bounds)
    return 0.0 if trajectory is None else float(trajectory.at_time(trajectory.duration)[0][0])


def _solve(
    phase: float, end: float | None, state: PlanRate, bounds: tuple[float, float]
) -> ruckig.Trajectory | None:
    """Ruckig's profile to rest at `end`, or to rest as soon as possible; None if it has none."""
    request = ruckig.InputParameter(1)
    request.current_position = [phase]
    request.current_velocity = [state.rate]
    request.current_acceleration = [state.acceleration]
    request.max_velocity = [1.0]
    request.max_acceleration = [bounds[0]]
    request.max_jerk = [bounds[1]]
    request.target_velocity = [0.0]
    if end is None:
        request.control_interface = ruckig.ControlInterface.Velocity
    else:
        request.target_position = [end]
    trajectory = ruckig.Trajectory(1)
    result = ruckig.Ruckig(1).calculate(request, trajectory)
    return trajectory if result in (ruckig.Result.Working, ruckig.Result.Finished) else None


class PlanTime:
    """Where the command stands in its chunk and how it goes on.

    The course to rest is computed once and followed; a limit, a rest or a splice makes a new one.

    Attributes:
        phase: seconds into the chunk.
        end: phase at which the trusted horizon ends.
        state: rate at the last command.
    """

    def __init__(self) -> None:
        self.phase = 0.0
        self.end = 0.0
        self.state = PlanRate()
        self._actual_rate = 0.0
        self._course: Profile | None = None
        self._into_course = 0.0
        self._seconds = 0.0

    def start(self, phase: float, end: float) -> None:
        """Executes another chunk from a phase on, with the rate that there is."""
        self.phase, self.end = phase, end
        self._seconds = 0.0
        self._change(self.state.run())

    def rest(self, hard: bool) -> bool:
        """Comes to rest as soon as possible; false if it does already."""
        state = self.state.rest(self._actual_rate, hard)
        if state == self.state:
            return False
        self._change(state)
        return True

    def ahead(self, elapsed: float, params: RateParams) -> tuple[float, PlanRate]:
        """Phase in seconds and state after `elapsed` more seconds."""
        return self._followed(params).at(self._into_course + elapsed)

    def until_rest(self, params: RateParams) -> float:
        """Seconds until rest if nothing happens."""
        return max(self._followed(params).duration - self._into_course, 0.0)

    def blind(self, params: SchedulerParams) -> bool:
        """Whether the chunk has been executed for as long as it is trusted, by the clock.

        Plan time that limits slow down would trust it for longer. What a start from rest loses is
        not counted, so that a chunk that is not slowed comes to its end.
        """
        bounds = params.rate
        start = 1.0 / bounds.acceleration + bounds.acceleration / bounds.jerk
        return self._seconds > params.execution_horizon_s + start

    def commit(self, elapsed: float, step: float, fraction: float, state: PlanRate) -> None:
        """Goes on by a fraction of a step that `ahead` gave for `elapsed` seconds."""
        self.phase += fraction * step
        self._seconds += elapsed
        self.state = state
        self._into_course += elapsed
        if elapsed > 0.0:
            self._actual_rate = fraction * state.rate
        if fraction < 1.0:
            self._course = None

    @property
    def actual_rate(self) -> float:
        """Plan time per time that the limits allowed at the last command."""
        return self._actual_rate

    def _change(self, state: PlanRate) -> None:
        self.state = state
        self._course = None

    def _followed(self, params: RateParams) -> Profile:
        if self._course is None:
            self._course = profile(self.phase, self.end, self.state, params)
            self._into_course = 0.0
        return self._course
