"""One episode in figures.

A seam is the period in which another chunk takes over. Its step is what the change of chunk asks
for before any limit; its velocity step is by how much that differs from the motion that was being
commanded. Both are per command period ("tick").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xvla_ros.evaluation.benchmark_scheduler.trace import Period, Step, TracedScheduler
from xvla_ros.geometry import Array
from xvla_ros.scheduler.arm_io import ArmCommand
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.params import SchedulerParams
from xvla_ros.sim.world import SimWorld

# The cube of "reach_jump" has moved by more than this between two periods when it has jumped.
_JUMPED_M = 0.03
_DECIMALS = 5
_NO_STEP = Step(np.zeros(3), np.zeros(3))
_REST = Period(0, False, _NO_STEP, _NO_STEP, np.zeros(3))
"""What is commanded before the first period of an episode."""


@dataclass(frozen=True)
class Figures:
    """What is measured besides success."""

    seam_mm: tuple[float, ...]
    """Step of each seam, mm per tick."""
    seam_rad: tuple[float, ...]
    """The same of the rotation, rad per tick."""
    seam_velocity_mm: tuple[float, ...]
    """Velocity step of each seam, mm per tick."""
    seam_velocity_rad: tuple[float, ...]
    """The same of the angular velocity, rad per tick."""
    step_mm: float
    """Largest step anywhere else, before any limit: what the motion itself asks for."""
    step_rad: float
    """The same of the rotation."""
    jerk_rms: float
    """Of the commanded position from the first motion on, m/s^3."""
    idle_s: float
    """Seconds without anything to execute after the first chunk."""
    idle_fraction: float
    """The same over the time since the first chunk."""
    tracking_mm: float
    """Root mean square distance between command and arm, mm."""
    tracking_rad: float
    """The same of the rotation, rad."""
    reaction_s: float | None
    """From the cube's jump until the command has gone half of the way to its new place."""


class FiguresProbe:
    """Looks into one episode at a time; see `closed_loop.Probe`.

    Args:
        make: the scheduler to look at.
    """

    def __init__(self, make: Callable[[SchedulerParams], TracedScheduler]) -> None:
        self._make = make
        self._scheduler: TracedScheduler | None = None
        self._tracking: list[tuple[float, float]] = []
        self._reaction = _Reaction()

    def scheduler(self, params: SchedulerParams) -> TracedScheduler:
        """A scheduler for the next episode."""
        self._scheduler = self._make(params)
        self._tracking = []
        self._reaction = _Reaction()
        return self._scheduler

    def ticked(
        self, now: float, world: SimWorld, executor: ArmExecutor, command: ArmCommand
    ) -> None:
        """Notes what cannot be seen from the commands alone."""
        self._tracking.append(executor.status().tracking_error)
        if command.pose is not None:
            self._reaction.follow(now, world.state().cube.position, command.pose.position)

    def figures(self) -> Figures:
        """The figures of the episode that has ended."""
        if self._scheduler is None:
            raise RuntimeError("no episode has been run")
        periods = self._scheduler.periods
        known = pairwise([_REST, *periods])
        seams, others = [], [_NO_STEP]
        for a, b in known:
            if b.sequence in (0, a.sequence):
                others.append(b.asked)
            else:
                seams.append((a, b))
        errors = np.array(self._tracking).reshape(-1, 2)
        begun = next((i for i, p in enumerate(periods) if p.executing), len(periods))
        idle = [not p.executing for p in periods[begun:]]
        period = self._scheduler.params.period
        return Figures(
            seam_mm=_sizes([1e3 * b.asked.linear for _, b in seams]),
            seam_rad=_sizes([b.asked.angular for _, b in seams]),
            seam_velocity_mm=_sizes([1e3 * (b.asked.linear - a.given.linear) for a, b in seams]),
            seam_velocity_rad=_sizes([b.asked.angular - a.given.angular for a, b in seams]),
            step_mm=max(_sizes([1e3 * step.linear for step in others])),
            step_rad=max(_sizes([step.angular for step in others])),
            jerk_rms=_jerk(periods[begun:], period),
            idle_s=round(sum(idle) * period, _DECIMALS),
            idle_fraction=round(float(np.mean(idle)) if idle else 0.0, _DECIMALS),
            tracking_mm=round(1e3 * _rms(errors[:, 0]), _DECIMALS),
            tracking_rad=round(_rms(errors[:, 1]), _DECIMALS),
            reaction_s=self._reaction.seconds,
        )


class _Reaction:
    """Waits for the cube to jump, and for the command to follow it.

    Attributes:
        seconds: that the reaction took; None without a jump or a reaction.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        self._cube: Array | None = None
        self._jumped = 0.0
        self._half = 0.0

    def follow(self, now: float, cube: Array, command: Array) -> None:
        """Takes the positions (3,) of the cube and of the command now."""
        away = float(np.linalg.norm(command[:2] - cube[:2]))
        if self._cube is not None and np.linalg.norm(cube - self._cube) > _JUMPED_M:
            self._jumped, self._half = now, 0.5 * away
        self._cube = cube
        if self._half > 0.0 and self.seconds is None and away <= self._half:
            self.seconds = round(now - self._jumped, _DECIMALS)


def _sizes(vectors: Sequence[Array]) -> tuple[float, ...]:
    return tuple(round(float(np.linalg.norm(v)), _DECIMALS) for v in vectors)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def _jerk(periods: Sequence[Period], period_s: float) -> float:
    """Root mean square of the third differences of the commanded position, m/s^3."""
    if len(periods) < 4:
        return 0.0
    positions = np.array([p.position for p in periods])
    jerk = np.diff(positions, 3, axis=0) / period_s**3
    return round(_rms(np.linalg.norm(jerk, axis=1)), 3)
