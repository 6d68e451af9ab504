"""Choices of how a network is run, and the name under which a chunk states them; without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xvla_ros.model.config import VIEWS
from xvla_ros.model.time_grid import DEFAULT_STEPS, check_grid, uniform_grid

if TYPE_CHECKING:
    import torch

EXACT = "exact"
DTYPES = ("float32", "bfloat16", "float16")
QUANTIZATIONS = ("none", "int8")
FAST = "fast"
IMAGES = (EXACT, FAST)


@dataclass(frozen=True)
class RunOptions:
    """How a network is run. The defaults are the published arithmetic."""

    time_grid: tuple[float, ...] = uniform_grid(DEFAULT_STEPS)
    """Times of the denoising steps."""
    dtype: str = "float32"
    """Number format, one of `DTYPES`."""
    quantize: str = "none"
    """`int8` rounds weights and inputs of the large linear layers to 8 bits."""
    images: str = EXACT
    """How images are made ready, one of `IMAGES`."""
    views: int = VIEWS
    """View slots that the network is given."""
    view_cache: bool = True
    """Whether features of an image are kept until its view has another; changes no number."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("dtype", self.dtype, DTYPES),
            ("quantize", self.quantize, QUANTIZATIONS),
            ("images", self.images, IMAGES),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}; known: {', '.join(known)}")
        if self.views < 1:
            raise ValueError(f"views is {self.views}; a network needs at least one slot")
        check_grid(self.time_grid)

    @property
    def approximation(self) -> str:
        """How a run departs from the published arithmetic; `exact` if it does not."""
        plain = RunOptions()
        parts = [self.dtype] if self.dtype != plain.dtype else []
        parts += [self.quantize] if self.quantize != plain.quantize else []
        parts += [describe_grid(self.time_grid)] if self.time_grid != plain.time_grid else []
        parts += [f"{self.images} images"] if self.images != plain.images else []
        parts += [f"{self.views} view slots"] if self.views != plain.views else []
        return ", ".join(parts) or EXACT

    @property
    def torch_dtype(self) -> torch.dtype:
        """The number format as torch knows it."""
        import torch

        number_format = getattr(torch, self.dtype)
        assert isinstance(number_format, torch.dtype)
        return number_format


def parse_steps(steps: int | Sequence[float]) -> tuple[float, ...]:
    """The time grid of a number of denoising steps, or of the times themselves.

    Raises:
        ValueError: no step, or times that do not descend within (0, 1].
    """
    return uniform_grid(steps) if isinstance(steps, int) else check_grid(steps)


def read_steps(text: str) -> int | tuple[float, ...]:
    """Steps as they are written on a command line: `10`, or times such as `1,0.7,0.4,0.1`.

    Raises:
        ValueError: neither a positive number of steps nor a grid.
    """
    words = text.replace(",", " ").split()
    try:
        steps = (
            int(text) if "," not in text and text.strip().isdigit() else tuple(map(float, words))
        )
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a number of steps nor a list of times such as 1,0.7,0.4,0.1"
        ) from None
    parse_steps(steps)
    return steps


def describe_grid(grid: Sequence[float]) -> str:
    """`4 steps`, or the times where they are not spaced evenly."""
    if tuple(grid) == uniform_grid(len(grid)):
        return f"{len(grid)} steps" if len(grid) > 1 else "1 step"
    return "times " + " ".join(f"{t:g}" for t in grid)
