"""Which files of a folder are its weights, and how their tensors come into memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from xvla_ros.model import weights
from xvla_ros.model.checkpoint import CheckpointError, load_checkpoint, save_checkpoint

PROJECTION = "vlm.image_projection"


@pytest.fixture
def folder(make, tmp_path):
    save_checkpoint(make.network(make.SMALLEST), tmp_path)
    return tmp_path


def split(folder, names) -> None:
    """Replaces model.safetensors by shards of these names."""
    single = folder / "model.safetensors"
    state = load_file(single)
    single.unlink()
    keys = sorted(state)
    for k, name in enumerate(names):
        save_file({key: state[key] for key in keys[k :: len(names)]}, folder / name)


def refusal(folder) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_shards_are_recognised_without_their_index(folder) -> None:
    before = load_checkpoint(folder).state_dict()
    names = [f"model-0000{k}-of-00003.safetensors" for k in (1, 2, 3)]
    split(folder, names)
    after = load_checkpoint(folder).state_dict()

    assert all(torch.equal(before[name], after[name]) for name in before)
    (folder / names[1]).unlink()
    assert f"{names[1]}: no such file, but {names[0]} is beside it" in refusal(folder)


def test_one_file_goes_before_the_index_of_shards_that_were_never_downloaded(folder) -> None:
    index = {"weight_map": {"transformer.pos_emb": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert weights.weight_files(folder) == [folder / "model.safetensors"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("adapter_model.safetensors", "LoRA adapter; merge it"),
        ("pytorch_model.bin", "pickle.*save it as safetensors"),
        ("pytorch_model.bin.index.json", "pickles"),
        ("README.md", "download the model's weights"),
    ],
)
def test_a_folder_with_weights_of_another_kind_says_so(folder, name, words) -> None:
    (folder / "model.safetensors").rename(folder / name)

    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(folder)


def test_a_pointer_of_git_lfs_is_no_truncated_file(folder) -> None:
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3519068172\n"
    )

    assert "only the Git LFS pointer to the weights; run `git lfs pull`" in refusal(folder)


def test_numbers_that_are_no_weights_are_named_with_their_format(folder) -> None:
    state = load_file(folder / "model.safetensors")
    state[PROJECTION] = state[PROJECTION].to(torch.int8)
    save_file(state, folder / "model.safetensors")

    assert f"key {PROJECTION} has numbers of format I8; known: F64, F32" in refusal(folder)


@pytest.mark.parametrize("window", [3000, 1 << 20])
def test_what_is_converted_through_a_window_is_what_torch_converts(
    folder, monkeypatch, window
) -> None:
    monkeypatch.setattr(weights, "_WINDOW", window)
    whole = load_file(folder / "model.safetensors")
    loaded = load_checkpoint(folder, dtype=torch.bfloat16).state_dict()

    for name, tensor in whole.items():
        assert torch.equal(loaded[name], tensor.to(torch.bfloat16)), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("window", [3000, 1 << 20])
def test_the_projection_of_newer_lerobot_files_is_turned_round(
    folder, monkeypatch, window, dtype
) -> None:
    monkeypatch.setattr(weights, "_WINDOW", window)
    path = folder / "model.safetensors"
    state = load_file(path)
    projection = state.pop(PROJECTION)
    key = "model.vlm.multi_modal_projector.image_projection.weight"
    state[key] = projection.T.contiguous()
    save_file(state, path)
    loaded = load_checkpoint(folder, dtype=dtype).vlm.image_projection

    assert torch.equal(loaded, projection.to(dtype))
    assert loaded.is_contiguous()


def test_each_tensor_may_have_a_format_of_its_own(folder) -> None:
    def dtype(name):
        return torch.bfloat16 if name.startswith("vlm.") else None

    loaded = load_checkpoint(folder, dtype=dtype)

    assert {p.dtype for p in loaded.vlm.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in loaded.transformer.parameters()} == {torch.float32}
    assert loaded.vlm.visual_temporal_embed.pos_idx_to_embed.dtype == torch.bfloat16


def test_tensors_can_go_to_another_device_without_being_kept_here(folder) -> None:
    loaded = load_checkpoint(folder, device="meta", dtype=torch.float16)

    assert {(p.device.type, p.dtype) for p in loaded.parameters()} == {("meta", torch.float16)}


MEASURE = """
import sys, torch
from xvla_ros.model import weights
def resident(field):
    return int(open("/proc/self/status").read().split(field + ":")[1].split()[0]) << 10
path, dtype = sys.argv[1], getattr(torch, sys.argv[2])
weights._WINDOW = 1 << 20
stored = weights.stored_tensors([__import__("pathlib").Path(path)])
weights.read_tensors(stored[:1], "cpu", torch.float16)
before = resident("VmHWM")
tensors = weights.read_tensors(stored, "cpu", dtype)
kept = sum(t.numel() * t.element_size() for t in tensors.values())
for tensor in tensors.values():
    tensor.view(-1)[::64].float().sum()
print((resident("VmHWM") - before) / kept)
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_second_copy_is_ever_in_memory(tmp_path, dtype) -> None:
    path = tmp_path / "model.safetensors"
    # One table with a third of everything, as the token embedding of a small network.
    state = {f"layer{k:02}": torch.ones(256, 4096) for k in range(10)}
    save_file({**state, "table": torch.ones(5120, 1024)}, path)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), dtype],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert float(done.stdout) < 1.1
