"""Making a network ready to run on a CPU, for inference only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn

from xvla_ros.model.action_transformer import Block
from xvla_ros.model.packed import MklLinear, OneDnnLinear, works
from xvla_ros.model.quantized import Int8Linear, check_int8
from xvla_ros.model.xvla import XVLA

Make = Callable[[nn.Linear], nn.Module]


def prepare(model: XVLA, *, int8: bool = False) -> None:
    """Gives the blocks of a network linear layers that are faster on this CPU.

    Nothing but rounding changes, unless `int8`. What is replaced has no parameters any more, so
    the network can neither be trained nor saved afterwards.

    Args:
        model: on the CPU.
        int8: linear layers in 8 bits.

    Raises:
        ValueError: `int8` is not to be had here.
    """
    model.requires_grad_(False)
    first: Block = model.transformer.blocks[0]  # type: ignore[assignment]
    dtype = first.attn.qkv.weight.dtype
    if int8:
        check_int8(first.attn.qkv.weight.device)
        _replace(model, Int8Linear)
    elif dtype == torch.float32 and works(MklLinear, dtype):
        # It has no fixed number of rows: those of the context come once, the actions' each step.
        kept = first.attn.qkv
        _replace(model, lambda linear: linear if linear is kept else MklLinear(linear))
        # One number of rows in the vision tower, however many views there are.
        model.vlm.one_by_one = True
    elif dtype == torch.bfloat16 and works(OneDnnLinear, dtype):
        _fuse_gelu(model)
        _replace(model, OneDnnLinear)


def _blocks(model: XVLA) -> Iterator[nn.Module]:
    """Every module inside the three stacks, which have nearly all of the work."""
    for stack in (
        model.vlm.vision_tower.blocks,
        model.vlm.language_model.model.encoder.layers,
        model.transformer.blocks,
    ):
        yield from list(stack.modules())


def _replace(model: XVLA, make: Make) -> None:
    for owner in _blocks(model):
        for name, child in list(owner.named_children()):
            if isinstance(child, nn.Linear):
                setattr(owner, name, make(child))


def _fuse_gelu(model: XVLA) -> None:
    """Puts each GELU into the linear layer before it."""
    for owner in _blocks(model):
        gelu = getattr(owner, "act", None)
        if isinstance(gelu, nn.GELU):
            layers = getattr(owner, "net", owner)
            assert isinstance(layers.fc1, nn.Linear)
            layers.fc1 = OneDnnLinear(layers.fc1, gelu)
            owner.act = nn.Identity()
