"""Latency from the observation stamp to the arrival of its chunk."""

from __future__ import annotations

from collections import deque

import numpy as np


class LatencyWindow:
    """The last `size` latencies, without the first of each policy process (its cold start)."""

    def __init__(self, size: int = 50) -> None:
        self._seconds: deque[float] = deque(maxlen=size)
        self._cold = True

    def add(self, seconds: float) -> None:
        """Takes one latency in seconds; the first after `restart` is not kept."""
        if self._cold:
            self._cold = False
            return
        self._seconds.append(seconds)

    def restart(self) -> None:
        """Expects a cold start next: another policy process."""
        self._cold = True

    @property
    def p95(self) -> float:
        """95th percentile in seconds; 0 before the first."""
        return float(np.percentile(list(self._seconds), 95)) if self._seconds else 0.0
