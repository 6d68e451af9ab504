"""Small networks and model folders with random weights, for the tests of every part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor, nn

from xvla_ros.model.checkpoint import save_checkpoint
from xvla_ros.model.config import TextConfig, VisionConfig, XVLAConfig
from xvla_ros.model.processor import TOKENIZER_FILE, ImageTransform, write_preprocessor_config
from xvla_ros.model.xvla import XVLA

TEXT = TextConfig(
    vocab_size=300,
    d_model=48,
    encoder_layers=2,
    encoder_attention_heads=4,
    encoder_ffn_dim=96,
    max_position_embeddings=200,
)
# Windows of five do not divide the grids of a 93 pixel image: 23, 12 and 6 tokens a side.
THREE_STAGES = VisionConfig(
    dim_embed=(16, 32, 64),
    depths=(1, 2, 1),
    num_heads=(2, 4, 8),
    num_groups=(4, 2, 8),
    patch_size=(7, 3, 3),
    patch_stride=(4, 2, 2),
    patch_padding=(3, 1, 1),
    patch_prenorm=(False, True, True),
    window_size=5,
    max_pos_embeddings=9,
    max_temporal_embeddings=4,
)
FOUR_STAGES = VisionConfig(
    dim_embed=(8, 16, 32, 48),
    depths=(1, 1, 1, 1),
    num_heads=(2, 4, 4, 6),
    num_groups=(2, 4, 4, 6),
    window_size=12,
)


# Two stages and images of 48 pixels: 4 tokens and their mean for each view.
SMALLEST = XVLAConfig(
    hidden_size=48,
    depth=2,
    num_heads=4,
    num_domains=12,
    len_soft_prompts=4,
    projection_dim=32,
    text=TextConfig(
        vocab_size=300,
        d_model=32,
        encoder_layers=1,
        encoder_attention_heads=2,
        encoder_ffn_dim=64,
        max_position_embeddings=96,
    ),
    vision=VisionConfig(
        dim_embed=(16, 32),
        depths=(1, 1),
        num_heads=(2, 4),
        num_groups=(2, 4),
        patch_size=(7, 3),
        patch_stride=(4, 4),
        patch_padding=(3, 1),
        patch_prenorm=(False, True),
        window_size=4,
        max_pos_embeddings=6,
        max_temporal_embeddings=2,
    ),
)
IMAGE_SIZE = 48


def sizes(vision: VisionConfig = THREE_STAGES, **fields: Any) -> XVLAConfig:
    given: dict[str, Any] = {
        "hidden_size": 64,
        "depth": 2,
        "num_heads": 4,
        "mlp_ratio": 2.0,
        "num_domains": 5,
        "len_soft_prompts": 8,
        "projection_dim": 48,
        "text": TEXT,
        "vision": vision,
    }
    return XVLAConfig(**(given | fields))


def randomise(model: nn.Module, seed: int = 0) -> None:
    """Random numbers everywhere, so that no bias, norm or table is neutral by chance.

    Their scales keep the signal near one, so that every part of the network matters.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(generator=generator)
            if parameter.ndim == 1:
                parameter.mul_(0.2)
                if "norm" in name and name.endswith("weight"):
                    parameter.add_(1.0)
            elif "emb" in name or "shared" in name or "prompt" in name or "bias" in name:
                parameter.mul_(0.7)
            elif name.endswith("coder.fc.weight") or "proj.fc" in name:
                parameter.mul_(0.12)  # one matrix for each domain
            else:
                parameter.mul_(parameter[0].numel() ** -0.5)


def network(config: XVLAConfig, seed: int = 0) -> XVLA:
    model = XVLA(config).eval()
    randomise(model, seed)
    return model


@dataclass(frozen=True)
class Batch:
    """Two samples with different views and domains."""

    ids: Tensor
    images: Tensor
    mask: Tensor
    proprio: Tensor
    domain: Tensor
    noise: Tensor


def batch(config: XVLAConfig, side: int = 93, seed: int = 1) -> Batch:
    g = torch.Generator().manual_seed(seed)
    return Batch(
        ids=torch.randint(0, config.text.vocab_size, (2, 50), generator=g),
        images=torch.randn(2, 3, 3, side, side, generator=g),
        mask=torch.tensor([[True, True, False], [True, False, True]]),
        proprio=torch.randn(2, config.dim_proprio, generator=g),
        domain=torch.tensor([0, 3]),
        noise=torch.randn(2, config.num_actions, config.dim_action, generator=g),
    )


def tokenizer() -> Tokenizer:
    """A byte-level BPE of the kind BART has, with few merges."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["pick up the red cube", "put the spoon on the towel"], trainer)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


def folder(
    path: Path,
    config: XVLAConfig = SMALLEST,
    change: Callable[[dict[str, Tensor]], None] | None = None,
) -> Path:
    """Writes a whole model folder, the same each time.

    Its weights are random, its rotations near the identity of the checkpoint's frame.
    """
    torch.manual_seed(3)
    model = XVLA(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        if config.dim_action == 20:
            identity = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
            model.transformer.action_decoder.bias.weight[:, 3:9] += identity
        if change is not None:
            change(dict(model.named_parameters()))
    save_checkpoint(model, path)
    tokenizer().save(str(path / TOKENIZER_FILE))
    write_preprocessor_config(path, ImageTransform(size=IMAGE_SIZE))
    return path
