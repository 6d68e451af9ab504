"""The full-size network has the tensors of the published checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch

from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.xvla import XVLA

PUBLISHED = Path(__file__).parent / "data" / "published_tensors.txt"


def published() -> dict[str, list[int]]:
    shapes = {}
    for line in PUBLISHED.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, shape, *count = line.split()
        for layer in range(int(count[0]) if count else 1):
            shapes[name.replace("*", str(layer))] = [int(n) for n in shape.split("x")]
    return shapes


def full_size() -> XVLA:
    with torch.device("meta"):
        return XVLA(XVLAConfig())


def test_full_size_has_exactly_the_published_names_and_shapes() -> None:
    ours = {name: list(tensor.shape) for name, tensor in full_size().state_dict().items()}

    assert len(published()) == 904
    assert ours == published()


def test_full_size_has_879_million_parameters() -> None:
    assert sum(p.numel() for p in full_size().parameters()) == 879_482_456


def test_an_empty_configuration_is_the_published_one() -> None:
    assert XVLAConfig.from_dict({"model_type": "xvla"}) == XVLAConfig()
