"""The denoising loop of X-VLA.

The network predicts the clean actions. Every step mixes them anew with the same initial noise;
this is no Euler integration of a velocity (X-VLA, models/modeling_xvla.py,
github.com/2toinf/X-VLA).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

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


def denoise(
    predict: Callable[[Tensor, float], Tensor], noise: Tensor, grid: Sequence[float]
) -> Tensor:
    """The last clean prediction.

    Args:
        predict: clean actions of noisy ones (B, H, A) at a time.
        noise: standard normal (B, H, A).
        grid: descending times; the first is 1 for a start from pure noise.
    """
    clean = torch.zeros_like(noise)
    for t in check_grid(grid):
        clean = predict(t * noise + (1.0 - t) * clean, t)
    return clean


def sample_times(batch: int, generator: torch.Generator | None = None) -> Tensor:
    """Training times (B,) in [0, 1), one in each of B equal strata up to a common shift."""
    shift = torch.rand(1, generator=generator)
    return (shift + torch.arange(batch) / batch) % (1.0 - 1e-5)
