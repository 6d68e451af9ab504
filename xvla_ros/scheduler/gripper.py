"""From probabilities of closed at the knots to a gripper command that does not chatter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.scheduler.params import GripperParams

Array = NDArray[np.float64]

# Knots are met at sums of floats; a knot that is due within this many steps is due.
_DUE_SLACK = 1e-6


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
        self, knots: GripperKnots, phase: float, elapsed: float, params: GripperParams
    ) -> GripperState:
        """The state after `elapsed` seconds that ended at a phase of a chunk.

        A policy that replans faster than its steps would never reach a first knot: when no knot
        has been in force for a whole step, the first counts as due.
        """
        age, waiting = self.age + elapsed, self.waiting + elapsed
        step = knots.due(phase + params.lead_s)
        if step < 0 and waiting < knots.step_dt:
            return GripperState(self.command, age, waiting)
        decision = knots.decision(max(step, 0))
        if decision is None or decision == self.command or age < params.dwell_s:
            return GripperState(self.command, age)
        return GripperState(decision, 0.0)
