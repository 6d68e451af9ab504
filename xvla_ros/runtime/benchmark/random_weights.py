"""A network of the published size with random weights: as large and as slow as the real one."""

from __future__ import annotations

from pathlib import Path

import torch

from xvla_ros.model.checkpoint import save_checkpoint
from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.xvla import XVLA


def write_random_weights(folder: Path, config: XVLAConfig, seed: int = 0) -> None:
    """Writes config.json and model.safetensors with numbers drawn from a seed.

    Two networks are told apart only where their numbers depend on the inputs, so the weights are
    those a training would begin with.
    """
    torch.manual_seed(seed)
    save_checkpoint(XVLA(config), folder)
