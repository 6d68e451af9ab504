"""How fast this machine multiplies matrices of given shapes: the limit of a network made of them.

A network cannot be faster than its matrix products one after the other; what share of that speed
it reaches tells what is lost to everything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from xvla_ros.runtime.benchmark.work import Gemm
from xvla_ros.runtime.device import Device

_MIN_RUNS = 5
Product = Callable[[], Tensor]
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

    def seconds_of(self, gemms: Iterable[Gemm]) -> float:
        """Those of a part of the network."""
        known = {_shape(rate.gemm): rate.seconds for rate in self.shapes}
        return sum(known[_shape(g)] * g.count for g in gemms if g.kind != "depthwise")

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


Layer = Callable[[nn.Linear], nn.Module]
"""Makes the layer that computes a linear layer's product."""


def plain(linear: nn.Linear) -> nn.Module:
    """The layer as it is."""
    return linear


def measure_rates(
    gemms: Iterable[Gemm],
    device: Device,
    dtype: torch.dtype,
    layer: Layer = plain,
    *,
    seconds_per_shape: float = 0.1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> GemmRates:
    """Measures every shape once, however often it occurs; depthwise convolutions are no GEMM."""
    counts: dict[Gemm, int] = {}
    for gemm in gemms:
        if gemm.kind != "depthwise":
            shape = _shape(gemm)
            counts[shape] = counts.get(shape, 0) + gemm.count
    found = []
    for done, (shape, count) in enumerate(counts.items()):
        progress(done, len(counts))
        products = [_product(shape, device.torch_device, dtype, layer) for _ in range(_SETS)]
        seconds = _measure(products, device.synchronize, seconds_per_shape)
        found.append(ShapeRate(shape.times(count), seconds))
    progress(len(counts), len(counts))
    return GemmRates(tuple(found))


def _shape(gemm: Gemm) -> Gemm:
    """The same, once."""
    return replace(gemm, count=1)


@torch.inference_mode()
def _product(shape: Gemm, device: torch.device, dtype: torch.dtype, layer: Layer) -> Product:
    """One product of random numbers."""

    def random(*size: int) -> Tensor:
        return torch.randn(*size).to(device, dtype)

    if shape.kind == "linear":
        linear = layer(nn.Linear(shape.k, shape.n).to(device, dtype).requires_grad_(False))
        values = random(1, shape.m, shape.k)
        return lambda: linear(values)
    first = random(shape.batch, shape.m, shape.k)
    second = random(shape.batch, shape.k, shape.n)
    return lambda: torch.bmm(first, second)


@torch.inference_mode()
def _measure(products: list[Product], synchronize: Callable[[], None], seconds: float) -> float:
    """Median time of one product."""
    times: list[float] = []
    for _ in range(2):
        for product in products:
            product()
    synchronize()
    begun = time.perf_counter()
    while len(times) < _MIN_RUNS or time.perf_counter() - begun < seconds:
        product = products[len(times) % len(products)]
        start = time.perf_counter()
        product()
        synchronize()
        times.append(time.perf_counter() - start)
    return median(times)
