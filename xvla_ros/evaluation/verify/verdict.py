"""Whether a variant is as good as the reference in closed loop: paired, with a margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np

from xvla_ros.evaluation.paired import Difference, difference, mcnemar
from xvla_ros.evaluation.statistics import Proportion
from xvla_ros.evaluation.verify.agreement import clean
from xvla_ros.evaluation.verify.trial import Outcome

# Quantile of the normal distribution for a two-sided 95 % interval.
_Z95 = 1.959963984540054
MARGIN = 0.02
"""Of the success rate: a variant is accepted when 95 % confidence excludes a larger loss."""
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Verdict:
    """B against A on the same seeds."""

    a: Proportion
    b: Proportion
    only_a: int
    """Seeds on which only A succeeds."""
    only_b: int
    low: float
    """Of the 95 % interval of the difference of the success rates, B minus A."""
    high: float
    p_value: float
    """McNemar's, that both succeed equally often."""
    seconds: Difference | None
    """Time to success where both succeed; None where that is never."""
    margin: float

    @property
    def accepted(self) -> bool:
        """Whether B is not worse than A by the margin or more."""
        return self.low > -self.margin

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "pairs": self.a.trials,
            "successes_a": self.a.successes,
            "successes_b": self.b.successes,
            "only_a": self.only_a,
            "only_b": self.only_b,
            "difference": self.b.rate - self.a.rate,
            "difference_interval_95": [self.low, self.high],
            "p_value": self.p_value,
            "seconds_to_success": None if self.seconds is None else clean(asdict(self.seconds)),
            "margin": self.margin,
            "accepted": self.accepted,
        }


def judge(a: Mapping[int, Outcome], b: Mapping[int, Outcome], margin: float = MARGIN) -> Verdict:
    """Compares outcomes by seed.

    Raises:
        ValueError: they have no seed in common.
    """
    seeds = [seed for seed in a if seed in b]
    if not seeds:
        raise ValueError("no seed was run with both")
    only_a = sum(a[s].success and not b[s].success for s in seeds)
    only_b = sum(b[s].success and not a[s].success for s in seeds)
    low, high = paired_interval(only_a, only_b, len(seeds))
    times = [_seconds({s: outcomes[s] for s in seeds}) for outcomes in (a, b)]
    return Verdict(
        a=Proportion(sum(a[s].success for s in seeds), len(seeds)),
        b=Proportion(sum(b[s].success for s in seeds), len(seeds)),
        only_a=only_a,
        only_b=only_b,
        low=low,
        high=high,
        p_value=mcnemar(only_a, only_b),
        seconds=difference(times[0], times[1], seeds),
        margin=margin,
    )


def _seconds(outcomes: Mapping[int, Outcome]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Time to success by episode; NaN for a failure."""
    return np.array([o.seconds if o.success else np.nan for o in outcomes.values()])


def paired_interval(only_a: int, only_b: int, n: int, z: float = _Z95) -> tuple[float, float]:
    """Score interval of the difference of two paired proportions, B minus A.

    Tango, "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17 (1998): unlike Wald's interval it has a
    width also where no pair differs.

    Args:
        only_a: pairs in which only A succeeds.
        only_b: pairs in which only B succeeds.
        n: all pairs.
        z: quantile of the normal distribution.
    """
    centre = (only_b - only_a) / n

    def end(outer: float) -> float:
        """Where between `centre` and `outer` the score leaves [-z, z]."""
        inner = centre
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2.0
            if abs(_score(only_a, only_b, n, middle)) <= z:
                inner = middle
            else:
                outer = middle
        return inner

    return end(-1.0), end(1.0)


def _score(only_a: int, only_b: int, n: int, delta: float) -> float:
    """Tango's statistic of the hypothesis that the difference is `delta`."""
    # The likeliest share of pairs in which only A succeeds, given the difference: the root of
    # 2 n q^2 + linear q + constant.
    linear = (2 * n + only_a - only_b) * delta - only_a - only_b
    constant = -only_a * delta * (1.0 - delta)
    root = sqrt(max(linear * linear - 8.0 * n * constant, 0.0))
    share = (root - linear) / (4.0 * n)
    variance = n * (2.0 * share + delta * (1.0 - delta))
    gap = only_b - only_a - n * delta
    if gap == 0.0:
        return 0.0
    return gap / sqrt(variance) if variance > 0.0 else float("inf")
