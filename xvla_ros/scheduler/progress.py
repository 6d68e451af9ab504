"""How much of the plan was executed by when."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque


class ProgressLog:
    """Plan time executed so far, as a function of the clock over the last seconds.

    A chunk counts from its t_ref; what has been executed since then is what must be skipped of
    it, no more: nothing if the arm stood still, less than the clock says if it was slowed.
    """

    def __init__(self, keep_s: float = 12.0) -> None:
        self._keep_s = keep_s
        self._times: deque[float] = deque()
        self._values: deque[float] = deque()

    @property
    def value(self) -> float:
        """Seconds of plan executed so far."""
        return self._values[-1] if self._values else 0.0

    def clear(self) -> None:
        """Forgets everything: nothing was executed before the next entry."""
        self._times.clear()
        self._values.clear()

    def add(self, time: float, advance: float) -> None:
        """Plan seconds executed since the last entry; an earlier time counts as the same."""
        if self._times:
            time = max(time, self._times[-1])
        self._values.append(self.value + advance)
        self._times.append(time)
        while self._times[0] < time - self._keep_s:
            self._times.popleft()
            self._values.popleft()

    def since(self, time: float) -> float:
        """Plan seconds executed after a time, as far back as is known."""
        if not self._times:
            return 0.0
        i = bisect_right(self._times, time)
        if i == 0:
            return self.value - self._values[0]
        if i == len(self._times):
            return 0.0
        t0, t1 = self._times[i - 1], self._times[i]
        v0, v1 = self._values[i - 1], self._values[i]
        return self.value - (v0 + (v1 - v0) * (time - t0) / (t1 - t0))
