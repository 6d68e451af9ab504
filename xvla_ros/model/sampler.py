"""The denoising loop of X-VLA.

The network predicts the clean actions. Every step mixes them anew with the same initial noise;
this is no Euler integration of a velocity (X-VLA, models/modeling_xvla.py,
github.com/2toinf/X-VLA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from xvla_ros.model.time_grid import check_grid


@dataclass(frozen=True)
class Guide:
    """Actions that are known, to be imposed on what the network predicts."""

    target: Tensor
    """(B, H, A), in the numbers of the checkpoint."""
    weight: Tensor
    """(B, H, A) in [0, 1]: 0 leaves a number free."""

    def impose(self, clean: Tensor) -> Tensor:
        """The prediction (B, H, A) with what is known; free numbers are exactly as they were."""
        return torch.lerp(clean, self.target.to(clean.dtype), self.weight.to(clean.dtype))


def denoise(
    predict: Callable[[Tensor, float], Tensor],
    noise: Tensor,
    grid: Sequence[float],
    guide: Guide | None = None,
) -> Tensor:
    """The last clean prediction.

    With a guide each step but the first starts from a prediction on which it has been imposed.
    The last prediction stays what the network says: what joins a chunk to the command is the
    scheduler, which would otherwise do it a second time.

    Args:
        predict: clean actions of noisy ones (B, H, A) at a time.
        noise: standard normal (B, H, A).
        grid: descending times; the first is 1 for a start from pure noise.
        guide: what is known of the actions.
    """
    clean = torch.zeros_like(noise)
    for step, t in enumerate(check_grid(grid)):
        if guide is not None and step > 0:
            clean = guide.impose(clean)
        clean = predict(t * noise + (1.0 - t) * clean, t)
    return clean


def sample_times(batch: int, generator: torch.Generator | None = None) -> Tensor:
    """Training times (B,) in [0, 1), one in each of B equal strata up to a common shift."""
    shift = torch.rand(1, generator=generator)
    return (shift + torch.arange(batch) / batch) % (1.0 - 1e-5)
