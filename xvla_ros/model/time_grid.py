"""Times of the denoising steps; without torch, for whoever only checks a configuration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

DEFAULT_STEPS = 10


def uniform_grid(steps: int) -> tuple[float, ...]:
    """Times 1, (n-1)/n, ..., 1/n of n network evaluations."""
    if steps < 1:
        raise ValueError(f"a time grid needs at least one step, not {steps}")
    return tuple(i / steps for i in range(steps, 0, -1))


def check_grid(grid: Sequence[float]) -> tuple[float, ...]:
    """The grid as a tuple.

    Raises:
        ValueError: it is empty, leaves (0, 1], or does not descend.
    """
    times = tuple(float(t) for t in grid)
    inside = all(math.isfinite(t) and 0.0 < t <= 1.0 for t in times)
    descending = all(a > b for a, b in pairwise(times))
    if not times or not inside or not descending:
        raise ValueError(f"a time grid must descend within (0, 1], not {list(times)}")
    return times
