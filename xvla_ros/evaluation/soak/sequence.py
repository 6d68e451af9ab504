"""One random sequence: a policy that sends anything at any time, and an arm under it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Chunk, ChunkRefused
from xvla_ros.evaluation.soak import trouble
from xvla_ros.evaluation.soak.bare import BareScheduler
from xvla_ros.evaluation.soak.judge import Findings, Judge
from xvla_ros.scheduler.arm_io import JointMeasurement
from xvla_ros.scheduler.blending import Box
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.params import STRATEGIES, ExecutorParams
from xvla_ros.scheduler.scheduler import ChunkScheduler

Array = NDArray[np.float64]

SECONDS = 2.0
# One sequence in so many goes through limits and kinematics to an arm; the others end with the
# scheduler's poses, which takes a third of the time.
_ARM_EVERY = 4
# Of the arm's servos: the part of the way to the command that is done in one period.
_FOLLOWED = 0.18
# Chances in one period.
_OBSERVED, _EVENT, _RELEASED, _JUMP, _LATE = 0.08, 0.01, 0.05, 0.002, 0.05
_BLOCKED, _SILENT = 0.05, 0.05
_START_SPREAD_RAD = 0.25


@dataclass
class Outcome:
    """What came of one sequence, or of many."""

    findings: Findings = field(default_factory=Findings)
    with_arm: int = 0
    """Sequences that went through limits and kinematics."""
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    limited: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    splice_m: dict[str, float] = field(default_factory=dict)
    """By strategy, the largest step in one period that a change of chunk asked for, metres."""
    splice_rad: dict[str, float] = field(default_factory=dict)
    bad: list[int] = field(default_factory=list)
    """Seeds of sequences with a violation."""

    def add(self, other: Outcome) -> None:
        """Takes what came of another sequence."""
        self.findings.add(other.findings)
        self.with_arm += other.with_arm
        self.accepted += other.accepted
        self.refused.update(other.refused)
        self.limited.update(other.limited)
        self.events.update(other.events)
        self.bad.extend(other.bad)
        for mine, theirs in (
            (self.splice_m, other.splice_m),
            (self.splice_rad, other.splice_rad),
        ):
            for name, step in theirs.items():
                mine[name] = max(mine.get(name, 0.0), step)


class Sequence:
    """The sequence of a seed; strategies take turns."""

    def __init__(self, seed: int) -> None:
        rng = self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._params = trouble.parameters(rng, STRATEGIES[seed % len(STRATEGIES)])
        self._limits = ExecutorParams()
        self._arm = WidowX250s()
        self._joints = self._start()
        # Every strategy comes with an arm in the same share of its sequences.
        self.with_arm = (seed // len(STRATEGIES)) % _ARM_EVERY == 0
        self._executor = self._player()
        self._judge = Judge(self._arm if self.with_arm else None, self._limits, self._params)
        self._in_flight: list[tuple[float, Chunk, str]] = []
        self._sequence = 0
        self._stopped_for = 0.0
        self._outcome = Outcome()
        self._blocked = rng.random() < _BLOCKED
        self._silent = rng.random() < _SILENT

    def run(self) -> Outcome:
        """Plays it."""
        period, now, before = self._params.period, 0.0, 0.0
        measured = JointMeasurement(now, self._joints)
        self._executor.tick(now, measured)
        on = self._executor.set_actuation(True, now, measured)
        if not on.accepted:
            raise RuntimeError(f"seed {self._seed}: {on.message}")
        for i in range(round(SECONDS / period)):
            now += self._interval(period)
            self._disturb(now)
            self._deliver(now)
            measured = self._measure(now, measured, i * period)
            moving = self._executor.moving
            command = self._executor.tick(now, measured)
            self._stopped_for = (
                self._stopped_for + period if self._executor.scheduler.stopped else 0.0
            )
            moving = moving or self._executor.moving
            self._judge.take(command, now - before, moving, self._stopped_for)
            if command.publish and command.joints is not None and not self._blocked:
                self._joints = self._joints + _FOLLOWED * (command.joints - self._joints)
            self._observe(now)
            before = now
        return self._finish()

    def _player(self) -> ArmExecutor | BareScheduler:
        scheduler = ChunkScheduler(self._params)
        if self.with_arm:
            return ArmExecutor(scheduler, self._arm, self._limits)
        limits = self._limits.limits
        box = Box(np.array(limits.workspace_min), np.array(limits.workspace_max))
        return BareScheduler(scheduler, self._arm.fk(self._joints), box)

    def _start(self) -> Array:
        """Joint angles near the ready pose with the end effector inside the workspace."""
        spread = self._rng.uniform(-_START_SPREAD_RAD, _START_SPREAD_RAD, 6)
        joints = np.array(constants.READY) + spread
        limits = self._limits.limits
        place = self._arm.fk(joints).position
        inside = np.all(place >= limits.workspace_min) and np.all(place <= limits.workspace_max)
        return joints if inside else np.array(constants.READY)

    def _interval(self, period: float) -> float:
        """Seconds to the next tick: late ones, and now and then a clock that jumps."""
        rng = self._rng
        if rng.random() < _JUMP:
            self._outcome.events["clock jump"] += 1
            return float(rng.choice([-10.0, -0.5, -0.05, 0.3, 10.0]))
        return float(period * rng.uniform(0.0, 4.0)) if rng.random() < _LATE else period

    def _disturb(self, now: float) -> None:
        """Now and then what an operator or a lost process does."""
        executor = self._executor
        if self._rng.random() >= (_RELEASED if executor.scheduler.stopped else _EVENT):
            return
        if executor.scheduler.stopped:
            event = "clear_stop"
        else:
            event = str(self._rng.choice(["stop", "policy_lost", "new epoch"]))
        self._outcome.events[event] += 1
        if event == "new epoch":
            executor.scheduler.new_epoch()
        else:
            {
                "stop": executor.stop,
                "clear_stop": executor.clear_stop,
                "policy_lost": executor.policy_lost,
            }[event](now)

    def _measure(self, now: float, last: JointMeasurement, time: float) -> JointMeasurement:
        """The joint states, which in some sequences are away for the second half second."""
        if self._silent and 0.5 <= time < 1.0:
            return last
        return JointMeasurement(now, self._joints.copy())

    def _observe(self, now: float) -> None:
        """Sends a chunk off now and then; several may be under way."""
        if self._rng.random() >= _OBSERVED:
            return
        self._sequence += 1
        scheduler = self._executor.scheduler
        made, fault = trouble.chunk(self._rng, scheduler.pose, now, self._sequence, scheduler.epoch)
        delay = trouble.latency(self._rng)
        if delay is None:
            self._outcome.events["chunk lost"] += 1
        else:
            self._in_flight.append((now + delay, made, fault))

    def _deliver(self, now: float) -> None:
        due = [item for item in self._in_flight if item[0] <= now]
        self._in_flight = [item for item in self._in_flight if item[0] > now]
        for _, made, fault in due:
            try:
                self._executor.submit(made, now)
            except ChunkRefused as refusal:
                self._outcome.refused[refusal.reason.name] += 1
                continue
            self._outcome.accepted += 1
            found = self._judge.findings
            found.require(f"a chunk with {fault} was accepted", fault not in trouble.NEVER)
            # By the clock of its arrival: that may have jumped since the chunk was made.
            times = self._params.chunk
            fresh = -times.max_future_s <= now - made.stamp <= times.max_age_s
            found.require("a chunk with a stamp out of bounds was accepted", fresh)

    def _finish(self) -> Outcome:
        outcome = self._outcome
        outcome.findings = self._judge.judge()
        outcome.with_arm = int(self.with_arm)
        outcome.limited.update(self._executor.limits)
        metres, radians = self._executor.scheduler.splice_step
        outcome.splice_m[self._params.strategy] = metres
        outcome.splice_rad[self._params.strategy] = radians
        if outcome.findings.violations:
            outcome.bad.append(self._seed)
        return outcome
