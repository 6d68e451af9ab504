"""Reading and writing model folders: `config.json` and safetensors files.

Weights are mapped from the page cache and become the parameters of a network that was built
without storage, so nothing is held twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from xvla_ros.model import key_names
from xvla_ros.model.config import CONFIG_FILE, XVLAConfig
from xvla_ros.model.errors import CheckpointError
from xvla_ros.model.xvla import XVLA, temporal_table

__all__ = ["CheckpointError", "load_checkpoint", "save_checkpoint", "weight_files", "weights_hash"]

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
# So many faults are spelt out; one wrong size in config.json makes hundreds.
_MOST_FAULTS = 8
_HASH_BLOCK = 1 << 22


def load_checkpoint(
    folder: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> XVLA:
    """The network of a model folder, in evaluation mode.

    Args:
        folder: holds config.json and model.safetensors, or shards with their index.
        device: where the weights shall be.
        dtype: what they shall be cast to; None keeps the numbers of the file.

    Raises:
        CheckpointError: a file is missing, truncated or of another kind, or a tensor is missing,
            unexpected or of another shape; the message names file, key and both shapes.
    """
    folder = Path(folder)
    config = XVLAConfig.from_folder(folder)
    with torch.device("meta"), _Unfilled():
        model = XVLA(config)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    tensors = _read(folder, expected)
    state = {name: tensor.to(device, dtype) for name, tensor in _complete(tensors, config).items()}
    model.load_state_dict(state, strict=True, assign=True)
    # Assignment gave each alias a parameter of its own.
    text = model.vlm.language_model.model
    text.encoder.embed_tokens = text.shared
    return model.eval()


def save_checkpoint(model: XVLA, folder: str | Path) -> None:
    """Writes config.json and model.safetensors with the names of the published checkpoints.

    The token embedding is written once. A file appears whole or not at all.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in model.state_dict().items()
        if name != key_names.EMBEDDING_ALIAS
    }
    with _replacing(folder / WEIGHTS_FILE) as path:
        save_file(state, path, metadata={"format": "pt"})
    with _replacing(folder / CONFIG_FILE) as path:
        path.write_text(json.dumps(model.config.to_dict(), indent=2) + "\n", encoding="utf-8")


def weight_files(folder: str | Path) -> list[Path]:
    """The safetensors files of a model folder, in a fixed order.

    Raises:
        CheckpointError: there are none, or the index names one that is missing.
    """
    folder = Path(folder)
    index = folder / INDEX_FILE
    single = folder / WEIGHTS_FILE
    if not index.exists():
        if not single.is_file():
            raise CheckpointError(
                f"{single}: no such file; download the model's weights into {folder}"
            )
        return [single]
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{index}: not a safetensors index: {error}") from error
    files = [folder / name for name in sorted(names)]
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"{file}: no such file, but {index.name} lists it")
    return files


def weights_hash(folder: str | Path) -> str:
    """SHA-256 of the weights: of the file, or of the shards one after the other."""
    digest = hashlib.sha256()
    for file in weight_files(folder):
        with file.open("rb") as stream:
            while block := stream.read(_HASH_BLOCK):
                digest.update(block)
    return digest.hexdigest()


class _Unfilled(TorchFunctionMode):
    """Modules built inside are not initialised.

    There is nothing to fill on the meta device, yet trying makes torch import its symbolic
    algebra, which takes longer than reading the weights.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init" or func is Tensor.uniform_:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@dataclass(frozen=True)
class _Found:
    """A tensor of a file, under the name it has there."""

    file: Path
    key: str
    tensor: Tensor


def _read(folder: Path, expected: dict[str, torch.Size]) -> dict[str, Tensor]:
    """Every tensor of the folder by our names; raises one error for all that does not fit."""
    found: dict[str, Tensor] = {}
    seen: set[str] = set()
    faults: list[str] = []
    files = weight_files(folder)
    for item, name in (pair for file in files for pair in _tensors(file)):
        seen.add(name)
        shape, wanted = list(item.tensor.shape), expected.get(name)
        if wanted is None:
            faults.append(f"{item.file}: unexpected key {item.key} {shape}")
        elif shape == list(wanted):
            found[name] = item.tensor
        elif name != key_names.LOGITS_BIAS:  # nothing reads it, whatever its vocabulary
            faults.append(
                f"{item.file}: key {item.key} has shape {shape}, "
                f"{CONFIG_FILE} asks for {list(wanted)}"
            )
    faults += _missing(seen, expected, files)
    if faults:
        more = len(faults) - _MOST_FAULTS
        rest = f"; and {more} more" if more > 0 else ""
        raise CheckpointError("; ".join(faults[:_MOST_FAULTS]) + rest)
    return found


def _tensors(file: Path) -> Iterator[tuple[_Found, str]]:
    """The tensors of one file with our names of them."""
    try:
        with safe_open(file, framework="pt", device="cpu") as stream:
            for key in stream.keys():  # noqa: SIM118 - the stream is no mapping
                own = key_names.own_name(key)
                tensor = stream.get_tensor(key)
                yield _Found(file, key, tensor.T if own.transposed else tensor), own.key
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{file}: not a whole safetensors file ({error}); download it again"
        ) from error


def _missing(seen: set[str], expected: dict[str, torch.Size], files: list[Path]) -> list[str]:
    """What is wrong with keys that no file has."""
    where = str(files[0]) if len(files) == 1 else f"{files[0].parent}/*.safetensors"
    lacking = [name for name in expected if name not in seen | key_names.OPTIONAL]
    if key_names.EMBEDDING_ALIAS in seen and key_names.SHARED_EMBEDDING in lacking:
        lacking.remove(key_names.SHARED_EMBEDDING)
    return [f"{where}: key {name} {list(expected[name])} is missing" for name in lacking]


def _complete(tensors: dict[str, Tensor], config: XVLAConfig) -> dict[str, Tensor]:
    """The tensors with everything that a file may leave out."""
    out = dict(tensors)
    shared = out.get(key_names.SHARED_EMBEDDING)
    # The network looks ids up in `shared`; a file with both holds the same numbers twice.
    shared = out[key_names.EMBEDDING_ALIAS] if shared is None else shared
    out[key_names.SHARED_EMBEDDING] = out[key_names.EMBEDDING_ALIAS] = shared
    out.setdefault(key_names.LOGITS_BIAS, torch.zeros(1, config.text.vocab_size))
    if key_names.TEMPORAL_TABLE not in out:
        frames = config.vision.max_temporal_embeddings
        out[key_names.TEMPORAL_TABLE] = temporal_table(frames, config.vision.out_dim)
    return out


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A path to write to that takes the place of `path` once it is complete."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
