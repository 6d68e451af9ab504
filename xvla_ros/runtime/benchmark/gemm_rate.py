"""How fast this machine multiplies matrices of given shapes: the limit of a network made of them.

A network cannot be faster than its matrix products one after the other; what share of that speed
it reaches tells what is lost to everything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from xvla_ros.runtime.benchmark.work import Gemm
from xvla_ros.runtime.device import Device

_MIN_RUNS = 5
# Two sets of operands, so that the weights are not found in the cache by the next product, as
# they are not in a network.
_SETS = 2


@dataclass(frozen=True)
class ShapeRate:
    """One shape, how often the network has it, and how fast it is here."""

    gemm: Gemm
    seconds: float
    """Of one product (all of its batch)."""

    @property
    def gflop_per_s(self) -> float:
        """Its rate."""
        return self.gemm.flops / self.gemm.count / self.seconds / 1e9


@dataclass(frozen=True)
class GemmRates:
    """Rates over the shapes of a network."""

    shapes: tuple[ShapeRate, ...]

    @property
    def seconds(self) -> float:
        """All matrix products of the network, one after the other."""
        return sum(shape.seconds * shape.gemm.count for shape in self.shapes)

    @property
    def gflop(self) -> float:
        """Of all of them."""
        return sum(shape.gemm.flops for shape in self.shapes) / 1e9

    @property
    def gflop_per_s(self) -> float:
        """Weighted as the network has them."""
        return self.gflop / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "seconds": self.seconds,
            "gflop": self.gflop,
            "gflop_per_s": self.gflop_per_s,
            "shapes": [
                asdict(shape.gemm) | {"gflop_per_s": shape.gflop_per_s} for shape in self.shapes
            ],
        }


def measure_rates(
    gemms: Iterable[Gemm],
    device: Device,
    dtype: torch.dtype,
    *,
    seconds_per_shape: float = 0.1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> GemmRates:
    """Measures every shape once, however often it occurs; depthwise convolutions are no GEMM."""
    counts: dict[Gemm, int] = {}
    for gemm in gemms:
        if gemm.kind != "depthwise":
            shape = Gemm(gemm.m, gemm.k, gemm.n, gemm.batch, kind=gemm.kind)
            counts[shape] = counts.get(shape, 0) + gemm.count
    found = []
    for done, (shape, count) in enumerate(counts.items()):
        progress(done, len(counts))
        seconds = _measure(shape, device, dtype, seconds_per_shape)
        found.append(ShapeRate(shape.times(count), seconds))
    progress(len(counts), len(counts))
    return GemmRates(tuple(found))


@torch.inference_mode()
def _measure(shape: Gemm, device: Device, dtype: torch.dtype, seconds: float) -> float:
    """Median time of one product."""
    operands = [_operands(shape, device.torch_device, dtype) for _ in range(_SETS)]
    product = _linear if shape.kind == "linear" else _attention
    times: list[float] = []
    for _ in range(2):
        for pair in operands:
            product(*pair)
    device.synchronize()
    begun = time.perf_counter()
    while len(times) < _MIN_RUNS or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        product(*operands[len(times) % _SETS])
        device.synchronize()
        times.append(time.perf_counter() - start)
    return median(times)


def _operands(shape: Gemm, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)

    def random(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator).to(device, dtype)

    if shape.kind == "linear":
        rows = (shape.m,) if shape.batch == 1 else (shape.batch, shape.m)
        return random(*rows, shape.k), random(shape.n, shape.k), random(shape.n)
    return random(shape.batch, shape.m, shape.k), random(shape.batch, shape.k, shape.n)


def _linear(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.linear(values, weight, bias)


def _attention(first: Tensor, second: Tensor) -> Tensor:
    return torch.bmm(first, second)
