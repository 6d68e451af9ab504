"""Statistics of paired differences whose neighbours in time depend on one another. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_RESAMPLES = 4000
# Fewer units than this do not show how much they vary.
_FEWEST_UNITS = 4
# Up to so many units every assignment of signs is tried.
_EXACT_UNITS = 12
# Fewer episodes than this say little about the next one: parts of them are taken instead.
FEWEST_EPISODES = 8


@dataclass(frozen=True)
class Difference:
    """B minus A over pairs."""

    pairs: int
    units: int
    """Independent groups of pairs."""
    mean_a: float
    mean_b: float
    mean: float
    low: float
    """Of the 95 % interval of the mean; NaN where there are too few units to tell."""
    high: float
    p_value: float
    """That a mean at least as far from zero comes about without any difference."""
    b_larger: int
    """Pairs in which B is larger."""
    a_larger: int

    @property
    def clear(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0.0 or self.high < 0.0


def difference(a: Array, b: Array, units: Sequence[int], seed: int = 0) -> Difference | None:
    """The mean difference of pairs in which both are known; None when there is no such pair.

    Interval: bootstrap-t over units (Efron and Tibshirani, "An Introduction to the Bootstrap",
    1993, section 12.5, which unlike the percentile interval is not too narrow for few units);
    whole units are drawn because the pairs in one of them depend on one another. p: randomisation
    test that flips the signs of whole units.

    Args:
        a: (n,) of the first result; NaN where not known.
        b: (n,) of the second.
        units: (n,) which pairs depend on one another: they have the same number.
        seed: of the resampling.
    """
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any():
        return None
    d = b[known] - a[known]
    _, group = np.unique(np.asarray(units)[known], return_inverse=True)
    sums: Array = np.bincount(group, d).astype(np.float64)
    sizes: Array = np.bincount(group).astype(np.float64)
    generator = np.random.default_rng(seed)
    low, high = _interval(sums, sizes, generator)
    return Difference(
        pairs=len(d),
        units=len(sums),
        mean_a=float(a[known].mean()),
        mean_b=float(b[known].mean()),
        mean=float(d.mean()),
        low=low,
        high=high,
        p_value=_flips(sums, generator),
        b_larger=int((d > 0.0).sum()),
        a_larger=int((d < 0.0).sum()),
    )


def _interval(sums: Array, sizes: Array, generator: np.random.Generator) -> tuple[float, float]:
    """95 % interval of the mean over all pairs, of units with sums and sizes (n,)."""
    n = len(sums)
    if n < _FEWEST_UNITS:
        return float("nan"), float("nan")
    mean, error = (float(v[0]) for v in _studentised(sums[None], sizes[None]))
    drawn = generator.integers(0, n, (_RESAMPLES, n))
    means, errors = _studentised(sums[drawn], sizes[drawn])
    usable = errors > 0.0
    if error <= 0.0 or not usable.any():
        return mean, mean
    low, high = np.percentile((means[usable] - mean) / errors[usable], (2.5, 97.5))
    return mean - float(high) * error, mean - float(low) * error


def _studentised(sums: Array, sizes: Array) -> tuple[Array, Array]:
    """Means (m,) and their standard errors, of rows (m, n) of units: a ratio of two sums."""
    n = sums.shape[1]
    total = sizes.sum(axis=1)
    means = sums.sum(axis=1) / total
    rest = sums - means[:, None] * sizes
    return means, np.sqrt(n / (n - 1) * (rest**2).sum(axis=1)) / total


def _flips(sums: Array, generator: np.random.Generator) -> float:
    """Share of the assignments of signs whose sum is as far from zero as the one found."""
    n = len(sums)
    if n <= _EXACT_UNITS:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        totals = np.abs((1.0 - 2.0 * bits) @ sums)
        extra = 0
    else:
        signs = generator.choice((-1.0, 1.0), (_RESAMPLES, n))
        totals = np.abs(signs @ sums)
        extra = 1  # the assignment that was found
    found = abs(float(sums.sum()))
    reached = int((totals >= found * (1.0 - 1e-12)).sum())
    return (reached + extra) / (len(totals) + extra)


def independent_units(episodes: Sequence[int], times: Array, length: float) -> list[int]:
    """Groups of pairs: whole episodes if there are enough, else parts as long as a chunk.

    Args:
        episodes: (n,) number of each pair's episode.
        times: (n,) seconds.
        length: of a part, seconds.
    """
    if len(set(episodes)) >= FEWEST_EPISODES:
        return list(episodes)
    first: dict[int, float] = {}
    keys = []
    for episode, time in zip(episodes, times, strict=True):
        start = first.setdefault(episode, float(time))
        keys.append((episode, int((time - start) // length)))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] for key in keys]


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p that two paired proportions are equal (McNemar 1947).

    Args:
        only_a: pairs in which only A succeeds.
        only_b: pairs in which only B succeeds.
    """
    n = only_a + only_b
    if n == 0:
        return 1.0
    tail = sum(comb(n, k) for k in range(min(only_a, only_b) + 1)) / 2**n
    return min(1.0, 2.0 * tail)
