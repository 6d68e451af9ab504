"""A folder loads whole or not at all, and says what is wrong with it."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file, save_model

from xvla_ros.model.checkpoint import (
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
)
from xvla_ros.model.time_grid import uniform_grid

SHARED = "vlm.language_model.model.shared.weight"
ALIAS = "vlm.language_model.model.encoder.embed_tokens.weight"
NORM = "transformer.norm.weight"


@pytest.fixture
def saved(make, tmp_path):
    model = make.network(make.sizes())
    save_checkpoint(model, tmp_path)
    return model, tmp_path


def chunk(model, make):
    b = make.batch(model.config)
    with torch.inference_mode():
        context = model.encode(b.ids, b.images, b.mask)
        return model.generate_actions(context, b.proprio, b.domain, b.noise, uniform_grid(2))


def rewrite(folder, change) -> None:
    path = folder / "model.safetensors"
    state = load_file(path)
    change(state)
    save_file(state, path)


def message(folder) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    return str(caught.value)


def test_a_saved_network_comes_back_bit_for_bit(saved, make) -> None:
    model, folder = saved
    loaded = load_checkpoint(folder)

    assert loaded.config == model.config
    assert not loaded.training
    assert torch.equal(chunk(loaded, make), chunk(model, make))


def test_the_file_has_the_embedding_once_and_both_buffers(saved) -> None:
    _, folder = saved
    keys = set(load_file(folder / "model.safetensors"))

    assert SHARED in keys
    assert ALIAS not in keys
    assert "vlm.language_model.final_logits_bias" in keys
    assert "vlm.visual_temporal_embed.pos_idx_to_embed" in keys


def test_a_loaded_network_has_one_embedding(saved) -> None:
    text = load_checkpoint(saved[1]).vlm.language_model.model

    assert text.encoder.embed_tokens.weight is text.shared.weight


@pytest.mark.parametrize("kept", [{SHARED}, {ALIAS}, {SHARED, ALIAS}])
@pytest.mark.parametrize("prefix", ["", "model."])
def test_either_alias_of_the_embedding_and_either_prefix_load(saved, make, kept, prefix) -> None:
    model, folder = saved

    def change(state):
        embedding = state.pop(SHARED)
        state |= {name: embedding.clone() for name in kept}
        renamed = {prefix + name: tensor for name, tensor in state.items()}
        state.clear()
        state |= renamed

    rewrite(folder, change)

    assert torch.equal(chunk(load_checkpoint(folder), make), chunk(model, make))


def test_a_file_of_lerobot_loads(saved, make, lerobot) -> None:
    model, folder = saved
    theirs = lerobot.model(model.config)
    theirs.load_state_dict(model.state_dict())
    holder = torch.nn.Module()
    holder.add_module("model", theirs)
    save_model(holder, str(folder / "model.safetensors"))
    assert f"model.{ALIAS}" in load_file(folder / "model.safetensors")

    assert torch.equal(chunk(load_checkpoint(folder), make), chunk(model, make))


def test_the_two_buffers_may_be_absent_or_of_another_vocabulary(saved, make) -> None:
    model, folder = saved

    def change(state):
        del state["vlm.visual_temporal_embed.pos_idx_to_embed"]
        state["vlm.language_model.final_logits_bias"] = torch.zeros(1, 7)

    rewrite(folder, change)

    assert torch.equal(chunk(load_checkpoint(folder), make), chunk(model, make))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_half_precision_file_becomes_what_is_asked_for(saved, dtype) -> None:
    _, folder = saved

    def change(state):
        for key in state:
            state[key] = state[key].to(dtype)

    rewrite(folder, change)

    assert {p.dtype for p in load_checkpoint(folder).parameters()} == {dtype}
    full = load_checkpoint(folder, dtype=torch.float32)
    assert {p.dtype for p in full.parameters()} == {torch.float32}


def test_shards_load_like_one_file(saved, make) -> None:
    model, folder = saved
    single = folder / "model.safetensors"
    state = load_file(single)
    single.unlink()
    names = sorted(state)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, keys in parts.items():
        save_file({key: state[key] for key in keys}, folder / file)
    weight_map = {key: file for file, keys in parts.items() for key in keys}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))

    assert torch.equal(chunk(load_checkpoint(folder), make), chunk(model, make))

    (folder / "b.safetensors").unlink()
    assert "b.safetensors: no such file, but model.safetensors.index.json" in message(folder)
    index.write_text("{}")
    assert "not a safetensors index" in message(folder)


def test_a_missing_tensor_is_named_with_file_and_shape(saved) -> None:
    _, folder = saved
    rewrite(folder, lambda state: state.pop(NORM))

    found = message(folder)
    assert str(folder / "model.safetensors") in found
    assert f"key {NORM} [64] is missing" in found


def test_without_any_embedding_it_is_missing(saved) -> None:
    _, folder = saved
    rewrite(folder, lambda state: state.pop(SHARED))

    assert f"key {SHARED} [300, 48] is missing" in message(folder)


def test_an_unexpected_tensor_is_named(saved) -> None:
    _, folder = saved
    rewrite(folder, lambda state: state.update({"transformer.extra": torch.zeros(3, 2)}))

    assert "unexpected key transformer.extra [3, 2]" in message(folder)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(saved) -> None:
    _, folder = saved
    rewrite(folder, lambda state: state.update({NORM: torch.zeros(65)}))

    found = message(folder)
    assert f"key {NORM} has shape [65], config.json asks for [64]" in found
    assert "missing" not in found


def test_all_faults_come_in_one_error(saved) -> None:
    _, folder = saved

    def change(state):
        state[NORM] = torch.zeros(65)
        state["spare"] = torch.zeros(1)
        del state["transformer.norm.bias"]

    rewrite(folder, change)

    found = message(folder)
    assert all(word in found for word in (NORM, "spare", "transformer.norm.bias"))
    assert "\n" not in found


def test_a_wrong_size_in_the_configuration_does_not_flood_the_log(saved, write_json) -> None:
    model, folder = saved
    write_json(folder / "config.json", model.config.to_dict() | {"hidden_size": 128})

    found = message(folder)
    assert "has shape [64], config.json asks for [128]" in found
    assert "more" in found
    assert len(found) < 3000


@pytest.mark.parametrize("size", [0, 4, 1000, -1])
def test_a_truncated_file_is_named(saved, size) -> None:
    path = saved[1] / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])

    found = message(saved[1])
    assert str(path) in found
    assert "not a whole safetensors file" in found


def test_a_file_of_another_kind_is_named(saved) -> None:
    (saved[1] / "model.safetensors").write_bytes(b"PK\x03\x04" + bytes(5000))

    assert "not a whole safetensors file" in message(saved[1])


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_missing_file_is_named(saved, name) -> None:
    (saved[1] / name).unlink()

    assert f"{saved[1] / name}: no such file" in message(saved[1])


def test_a_missing_folder_is_named(tmp_path) -> None:
    assert f"{tmp_path / 'nowhere'}" in message(tmp_path / "nowhere")


def test_weights_are_mapped_and_not_copied(saved) -> None:
    _, folder = saved
    loaded = load_checkpoint(folder)
    address = loaded.transformer.pos_emb.data_ptr()
    with open("/proc/self/maps") as maps:
        mapped = [line for line in maps if str(folder / "model.safetensors") in line]
    ranges = [[int(n, 16) for n in line.split()[0].split("-")] for line in mapped]

    assert any(low <= address < high for low, high in ranges)


def test_a_folder_can_be_mended(saved, make) -> None:
    model, folder = saved
    path = folder / "model.safetensors"
    good = path.read_bytes()
    path.write_bytes(good[:100])
    message(folder)
    path.write_bytes(good)

    assert torch.equal(chunk(load_checkpoint(folder), make), chunk(model, make))


def test_a_loaded_network_can_be_trained_on(saved, make) -> None:
    _, folder = saved
    before = (folder / "model.safetensors").read_bytes()
    loaded = load_checkpoint(folder).train()
    b = make.batch(loaded.config)
    context = loaded.encode(b.ids, b.images, b.mask)
    terms = loaded.forward_training(
        context, b.proprio, b.domain, b.noise.sigmoid(), b.noise, torch.tensor([0.2, 0.7])
    )
    sum(terms.values()).backward()  # type: ignore[union-attr]
    torch.optim.SGD(loaded.parameters(), lr=1e-3).step()

    assert (folder / "model.safetensors").read_bytes() == before
