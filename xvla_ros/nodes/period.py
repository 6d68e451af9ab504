"""Measured period of the commands."""

from __future__ import annotations

from collections import deque

import numpy as np


class PeriodMeter:
    """Percentiles of the last periods; 500 are ten seconds at 50 Hz.

    Attributes:
        missed: periods that went without a command.
    """

    def __init__(self, size: int = 500) -> None:
        self._periods: deque[float] = deque(maxlen=size)
        self._late: deque[float] = deque(maxlen=size)
        self._last: float | None = None
        self.missed = 0

    def tick(self, steady: float, late: float = 0.0) -> None:
        """Notes a tick at a time of the steady clock that began `late` seconds after it was due."""
        if self._last is not None:
            self._periods.append(steady - self._last)
            self._late.append(late)
        self._last = steady

    def restart(self) -> None:
        """The pause until the next tick is no period."""
        self._last = None

    def percentiles(self) -> tuple[float, float]:
        """50th and 99th percentile in seconds; zeros before the second tick."""
        if not self._periods:
            return 0.0, 0.0
        p50, p99 = np.percentile(np.fromiter(self._periods, float), (50, 99))
        return float(p50), float(p99)

    def lateness(self) -> float:
        """99th percentile of what passed between due and begun, seconds; 0 before the second."""
        return float(np.percentile(np.fromiter(self._late, float), 99)) if self._late else 0.0
