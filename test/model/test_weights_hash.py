"""Weights are the published ones, or it is said which hash they have and which they should have."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from xvla_ros.model.errors import CheckpointError
from xvla_ros.model.weights_hash import check_hash, hash_weights, weights_hash

CONTENT = b"numbers" * 1000


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(CONTENT)
    return tmp_path


@pytest.fixture
def sharded(tmp_path):
    for k in (1, 2):
        path = tmp_path / f"model-0000{k}-of-00002.safetensors"
        path.write_bytes(CONTENT[: 1000 * k])
    return tmp_path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def check(folder: Path, expected: str | Path | None = None) -> str:
    return check_hash(folder, hash_weights(folder), expected)


def refusal(folder: Path, expected: str | Path | None = None) -> str:
    with pytest.raises(CheckpointError) as caught:
        check(folder, expected)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_hash_is_that_of_the_file(folder) -> None:
    assert weights_hash(folder) == sha256(CONTENT)


def test_the_hash_of_shards_is_what_sha256sum_makes_of_its_own_list(sharded) -> None:
    command = "sha256sum model-*.safetensors | sha256sum"
    done = subprocess.run(command, shell=True, cwd=sharded, capture_output=True, text=True)

    assert weights_hash(sharded) == done.stdout.split()[0]


def test_progress_ends_with_all_bytes(sharded) -> None:
    told: list[tuple[int, int]] = []
    hash_weights(sharded, lambda done, total: told.append((done, total)))

    assert told[-1] == (3000, 3000)
    assert sorted(told) == told


def test_a_given_hash_is_compared(folder) -> None:
    assert check(folder, sha256(CONTENT).upper()) == "the given hash"

    other = sha256(b"")
    found = refusal(folder, other)
    assert f"SHA-256 is {sha256(CONTENT)}, but the given hash says {other}" in found


@pytest.mark.parametrize("line", ["{}  model.safetensors", "{} *dir/model.safetensors", "{}"])
def test_a_file_of_hashes_may_be_given(folder, line) -> None:
    sums = folder / "sums.txt"
    sums.write_text("# published\n" + line.format(sha256(CONTENT)) + "\n")
    assert check(folder, sums) == str(sums)

    sums.write_text(line.format(sha256(b"")) + "\n")
    assert f"{sums} says {sha256(b'')}" in refusal(folder, sums)


def test_a_file_without_the_hash_is_named(folder) -> None:
    sums = folder / "sums.txt"
    sums.write_text(f"{sha256(CONTENT)}  other.safetensors\n")

    assert f"{sums}: no SHA-256 of model.safetensors" in refusal(folder, sums)
    assert "neither 64 hexadecimal digits nor a readable file" in refusal(folder, "12ab")


def test_every_shard_has_to_be_listed(sharded) -> None:
    sums = sharded / "SHA256SUMS"
    done = subprocess.run("sha256sum model-*", shell=True, cwd=sharded, capture_output=True)
    lines = done.stdout.decode().splitlines(keepends=True)
    sums.write_text("".join(lines))
    assert check(sharded) == check(sharded, sums) == str(sums)

    sums.write_text(lines[0])
    assert "says nothing of model-00002-of-00002.safetensors" in refusal(sharded, sums)
    (sharded / "model-00002-of-00002.safetensors").write_bytes(b"")
    sums.write_text("".join(lines))
    assert "model-00002-of-00002.safetensors: SHA-256 is" in refusal(sharded)


def test_what_lies_beside_the_weights_is_found(folder) -> None:
    assert "but nothing says which it should be" in refusal(folder)

    (folder / "model.safetensors.sha256").write_text(sha256(CONTENT))
    assert check(folder).endswith("model.safetensors.sha256")
    (folder / "model.safetensors.sha256").write_text(sha256(b""))
    assert "download it again" in refusal(folder)


def test_the_record_that_the_hub_leaves_beside_a_download_is_read(folder) -> None:
    record = folder / ".cache" / "huggingface" / "download" / "model.safetensors.metadata"
    record.parent.mkdir(parents=True)
    commit = "3f" * 20
    record.write_text(f"{commit}\n{sha256(CONTENT)}\n1764500000.0\n")
    assert check(folder) == "the record of its download"

    record.write_text(f"{commit}\n{sha256(b'')}\n1764500000.0\n")
    assert f"the record of its download says {sha256(b'')}" in refusal(folder)


def test_the_blob_that_a_file_of_the_shared_cache_points_to_is_named_by_its_hash(tmp_path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / sha256(CONTENT)).write_bytes(CONTENT)
    os.symlink(blobs / sha256(CONTENT), snapshot / "model.safetensors")

    assert check(snapshot) == "the record of its download"
