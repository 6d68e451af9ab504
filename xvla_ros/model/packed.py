"""Linear layers and convolutions whose weights are laid out once as the CPU's product wants them.

A library that is given plain weights lays them out anew at every call, which costs a quarter of
the time of a product with few hundred rows. These layers are for inference: made from trained
ones, they have no parameters, and the plain weights are given up.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_MADV_DONTNEED = 4
_PAGE = 4096


class MklLinear(nn.Module):
    """A float32 linear layer with MKL's packed weights.

    They are packed at the first call, for its number of rows. Another number of rows works too,
    in portions of that number.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias.detach()
        self._weight: Tensor | None = linear.weight.detach()
        # The operator reads the sizes of the plain weights from a tensor, but not its numbers.
        self._sizes = torch.empty(1).expand(linear.weight.shape)
        self._packed = torch.empty(0)
        self._rows = 0

    def forward(self, values: Tensor) -> Tensor:
        """(..., dim_in) to (..., dim_out)."""
        rows = values.numel() // values.shape[-1]
        if self._weight is not None:
            self._packed = torch.ops.mkl._mkl_reorder_linear_weight(self._weight, rows)
            self._rows = rows
            release_pages(self._weight)
            self._weight = None
        if rows == self._rows:
            return self._product(values)
        flat = functional.pad(values.reshape(rows, -1), (0, 0, 0, -rows % self._rows))
        parts = [self._product(part) for part in flat.split(self._rows)]
        return torch.cat(parts)[:rows].unflatten(0, values.shape[:-1])

    def _product(self, values: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkl._mkl_linear(
            values, self._packed, self._sizes, self.bias, self._rows
        )
        return out


class OneDnnLinear(nn.Module):
    """A linear layer, with the GELU after it if there is one, on oneDNN's packed weights."""

    def __init__(self, linear: nn.Linear, gelu: nn.GELU | None = None) -> None:
        super().__init__()
        self.bias = linear.bias.detach()
        self._packed = _packed(linear.weight.detach(), pack)
        self._after = ("none", "") if gelu is None else ("gelu", gelu.approximate)

    def forward(self, values: Tensor) -> Tensor:
        """(..., dim_in) to (..., dim_out)."""
        name, kind = self._after
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            values, self._packed, self.bias, name, [], kind
        )
        return out


class OneDnnConv(nn.Module):
    """A convolution on oneDNN's packed weights."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.bias = None if conv.bias is None else conv.bias.detach()
        self._packed = _packed(conv.weight.detach(), partial(pack_conv, conv))
        self._how = (conv.padding, conv.stride, conv.dilation, conv.groups)

    def forward(self, image: Tensor) -> Tensor:
        """(n, dim_in, H, W) to (n, dim_out, h, w)."""
        out: Tensor = torch.ops.mkldnn._convolution_pointwise(
            image, self._packed, self.bias, *self._how, "none", [], ""
        )
        return out


def pack(weight: Tensor) -> Tensor:
    """Plain weights (dim_out, dim_in) laid out for `OneDnnLinear`."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
    return packed


def pack_conv(conv: nn.Conv2d, weight: Tensor) -> Tensor:
    """Plain weights of a convolution, whose own are not looked at, laid out for `OneDnnConv`."""
    packed: Tensor = torch.ops.mkldnn._reorder_convolution_weight(
        weight, conv.padding, conv.stride, conv.dilation, conv.groups
    )
    return packed


def _packed(weight: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
    """The weights if they are packed already, or else what `make` makes of them."""
    if weight.is_mkldnn:
        return weight
    packed = make(weight)
    release_pages(weight)
    return packed


def works(make: Callable[[nn.Linear], nn.Module], dtype: torch.dtype) -> bool:
    """Whether a layer of this kind computes what a linear layer does, in this build of torch."""
    values = torch.linspace(-1.0, 1.0, 96, dtype=dtype).view(3, 32)
    return _equals(make, nn.Linear(32, 16, dtype=dtype), values)


def convolves(dtype: torch.dtype) -> bool:
    """Whether an `OneDnnConv` computes what a convolution does, in this build of torch."""
    if dtype == torch.float16:  # few processors have its products; nothing is known of the others
        return False
    image = torch.linspace(-1.0, 1.0, 16 * 36, dtype=dtype).view(1, 16, 6, 6)
    return all(
        _equals(OneDnnConv, nn.Conv2d(16, 16, 3, padding=1, groups=groups, dtype=dtype), image)
        for groups in (1, 16)
    )


def _equals(make: Callable[[Any], nn.Module], plain: nn.Module, values: Tensor) -> bool:
    with torch.inference_mode():
        expected = plain(values)
        try:
            found = make(plain)(values)
        except (AttributeError, RuntimeError):  # no such operator, or not for this processor
            return False
    return bool(torch.allclose(found, expected, rtol=0.0, atol=0.02))


def release_pages(weight: Tensor) -> None:
    """Unloads what nobody will read again of weights that are mapped from their file.

    Mapped pages count as memory of the process. They come back from the file if they are read
    after all.
    """
    start = weight.data_ptr()
    end = start + weight.nbytes
    first, last = -(-start // _PAGE) * _PAGE, end // _PAGE * _PAGE
    if first < last and _is_mapped(first, last):
        libc = ctypes.CDLL(None)
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED)


def _is_mapped(first: int, last: int) -> bool:
    """Whether these addresses are those of a file that cannot be written through them."""
    if sys.platform != "linux":
        return False
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, _, _, _, inode = line.split(maxsplit=5)[:5]
        low, high = (int(bound, 16) for bound in span.split("-"))
        if low <= first and last <= high:
            return inode != "0"
    return False
