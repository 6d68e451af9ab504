"""The files around the weights of a model folder: configuration, tokenizer, image preparation.

File names and layouts are those of the published checkpoints, so that one loader reads both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from xvla_ros.model.config import CONFIG_FILE, TEXT_LENGTH, VIEWS
from xvla_ros.model.domain import DOMAINS_FILE
from xvla_ros.model.processor import (
    TOKENIZER_FILE,
    ImageTransform,
    write_preprocessor_config,
)

# BART's order of special tokens; the processor pads with <pad>.
_SPECIAL_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


@dataclass(frozen=True)
class NetworkSize:
    """Sizes of a small X-VLA; field meanings as in the published configuration."""

    image_size: int = 96
    width: int = 128
    """Of the text encoder, the projected image features and the action transformer."""
    heads: int = 4
    depth: int = 4
    """Blocks of the action transformer."""
    mlp_ratio: float = 2.0
    text_layers: int = 2
    vision_widths: tuple[int, ...] = (32, 64, 128, 128)
    vision_depths: tuple[int, ...] = (0, 1, 1, 1)
    """Blocks of each stage; the first one has the most tokens and only embeds patches."""
    vision_head_width: int = 32
    window: int = 6
    soft_prompts: int = 8
    horizon: int = 30
    max_vocabulary: int = 384
    """The tokenizer stops earlier when the sentences have no more pairs to merge."""

    @property
    def grid(self) -> int:
        """Tokens along one side of the last vision stage."""
        return self.image_size // 4 // 2 ** (len(self.vision_widths) - 1)

    def config(self, vocabulary: int) -> dict[str, Any]:
        """The contents of config.json for a tokenizer with so many ids."""
        stages = len(self.vision_widths)
        heads = [width // self.vision_head_width for width in self.vision_widths]
        view_tokens = self.grid**2 + 1
        text_config = {
            "vocab_size": vocabulary,
            "d_model": self.width,
            "encoder_layers": self.text_layers,
            "encoder_attention_heads": self.heads,
            "encoder_ffn_dim": int(self.mlp_ratio * self.width),
            "max_position_embeddings": view_tokens + TEXT_LENGTH,
            "activation_function": "gelu",
            "scale_embedding": False,
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
        }
        vision_config = {
            "model_type": "davit",
            "patch_size": [7] + [3] * (stages - 1),
            "patch_stride": [4] + [2] * (stages - 1),
            "patch_padding": [3] + [1] * (stages - 1),
            "patch_prenorm": [False] + [True] * (stages - 1),
            "dim_embed": list(self.vision_widths),
            "num_heads": heads,
            "num_groups": heads,
            "depths": list(self.vision_depths),
            "window_size": self.window,
            "projection_dim": self.width,
            "visual_temporal_embedding": {"type": "COSINE", "max_temporal_embeddings": 1},
            "image_pos_embed": {"type": "learned_abs_2d", "max_pos_embeddings": self.grid},
            "image_feature_source": ["spatial_avg_pool", "temporal_avg_pool"],
        }
        return {
            "model_type": "xvla",
            "architectures": ["XVLA"],
            "hidden_size": self.width,
            "depth": self.depth,
            "num_heads": self.heads,
            "mlp_ratio": self.mlp_ratio,
            "num_domains": 1,
            "len_soft_prompts": self.soft_prompts,
            "dim_time": 32,
            "max_len_seq": self.horizon + VIEWS * view_tokens + TEXT_LENGTH,
            "use_hetero_proj": False,
            "num_actions": self.horizon,
            "action_mode": "ee6d",
            "use_proprio": True,
            "florence_config": {
                "model_type": "florence2",
                "bos_token_id": 0,
                "pad_token_id": 1,
                "eos_token_id": 2,
                "projection_dim": self.width,
                "text_config": text_config,
                "vision_config": vision_config,
            },
        }


def build_tokenizer(sentences: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer with BART's special tokens, learned from a few sentences.

    All 256 bytes are in the vocabulary, so any instruction in any script has ids of its own.
    """
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        sentences,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            min_frequency=1,
            special_tokens=_SPECIAL_TOKENS,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.RobertaProcessing(
        sep=("</s>", 2), cls=("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def write_folder(
    folder: Path, size: NetworkSize, sentences: Iterable[str], domains: dict[str, Any]
) -> None:
    """Makes a model folder that lacks only its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = build_tokenizer(sentences, size.max_vocabulary)
    tokenizer.save(str(folder / TOKENIZER_FILE))
    write_preprocessor_config(folder, ImageTransform(size=size.image_size))
    for name, content in (
        (CONFIG_FILE, size.config(tokenizer.get_vocab_size())),
        (DOMAINS_FILE, domains),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
