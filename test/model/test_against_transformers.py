"""Vision tower and text encoder compute what Florence-2 in `transformers` computes.

Its random weights reach our network through a file in the layout that newer LeRobot versions
write, so the key names of that layout are checked as well.
"""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from xvla_ros.model.checkpoint import load_checkpoint

transformers = pytest.importorskip("transformers")

TOLERANCE = 1e-5


def florence(config):
    vision, text = config.vision, config.text
    names = ["depths", "num_heads", "num_groups", "window_size"]
    names += ["patch_size", "patch_stride", "patch_padding", "patch_prenorm"]
    given = {name: getattr(vision, name) for name in names}
    given = {key: list(v) if isinstance(v, tuple) else v for key, v in given.items()}
    settings = transformers.Florence2Config(
        vision_config={
            **given,
            "embed_dim": list(vision.dim_embed),
            "projection_dim": config.projection_dim,
            "max_temporal_embeddings": vision.max_temporal_embeddings,
            "max_position_embeddings": vision.max_pos_embeddings,
        },
        text_config={
            "model_type": "bart",
            "vocab_size": text.vocab_size,
            "d_model": text.d_model,
            "encoder_layers": text.encoder_layers,
            "encoder_attention_heads": text.encoder_attention_heads,
            "encoder_ffn_dim": text.encoder_ffn_dim,
            "max_position_embeddings": text.max_position_embeddings,
            "decoder_layers": 1,
            "decoder_ffn_dim": 8,
        },
        attn_implementation="eager",
    )
    return transformers.Florence2Model(settings).eval()


@pytest.fixture(params=["THREE_STAGES", "FOUR_STAGES"])
def pair(request, make, tmp_path, write_json):
    config = make.sizes(getattr(make, request.param))
    theirs = florence(config)
    make.randomise(theirs)
    head = make.network(config).transformer.state_dict()
    state = {f"model.transformer.{key}": value for key, value in head.items()}
    for key, value in theirs.state_dict().items():
        if ".decoder." not in key and "shared" not in key:
            state[f"model.vlm.{key}"] = value.contiguous()
    save_file(state, tmp_path / "model.safetensors")
    write_json(tmp_path / "config.json", config.to_dict())
    return config, load_checkpoint(tmp_path), theirs


def largest(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


@pytest.mark.parametrize("side", [93, 96, 128])
def test_image_features_are_the_same(pair, side) -> None:
    _, ours, theirs = pair
    images = torch.randn(2, 3, side, side)

    with torch.inference_mode():
        features = ours.vlm.image_features(images)
        expected = theirs.get_image_features(images)

    expected = torch.stack(list(expected))
    assert features.std() > 0.05
    assert largest(features, expected) < TOLERANCE


def test_encoded_tokens_are_the_same(pair, make) -> None:
    config, ours, theirs = pair
    b = make.batch(config)

    with torch.inference_mode():
        context = ours.encode(b.ids, b.images, b.mask)
        features = torch.stack(list(theirs.get_image_features(b.images[:, 0])))
        text = theirs.get_input_embeddings()(b.ids)
        merged = torch.cat([features, text], dim=1)
        expected = theirs.language_model.encoder(inputs_embeds=merged)[0]

    assert largest(context.encoded, expected) < TOLERANCE
