"""Which parts of a network stay in float32 when the rest is in a shorter number format."""

from __future__ import annotations

from collections.abc import Callable

import torch

# bfloat16 numbers from 0.25 to 0.5 lie 2 mm apart, so poses are never held in it: not the proprio,
# not the actions between two steps, and not what makes tokens of them and back. These are
# thousandths of the work. Norms, softmax and time embedding compute in float32 by themselves.
_FLOAT32 = ("transformer.action_encoder.", "transformer.action_decoder.", "transformer.norm.")


def number_formats(dtype: torch.dtype) -> Callable[[str], torch.dtype]:
    """From the name of a tensor to the format that it has in a network of format `dtype`."""
    return lambda name: torch.float32 if name.startswith(_FLOAT32) else dtype
