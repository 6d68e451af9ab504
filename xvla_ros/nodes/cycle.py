"""A cyclic executive: one thing at absolute deadlines, callbacks in the time between.

An executor's timer waits for whatever callback is running and for those found ready with it.
Here no callback is begun shortly before a deadline. What is due then is prepared in that time and
carried out at the deadline, in one thread and without a lock: neither the callbacks nor the time
that it takes to decide shift it.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

# Before a deadline no callback is begun for so long; longer than one of them takes with what is
# to be prepared. Where the period is short, for this part of it.
_GUARD_S = 0.005
_GUARD_PART = 0.3
# Without a cycle, and with a slow one, signals are looked for this often.
_SPIN_S = 0.1


class Cycle:
    """Deadlines a period apart.

    Args:
        period: seconds.
        now: of the first deadline, seconds on the steady clock.

    Attributes:
        missed: deadlines that were skipped because the one before was met a period or more late.
    """

    def __init__(self, period: float, now: float) -> None:
        self.period = period
        self.missed = 0
        self._due = now
        self._guard = min(_GUARD_S, _GUARD_PART * period)

    def free(self, now: float) -> float:
        """Seconds from a time on in which callbacks may begin; none is left if not positive."""
        return self._due - self._guard - now

    def wait(self, now: float) -> float:
        """Seconds until the deadline; not positive if it has come."""
        return self._due - now

    def meet(self, now: float) -> float:
        """Takes the deadline that has come, and returns how late it is met, in seconds."""
        late = now - self._due
        skipped = int(late / self.period)
        self.missed += skipped
        self._due += (1 + skipped) * self.period
        return late


class Callbacks(Protocol):
    """An executor."""

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Runs one callback, once one is ready within `timeout_sec`."""


class CyclicNode(Protocol):
    """A node with something to do at deadlines."""

    @property
    def cycle(self) -> Cycle | None:
        """The deadlines; None while there are none."""

    def prepare(self, ahead: float) -> None:
        """Decides what is due in `ahead` seconds."""

    def carry_out(self, late: float) -> None:
        """Does it; the deadline was `late` seconds ago."""


def spin(node: CyclicNode, executor: Callbacks, stop: threading.Event) -> None:
    """Meets the node's deadlines and runs callbacks between them until asked to stop."""
    while not stop.is_set():
        cycle = node.cycle
        if cycle is None:
            executor.spin_once(timeout_sec=_SPIN_S)
            continue
        free = cycle.free(time.monotonic())
        if free > 0.0:
            executor.spin_once(timeout_sec=min(free, _SPIN_S))
            continue
        node.prepare(max(cycle.wait(time.monotonic()), 0.0))
        wait = cycle.wait(time.monotonic())
        if wait > 0.0:
            time.sleep(wait)
        node.carry_out(cycle.meet(time.monotonic()))
        # However late it is, requests such as a stop are heard in every period.
        executor.spin_once(timeout_sec=0.0)
