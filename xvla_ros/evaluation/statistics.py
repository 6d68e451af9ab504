"""Intervals for counted successes."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

# Quantile of the normal distribution for a two-sided 95 % interval.
_Z95 = 1.959963984540054


@dataclass(frozen=True)
class Proportion:
    """Successes out of trials, with the 95 % Wilson score interval.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927):
    unlike the textbook interval it stays inside [0, 1] and is sensible at 0 % and 100 %.
    """

    successes: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials:
            raise ValueError(f"{self.successes} successes out of {self.trials} trials")

    @property
    def rate(self) -> float:
        """Successes per trial; 0 when nothing was tried."""
        return self.successes / self.trials if self.trials else 0.0

    def interval(self, z: float = _Z95) -> tuple[float, float]:
        """Lower and upper end; (0, 1) when nothing was tried."""
        n = self.trials
        if n == 0:
            return 0.0, 1.0
        p = self.rate
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, centre - half), min(1.0, centre + half)

    def __str__(self) -> str:
        low, high = self.interval()
        return (
            f"{self.successes}/{self.trials} = {100 * self.rate:.0f} % "
            f"(95 % interval {100 * low:.0f}-{100 * high:.0f} %)"
        )
