"""The denoising loop of X-VLA.

The network predicts the clean actions. Every step mixes them anew with the same initial noise;
this is no Euler integration of a velocity (X-VLA, models/modeling_xvla.py,
github.com/2toinf/X-VLA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from xvla_ros.model.time_grid import check_grid


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
