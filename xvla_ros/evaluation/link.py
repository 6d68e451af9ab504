"""The way of chunks from the policy to the scheduler in a lockstep episode.

An inference takes a time, and one is running at a time. Its chunk may be lost, or make a detour
and arrive after the one that was computed next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xvla_ros.chunk import Chunk

_SOON = 1e-9
# A detour in units of the time between two chunks: long enough for the next one to overtake.
_DETOUR = 1.5


@dataclass(frozen=True)
class LinkFaults:
    """What goes wrong on the way."""

    jitter_s: float = 0.0
    """Mean of an exponentially distributed time on top of the latency, seconds."""
    drop: float = 0.0
    """Share of the chunks that never arrive."""
    detour: float = 0.0
    """Share of the chunks that are overtaken by the next one."""

    def __post_init__(self) -> None:
        shares = (self.drop, self.detour)
        if not self.jitter_s >= 0.0 or not all(0.0 <= share <= 1.0 for share in shares):
            raise ValueError(
                f"jitter {self.jitter_s} s must not be negative, and the shares of dropped and "
                f"detoured chunks, {self.drop} and {self.detour}, must lie in [0, 1]"
            )


class Link:
    """Chunks on their way; every time is simulated.

    Args:
        latency_s: from an observation to the arrival of its chunk.
        period_s: between two observations, unless the latency is longer.
        faults: what goes wrong.
        seed: of the faults: the same one meets every strategy with the same faults.
    """

    def __init__(self, latency_s: float, period_s: float, faults: LinkFaults, seed: int) -> None:
        self._latency = latency_s
        self._period = period_s
        self._faults = faults
        self._rng = np.random.default_rng([seed, 2])
        self._flying: list[tuple[float, Chunk]] = []
        self._free = 0.0

    def free(self, now: float) -> bool:
        """Whether the next inference may begin."""
        return now >= self._free - _SOON

    def send(self, chunk: Chunk, now: float) -> None:
        """Takes a chunk whose observation and inference begin now."""
        # Always three numbers, so that one fault does not shift the others.
        extra, lost, detours = self._rng.exponential(), self._rng.random(), self._rng.random()
        self._free = now + self._latency + self._faults.jitter_s * extra
        if lost < self._faults.drop:
            return
        arrival = self._free
        if detours < self._faults.detour:
            arrival += _DETOUR * max(self._period, self._latency)
        self._flying.append((arrival, chunk))

    def arrived(self, now: float) -> list[Chunk]:
        """Takes out the chunks that have arrived by now, in the order of their arrival."""
        due = sorted((f for f in self._flying if f[0] <= now + _SOON), key=lambda f: f[0])
        self._flying = [f for f in self._flying if f[0] > now + _SOON]
        return [chunk for _, chunk in due]
