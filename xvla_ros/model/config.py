"""Sizes of an X-VLA network, read from the `config.json` beside its weights.

Two layouts are understood: the published one (`model_type: xvla`, github.com/2toinf/X-VLA) and
LeRobot's (`type: xvla`, github.com/huggingface/lerobot). Both nest the sizes of the Florence-2
encoder under `florence_config`. A field that a file leaves out has the value of the published
0.9 B checkpoints, whose vision and text encoders are those of Florence-2-large
(huggingface.co/microsoft/Florence-2-large).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xvla_ros.model.action_space import ACTION_MODES, ActionSpace, action_space
from xvla_ros.model.config_values import fields_of, number, section
from xvla_ros.model.errors import ConfigError

CONFIG_FILE = "config.json"
TEXT_LENGTH = 50
"""Ids of an instruction; padding is attended to, so another length is another function."""
VIEWS = 3
"""View slots of the published checkpoints; an absent view still takes its slot's tokens."""


@dataclass(frozen=True)
class VisionConfig:
    """DaViT: one number per stage in every tuple."""

    dim_embed: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[int, ...] = (1, 1, 9, 1)
    num_heads: tuple[int, ...] = (8, 16, 32, 64)
    num_groups: tuple[int, ...] = (8, 16, 32, 64)
    patch_size: tuple[int, ...] = (7, 3, 3, 3)
    patch_stride: tuple[int, ...] = (4, 2, 2, 2)
    patch_padding: tuple[int, ...] = (3, 1, 1, 1)
    patch_prenorm: tuple[bool, ...] = (False, True, True, True)
    window_size: int = 12
    max_pos_embeddings: int = 50
    """Rows of the learned row and column tables: the largest side of the last grid."""
    max_temporal_embeddings: int = 100
    image_feature_source: tuple[str, ...] = ("spatial_avg_pool", "temporal_avg_pool")

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.dim_embed)

    @property
    def out_dim(self) -> int:
        """Channels of the last stage."""
        return self.dim_embed[-1]

    def grid(self, image_size: int) -> int:
        """Side of the last feature grid for square images of `image_size` pixels."""
        side = image_size
        for kernel, stride, padding in zip(
            self.patch_size, self.patch_stride, self.patch_padding, strict=True
        ):
            side = (side + 2 * padding - kernel) // stride + 1
        return side


@dataclass(frozen=True)
class TextConfig:
    """BART encoder (Lewis et al. 2020); the decoder is not part of X-VLA."""

    vocab_size: int = 51289
    d_model: int = 1024
    encoder_layers: int = 12
    encoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    max_position_embeddings: int = 4096
    scale_embedding: bool = False


@dataclass(frozen=True)
class XVLAConfig:
    """Sizes of the whole network. `hidden_size` to `num_actions` describe the action head."""

    hidden_size: int = 1024
    depth: int = 24
    num_heads: int = 16
    mlp_ratio: float = 4.0
    num_domains: int = 30
    len_soft_prompts: int = 32
    dim_time: int = 32
    max_len_seq: int = 512
    use_hetero_proj: bool = False
    num_actions: int = 30
    action_mode: str = "ee6d"
    real_action_dim: int = 20
    """Dimensions in use; only the mode "auto" reads it."""
    max_action_dim: int = 20
    """Dimensions of the network; only the mode "auto" reads it."""
    dim_proprio: int = 20
    text_length: int = TEXT_LENGTH
    projection_dim: int = 1024
    text: TextConfig = field(default_factory=TextConfig)
    vision: VisionConfig = field(default_factory=VisionConfig)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def action_space(self) -> ActionSpace:
        """The action space of `action_mode`."""
        return action_space(self.action_mode, self.real_action_dim, self.max_action_dim)

    @property
    def dim_action(self) -> int:
        """Numbers of one action, as the network predicts them."""
        return self.action_space.dim

    @staticmethod
    def from_folder(folder: str | Path) -> XVLAConfig:
        """Reads `<folder>/config.json`.

        Raises:
            ConfigError: the file is missing, is not JSON, or a value is wrong.
        """
        path = Path(folder) / CONFIG_FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such file; a model folder needs it") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error
        try:
            return XVLAConfig.from_dict(content)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> XVLAConfig:
        """The configuration of a parsed `config.json` of either layout.

        Raises:
            ConfigError: it is for another model, or a value has a wrong type or size.
        """
        if not isinstance(content, Mapping):
            raise ConfigError("expected a JSON object")
        kind = content.get("model_type", content.get("type", "xvla"))
        if kind != "xvla":
            raise ConfigError(f"model type is {kind!r}; expected 'xvla'")
        florence = section(content, "florence_config")
        given = dict(content)
        if "type" in content:
            given |= _from_lerobot(content)
        text = fields_of(TextConfig, section(florence, "text_config"), "text_config")
        source = section(florence, "vision_config")
        vision = fields_of(VisionConfig, source | _nested_vision(source), "vision_config")
        top = fields_of(XVLAConfig, given, "")
        top["projection_dim"] = number(florence, "projection_dim", text.get("d_model", 1024))
        top |= {"text": TextConfig(**text), "vision": VisionConfig(**vision)}
        if "dim_proprio" not in given:
            space = _mode(top)
            top["dim_proprio"] = space.dim
        return XVLAConfig(**top)

    def to_dict(self) -> dict[str, Any]:
        """The content of a `config.json` in the published layout."""
        top = asdict(self)
        text, vision = top.pop("text"), top.pop("vision")
        positions = vision.pop("max_pos_embeddings")
        frames = vision.pop("max_temporal_embeddings")
        vision["image_pos_embed"] = {"type": "learned_abs_2d", "max_pos_embeddings": positions}
        vision["visual_temporal_embedding"] = {
            "type": "COSINE",
            "max_temporal_embeddings": frames,
        }
        projection = top.pop("projection_dim")
        vision["projection_dim"] = projection
        florence = {
            "model_type": "florence2",
            "projection_dim": projection,
            "text_config": text,
            "vision_config": vision,
        }
        return {"model_type": "xvla", **top, "florence_config": florence}


def _nested_vision(source: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that the files keep one level deeper than this module does."""
    positions = section(source, "image_pos_embed")
    frames = section(source, "visual_temporal_embedding")
    return {
        key: inner[key]
        for inner, key in (
            (positions, "max_pos_embeddings"),
            (frames, "max_temporal_embeddings"),
        )
        if key in inner
    }


def _from_lerobot(content: Mapping[str, Any]) -> dict[str, Any]:
    """LeRobot's names of the same sizes, with LeRobot's own defaults."""
    action = section(section(content, "output_features"), "action")
    shape = action.get("shape")
    out = {
        "num_actions": content.get("chunk_size", 32),
        "dim_proprio": content.get("max_state_dim", 32),
        "text_length": content.get("tokenizer_max_length", 64),
    }
    if shape:
        out["real_action_dim"] = shape[-1]
    return out


def _mode(values: Mapping[str, Any]) -> ActionSpace:
    mode = values.get("action_mode", "ee6d")
    if mode.lower() not in ACTION_MODES:
        raise ConfigError(f"action_mode is {mode!r}; known: {', '.join(ACTION_MODES)}")
    real, most = values.get("real_action_dim", 20), values.get("max_action_dim", 20)
    return action_space(mode, real, most)


def _check(config: XVLAConfig) -> None:
    """Raises ConfigError for sizes that do not fit one another."""
    _mode(vars(config))
    vision, text = config.vision, config.text
    for key, value in vars(vision).items():
        by_stage = isinstance(value, tuple) and key != "image_feature_source"
        if by_stage and len(value) != vision.stages:
            raise ConfigError(
                f"vision_config.{key} has {len(value)} entries for {vision.stages} stages"
            )
    if vision.image_feature_source != ("spatial_avg_pool", "temporal_avg_pool"):
        raise ConfigError(
            f"vision_config.image_feature_source is {list(vision.image_feature_source)}; "
            "only [spatial_avg_pool, temporal_avg_pool] is known"
        )
    pairs = [
        ("vision_config.dim_embed", dim, f"vision_config.{name}", parts)
        for name, counts in (("num_heads", vision.num_heads), ("num_groups", vision.num_groups))
        for dim, parts in zip(vision.dim_embed, counts, strict=True)
    ]
    pairs += [
        (
            "text_config.d_model",
            text.d_model,
            "encoder_attention_heads",
            text.encoder_attention_heads,
        ),
        ("hidden_size", config.hidden_size, "num_heads", config.num_heads),
        ("vision_config.dim_embed[-1]", vision.out_dim, "2 (row and column halves)", 2),
        ("dim_time", config.dim_time, "2 (sine and cosine)", 2),
    ]
    for name, size, part, parts in pairs:
        if parts <= 0 or size <= 0 or size % parts:
            raise ConfigError(f"{name} = {size} cannot be split by {part} = {parts}")
    if config.projection_dim != text.d_model:
        raise ConfigError(
            f"projection_dim = {config.projection_dim} differs from "
            f"text_config.d_model = {text.d_model}"
        )
