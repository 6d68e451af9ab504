"""Figures of a run from its recorded series. Pure numpy; times are seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Median, 95th percentile and largest of a number of values; all 0 when there are none."""

    p50: float
    p95: float
    largest: float
    count: int

    @staticmethod
    def of(values: ArrayLike) -> Spread:
        """The spread of finite values; others are left out."""
        v = np.asarray(values, dtype=np.float64).ravel()
        v = v[np.isfinite(v)]
        if v.size == 0:
            return Spread(0.0, 0.0, 0.0, 0)
        p50, p95 = np.percentile(v, (50.0, 95.0))
        return Spread(float(p50), float(p95), float(v.max()), v.size)


@dataclass(frozen=True)
class FramesLost:
    """Frames that were published while somebody listened, and those that did not arrive."""

    published: int
    lost: int

    @property
    def fraction(self) -> float:
        """Lost per published; 0 when nothing was published."""
        return self.lost / self.published if self.published else 0.0

    def __add__(self, other: FramesLost) -> FramesLost:
        return FramesLost(self.published + other.published, self.lost + other.lost)


def frames_lost(published: ArrayLike, received: ArrayLike) -> FramesLost:
    """Frames lost between two counters that are reported at different times.

    Both are compared over the span that both cover; between two reports of the publisher its
    count is taken to rise evenly, which is right to one frame.

    Args:
        published: (n, 2) rows of time and number of frames sent so far.
        received: (m, 2) rows of time and number of frames received so far.

    Returns:
        Zeros when the reports do not overlap in time.
    """
    sent, got = _by_time(published), _by_time(received)
    if len(sent) < 2 or len(got) < 2:
        return FramesLost(0, 0)
    inside = got[(got[:, 0] >= sent[0, 0]) & (got[:, 0] <= sent[-1, 0])]
    if len(inside) < 2:
        return FramesLost(0, 0)
    count = np.interp(inside[[0, -1], 0], sent[:, 0], sent[:, 1])
    total = round(float(count[1] - count[0]))
    lost = total - round(float(inside[-1, 1] - inside[0, 1]))
    return FramesLost(total, max(lost, 0))


def _by_time(rows: ArrayLike) -> Array:
    array = np.asarray(rows, dtype=np.float64).reshape(-1, 2)
    return array[np.argsort(array[:, 0], kind="stable")]


def speeds(times: ArrayLike, positions: ArrayLike) -> Array:
    """Speeds (n - 1,) in m/s along positions (n, 3); NaN where time stands still."""
    dt = np.diff(np.asarray(times, dtype=np.float64))
    path = np.linalg.norm(np.diff(np.asarray(positions, dtype=np.float64), axis=0), axis=-1)
    return np.divide(path, dt, out=np.full(len(dt), np.nan), where=dt > 0.0)


def changes(times: Sequence[float], values: Sequence[int]) -> list[float]:
    """Times at which a value differs from the one before it."""
    pairs = zip(times[1:], values, values[1:], strict=False)
    return [time for time, before, after in pairs if before != after]


def rate(times: ArrayLike) -> float:
    """Events per second between the first and the last; 0 for fewer than two."""
    t = np.sort(np.asarray(times, dtype=np.float64).ravel())
    span = float(t[-1] - t[0]) if t.size > 1 else 0.0
    return (t.size - 1) / span if span > 0.0 else 0.0


def within(times: ArrayLike, spans: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Which times (n,) lie in one of the closed spans."""
    t = np.asarray(times, dtype=np.float64)
    inside = np.zeros(t.shape, dtype=bool)
    for start, end in spans:
        inside |= (t >= start) & (t <= end)
    return inside
