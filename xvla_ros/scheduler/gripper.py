"""From probabilities of closed at the knots to a gripper command that does not chatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xvla_ros.scheduler.params import GripperParams

Array = NDArray[np.float64]

# Knots are met at sums of floats; a knot that is due within this many steps is due.
_DUE_SLACK = 1e-6


class GripperSource(Protocol):
    """What says whether the gripper should be open or closed."""

    @property
    def step_dt(self) -> float:
        """Seconds between two knots."""

    def opinion(self, phase: float, waited: bool) -> tuple[bool, float | None]:
        """Whether a knot is in force at a phase, and if so: closed (1), open (0) or neither.

        With `waited` the first knot is in force before it is due.
        """


@dataclass(frozen=True, eq=False)
class GripperKnots:
    """The probabilities of a chunk, held from each knot to the next: knot k at (k+1) * step_dt."""

    probabilities: Array
    """(H,), probability of closed."""
    step_dt: float
    close_above: float
    open_below: float

    @staticmethod
    def of(
        probabilities: Array,
        step_dt: float,
        threshold: float,
        params: GripperParams,
        open_below: float = 0.0,
    ) -> GripperKnots:
        """Knots with a chunk's own thresholds; 0 takes the parameters'.

        A chunk that only says when to close keeps the width of the parameters' band.
        """
        band = params.close_above - params.open_below
        close_above = threshold if threshold > 0.0 else params.close_above
        if open_below <= 0.0:
            open_below = close_above - band
        return GripperKnots(probabilities, step_dt, close_above, min(open_below, close_above))

    def decision(self, step: int) -> float | None:
        """Closed (1), open (0), or None where this knot and the next do not agree on either."""
        last = len(self.probabilities) - 1
        pair = self.probabilities[min(step, last)], self.probabilities[min(step + 1, last)]
        if min(pair) > self.close_above:
            return 1.0
        if max(pair) < self.open_below:
            return 0.0
        return None

    def due(self, phase: float) -> int:
        """The knot in force at a phase; -1 before the first is due."""
        return int(phase / self.step_dt + _DUE_SLACK) - 1

    def opinion(self, phase: float, waited: bool) -> tuple[bool, float | None]:
        """See `GripperSource`."""
        step = self.due(phase)
        if step < 0 and not waited:
            return False, None
        return True, self.decision(max(step, 0))


@dataclass(frozen=True, eq=False)
class Ballot:
    """The knots of one chunk among several."""

    knots: GripperKnots
    ahead: float
    """Its phase minus that of the newest chunk, seconds."""
    end: float
    """Its own phase at which it is no longer asked, seconds."""
    weight: float


@dataclass(frozen=True, eq=False)
class GripperVote:
    """Several chunks: what more than half of the weight that is in force wants; else neither."""

    ballots: Sequence[Ballot]
    """The newest last; it is always asked."""

    @property
    def step_dt(self) -> float:
        """Seconds between two knots of the newest chunk."""
        return self.ballots[-1].knots.step_dt

    def opinion(self, phase: float, waited: bool) -> tuple[bool, float | None]:
        """See `GripperSource`."""
        total, weight_of = 0.0, {0.0: 0.0, 1.0: 0.0}
        for ballot in self.ballots:
            own = phase + ballot.ahead
            newest = ballot is self.ballots[-1]
            if own >= ballot.end and not newest:
                continue
            in_force, decision = ballot.knots.opinion(own, waited and newest)
            if in_force:
                total += ballot.weight
                if decision is not None:
                    weight_of[decision] += ballot.weight
        winner = max(weight_of, key=lambda decision: weight_of[decision])
        return total > 0.0, winner if weight_of[winner] > 0.5 * total else None


@dataclass(frozen=True)
class GripperState:
    """What the gripper is being told, and since when."""

    command: float
    """0 = open, 1 = closed; between them only where the gripper was found, until a decision."""
    age: float = float("inf")
    """Seconds since the command changed."""
    waiting: float = 0.0
    """Seconds of execution since a knot was in force."""

    def held(self, elapsed: float) -> GripperState:
        """The state after a time in which nothing was executed."""
        return GripperState(self.command, self.age + elapsed)

    def advanced(
        self, source: GripperSource, phase: float, elapsed: float, params: GripperParams
    ) -> GripperState:
        """The state after `elapsed` seconds that ended at a phase of a chunk.

        A policy that replans faster than its steps would never reach a first knot: when no knot
        has been in force for a whole step, the first counts as due.
        """
        age, waiting = self.age + elapsed, self.waiting + elapsed
        in_force, decision = source.opinion(phase, waiting >= source.step_dt)
        if not in_force:
            return GripperState(self.command, age, waiting)
        if decision is None or decision == self.command or age < params.dwell_s:
            return GripperState(self.command, age)
        return GripperState(decision, 0.0)
