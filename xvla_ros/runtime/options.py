"""Choices of how a network is run, and the name under which a chunk states them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xvla_ros.model.processor import VIEWS
from xvla_ros.model.sampler import check_grid, uniform_grid

EXACT = "exact"
_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
DTYPES = tuple(_DTYPES)


def parse_dtype(name: str) -> torch.dtype:
    """The number format of a name.

    Raises:
        ValueError: it is none of `DTYPES`.
    """
    if name not in _DTYPES:
        raise ValueError(f"dtype is {name!r}; known: {', '.join(DTYPES)}")
    return _DTYPES[name]


def parse_steps(steps: int | Sequence[float]) -> tuple[float, ...]:
    """The time grid of a number of denoising steps, or of the times themselves.

    Raises:
        ValueError: no step, or times that do not descend within (0, 1].
    """
    return uniform_grid(steps) if isinstance(steps, int) else check_grid(steps)


def approximation(dtype: str, views: int) -> str:
    """How a run departs from the published arithmetic; `exact` if it does not.

    The number of denoising steps is no part of it: a chunk states its time grid.
    """
    parts = [dtype] if dtype != "float32" else []
    parts += [f"{views} view slots"] if views != VIEWS else []
    return ", ".join(parts) or EXACT
