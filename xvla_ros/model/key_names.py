"""Names that the same tensors have in the checkpoints of different projects.

- X-VLA itself (github.com/2toinf/X-VLA): our names.
- LeRobot up to 0.4 (github.com/huggingface/lerobot): the same, with the prefix `model.`.
- LeRobot later: the prefix, and the names of Florence-2 in `transformers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

SHARED_EMBEDDING = "vlm.language_model.model.shared.weight"
EMBEDDING_ALIAS = "vlm.language_model.model.encoder.embed_tokens.weight"
TEMPORAL_TABLE = "vlm.visual_temporal_embed.pos_idx_to_embed"
LOGITS_BIAS = "vlm.language_model.final_logits_bias"
OPTIONAL = frozenset({EMBEDDING_ALIAS, TEMPORAL_TABLE, LOGITS_BIAS})
"""Keys that a file may leave out: an alias, and two buffers with known contents."""

_PREFIX = "model."
_BLOCK = r"^(vlm\.vision_tower\.blocks\.\d+\.\d+\.)"
_TRANSFORMERS_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^(vlm\.vision_tower\.convs\.\d+\.)conv\.", r"\1proj."),
        (_BLOCK + r"(\w+_block)\.(conv[12])\.(weight|bias)$", r"\1\2.\3.fn.dw.\4"),
        (_BLOCK + r"spatial_block\.norm1\.", r"\1spatial_block.window_attn.norm."),
        (_BLOCK + r"channel_block\.norm1\.", r"\1channel_block.channel_attn.norm."),
        (_BLOCK + r"(\w+_block\.\w+_attn)\.(qkv|proj)\.", r"\1\2.fn.\3."),
        (_BLOCK + r"(\w+_block)\.norm2\.", r"\1\2.ffn.norm."),
        (_BLOCK + r"(\w+_block\.ffn)\.(fc[12])\.", r"\1\2.fn.net.\3."),
        (r"^vlm\.multi_modal_projector\.image_position_embed\.", "vlm.image_pos_embed."),
        (
            r"^vlm\.multi_modal_projector\.(image_proj_norm|visual_temporal_embed)\.",
            r"vlm.\1.",
        ),
        (r"^vlm\.language_model\.(shared|encoder)\.", r"vlm.language_model.model.\1."),
    )
)
# A linear layer there, a bare matrix used from the other side here.
_TRANSPOSED = "vlm.multi_modal_projector.image_projection.weight"


@dataclass(frozen=True)
class OwnName:
    """Our name of a tensor of a file, and whether it must be transposed."""

    key: str
    transposed: bool = False


def own_name(key: str) -> OwnName:
    """Our name of a key of any of the layouts; an unknown key is left as it is."""
    key = key.removeprefix(_PREFIX)
    if key == _TRANSPOSED:
        return OwnName("vlm.image_projection", transposed=True)
    for pattern, replacement in _TRANSFORMERS_RULES:
        renamed, count = pattern.subn(replacement, key)
        if count:
            return OwnName(renamed)
    return OwnName(key)


def layout(keys: Iterable[str]) -> str:
    """Whose names the keys of a file are, in words."""
    listed = list(keys)
    if any("multi_modal_projector" in key for key in listed):
        return "LeRobot's names (with Florence-2 of transformers)"
    prefixed = sum(key.startswith(_PREFIX) for key in listed)
    return "LeRobot's names" if prefixed * 2 > len(listed) else "X-VLA's names"
