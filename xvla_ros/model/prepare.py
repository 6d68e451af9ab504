"""Making a network ready to run on a CPU, for inference only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from xvla_ros.model.action_transformer import Block
from xvla_ros.model.packed import (
    MklLinear,
    OneDnnConv,
    OneDnnLinear,
    convolves,
    pack,
    pack_conv,
    works,
)
from xvla_ros.model.quantized import Int8Linear, check_int8
from xvla_ros.model.xvla import XVLA

if TYPE_CHECKING:
    from xvla_ros.model.weights import Form

Make = Callable[[Any], nn.Module]


def forms(model: XVLA, dtype: torch.dtype, *, int8: bool = False) -> dict[str, Form]:
    """How to keep weights that are converted to `dtype` while they are read, by name.

    `prepare` would lay them out itself, but from plain ones, whose memory a process does not give
    back as soon as they are given up.

    Args:
        model: as empty as it may be.
        dtype: of its blocks.
        int8: linear layers in 8 bits.
    """
    known: dict[nn.Module, Form] = {}
    if convolves(dtype):
        known |= {m: partial(pack_conv, m) for m in _convolutions(model)}
    if dtype == torch.bfloat16 and not int8 and works(OneDnnLinear, dtype):
        known |= {m: pack for m in _blocks(model) if isinstance(m, nn.Linear)}
    return {f"{name}.weight": known[m] for name, m in model.named_modules() if m in known}


def prepare(model: XVLA, *, int8: bool = False) -> None:
    """Gives a network linear layers and convolutions that are faster on this CPU.

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
    if convolves(dtype):
        _replace(model.vlm.vision_tower.modules(), nn.Conv2d, OneDnnConv)
    if int8:
        check_int8(first.attn.qkv.weight.device)
        _replace(_blocks(model), nn.Linear, Int8Linear)
    elif dtype == torch.float32 and works(MklLinear, dtype):
        # It has no fixed number of rows: those of the context come once, the actions' each step.
        kept = first.attn.qkv
        _replace(
            _blocks(model),
            nn.Linear,
            lambda linear: linear if linear is kept else MklLinear(linear),
        )
        # One number of rows in the vision tower, however many views there are.
        model.vlm.one_by_one = True
    elif dtype == torch.bfloat16 and works(OneDnnLinear, dtype):
        # It costs next to no time, and saves most of the memory that a prediction takes.
        model.vlm.vision_tower.one_by_one = 2
        _fuse_gelu(model)
        _replace(_blocks(model), nn.Linear, OneDnnLinear)


def _blocks(model: XVLA) -> Iterator[nn.Module]:
    """Every module inside the three stacks, which have nearly all of the work."""
    for stack in (
        model.vlm.vision_tower.blocks,
        model.vlm.language_model.model.encoder.layers,
        model.transformer.blocks,
    ):
        yield from list(stack.modules())


def _convolutions(model: XVLA) -> Iterator[nn.Conv2d]:
    return (m for m in model.vlm.vision_tower.modules() if isinstance(m, nn.Conv2d))


def _replace(owners: Iterable[nn.Module], kind: type[nn.Module], make: Make) -> None:
    for owner in list(owners):
        for name, child in list(owner.named_children()):
            if isinstance(child, kind):
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
