"""What came of an episode."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Episode:
    """One attempt at a task; times are seconds since the epoch."""

    seed: int
    instruction: str
    start: float
    end: float
    success: float | None
    """Seconds from the start to success; None without."""
    ending: str
    """Why it ended, in words."""
