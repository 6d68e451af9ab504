"""Which of very many predictions a page shows in full. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def worst(
    scores: Array, groups: Sequence[int], times: Array, count: int, apart: float
) -> list[int]:
    """Indices of the largest scores, worst first, so that one bad event is listed once.

    Args:
        scores: (n,) larger is worse; NaN is not ranked.
        groups: (n,) episode of each; distance in time counts within one episode.
        times: (n,) seconds.
        count: how many at most.
        apart: seconds between two of the same group at least.
    """
    chosen: list[int] = []
    for index in np.argsort(-np.where(np.isfinite(scores), scores, -np.inf), kind="stable"):
        if len(chosen) == count or not np.isfinite(scores[index]):
            break
        near = (
            abs(times[index] - times[other]) < apart
            for other in chosen
            if groups[other] == groups[index]
        )
        if not any(near):
            chosen.append(int(index))
    return chosen


def spread_out(groups: Sequence[int], count: int) -> list[int]:
    """Indices evenly over each group, every group in proportion to its size and at least two.

    Args:
        groups: (n,) episode of each item; items of one group are neighbours.
        count: how many in all, roughly.
    """
    keys = np.asarray(groups)
    chosen: list[int] = []
    for key in dict.fromkeys(groups):
        members = np.flatnonzero(keys == key)
        share = max(2, round(count * len(members) / max(len(keys), 1)))
        picks = np.linspace(0, len(members) - 1, min(share, len(members))).round().astype(int)
        chosen.extend(int(members[pick]) for pick in dict.fromkeys(picks.tolist()))
    return chosen
