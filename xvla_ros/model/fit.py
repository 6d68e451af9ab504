"""Whether the files of a model folder, each right in itself, fit together."""

from __future__ import annotations

from pathlib import Path

from xvla_ros.model.config import CONFIG_FILE, XVLAConfig
from xvla_ros.model.errors import CheckpointError
from xvla_ros.model.processor import PREPROCESSOR_FILE, TOKENIZER_FILE, Processor


def check_fit(folder: Path, config: XVLAConfig, processor: Processor, views: int) -> None:
    """Raises CheckpointError, with both files, when tokenizer or images do not suit the network."""
    path = folder / CONFIG_FILE
    if processor.vocab_size > config.text.vocab_size:
        raise CheckpointError(
            f"{folder / TOKENIZER_FILE}: {processor.vocab_size} tokens, but {path} has "
            f"text_config.vocab_size = {config.text.vocab_size}"
        )
    grid = config.vision.grid(processor.image_size)
    tokens = grid * grid + 1
    where = f"{folder / PREPROCESSOR_FILE}: size {processor.image_size} gives {tokens} tokens"
    positions = tokens + config.text_length
    sequence = config.num_actions + views * tokens + config.text_length
    for name, needed, limit in (
        ("max_pos_embeddings", grid, config.vision.max_pos_embeddings),
        ("max_position_embeddings", positions, config.text.max_position_embeddings),
        ("max_len_seq", sequence, config.max_len_seq),
    ):
        if grid < 1 or needed > limit:
            raise CheckpointError(f"{where} a view; {path} allows {name} = {limit} < {needed}")
