"""Linear layers in 8 bits, for the CPU.

Weights are rounded once, with a scale for each output; inputs at every call, with a scale for
each token (Dettmers et al. 2022, "LLM.int8()", arXiv:2208.07339, without its outlier columns).
The product is oneDNN's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xvla_ros.model.packed import release_pages

# Symmetric: -128 is not used.
_LARGEST = 127.0
_ROWS = 64
# Where all is zero the scale only has to be something.
_SMALLEST = 1e-30


class Int8Linear(nn.Module):
    """A linear layer for inference, made from a trained one; it has no parameters."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = torch.empty(len(weight))
        rounded = torch.empty(weight.shape, dtype=torch.int8)
        # In portions that the processor's caches hold.
        for part, to, by in zip(*(t.split(_ROWS) for t in (weight, rounded, scale)), strict=True):
            largest = part.abs().amax(dim=1).float()
            by.copy_(largest.clamp_min_(_SMALLEST) / _LARGEST)
            to.copy_((part / by[:, None]).round_())
        self._weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._scale = scale
        self._zero = torch.zeros(len(scale), dtype=torch.int32)
        self.bias = linear.bias.detach()
        self._size = tuple(weight.shape)
        release_pages(linear.weight)

    def forward(self, values: Tensor) -> Tensor:
        """(..., dim_in) to (..., dim_out)."""
        rows = values.flatten(0, -2)
        largest = rows.abs().amax(dim=1, keepdim=True)
        scale = largest.float().clamp_min(_SMALLEST) / _LARGEST
        rounded = (rows / scale).round_().to(torch.int8)
        product = torch.ops.onednn.qlinear_pointwise(
            rounded, 1.0, 0, self._weight, self._scale, self._zero, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        out = torch.addcmul(self.bias.float(), product, scale)
        return out.to(values.dtype).unflatten(0, values.shape[:-1])

    def extra_repr(self) -> str:
        """Sizes, as a linear layer tells them."""
        return f"in_features={self._size[1]}, out_features={self._size[0]}"


def check_int8(device: torch.device) -> None:
    """Raises ValueError where an `Int8Linear` cannot run."""
    if device.type != "cpu":
        raise ValueError("quantize: int8 works on the CPU only; use bfloat16 or float16 here")
    try:
        Int8Linear(nn.Linear(16, 16))(torch.ones(1, 16))
    except (AttributeError, RuntimeError) as error:
        raise ValueError(
            f"quantize: int8 needs oneDNN's quantised product, which torch {torch.__version__} "
            f"lacks on this CPU: {error}"
        ) from error
