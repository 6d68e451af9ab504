"""Networks from model folders, and back: `config.json` and safetensors files.

A network is built without storage and takes the tensors of the file as its parameters, so nothing
is built that is not kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from xvla_ros.model import key_names
from xvla_ros.model.config import CONFIG_FILE, XVLAConfig
from xvla_ros.model.errors import CheckpointError
from xvla_ros.model.weights import (
    BYTES,
    WEIGHTS_FILE,
    StoredTensor,
    read_tensors,
    stored_tensors,
    weight_files,
)
from xvla_ros.model.weights_hash import weights_hash
from xvla_ros.model.xvla import XVLA, temporal_table

if TYPE_CHECKING:
    from xvla_ros.model.weights import Dtype, Form

__all__ = [
    "CheckpointError",
    "empty_network",
    "load_checkpoint",
    "save_checkpoint",
    "tensor_faults",
    "weights_hash",
]

# So many faults are spelt out; one wrong size in config.json makes hundreds.
_MOST_FAULTS = 8


def load_checkpoint(
    folder: str | Path,
    device: str | torch.device = "cpu",
    dtype: Dtype = None,
    config: XVLAConfig | None = None,
    forms: Callable[[XVLA], Mapping[str, Form]] | None = None,
) -> XVLA:
    """The network of a model folder, in evaluation mode.

    On the CPU and in the number format of the file the weights are the mapped pages of the file:
    it may be replaced by another one meanwhile, but not be changed in place.

    Args:
        folder: holds config.json and model.safetensors, or shards.
        device: where the weights shall be.
        dtype: what they shall be cast to, all of them or by name; None keeps the numbers of the
            file.
        config: the configuration to use; None reads that of the folder.
        forms: told the empty network, says how weights are kept that are converted on the CPU;
            by default as they are. `prepare.forms` is one.

    Raises:
        CheckpointError: a file is missing, truncated or of another kind, or a tensor is missing,
            unexpected or of another shape; the message names file, key and both shapes.
    """
    folder = Path(folder)
    config = XVLAConfig.from_folder(folder) if config is None else config
    model = empty_network(config)
    files = weight_files(folder)
    stored = stored_tensors(files)
    faults = tensor_faults(model, stored, files)
    if faults:
        more = len(faults) - _MOST_FAULTS
        rest = f"; and {more} more" if more > 0 else ""
        raise CheckpointError("; ".join(faults[:_MOST_FAULTS]) + rest)
    tensors = read_tensors(
        _needed(stored, model), device, dtype, None if forms is None else forms(model)
    )
    for name, buffer in _known_buffers(config).items():
        if name not in tensors:
            kept = dtype(name) if callable(dtype) else dtype
            tensors[name] = buffer.to(device, kept)
    shared = tensors.pop(key_names.EMBEDDING_ALIAS, None)
    shared = tensors.get(key_names.SHARED_EMBEDDING, shared)
    assert shared is not None
    tensors[key_names.SHARED_EMBEDDING] = tensors[key_names.EMBEDDING_ALIAS] = shared
    model.load_state_dict(tensors, strict=True, assign=True)
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


def tensor_faults(model: XVLA, stored: Sequence[StoredTensor], files: Sequence[Path]) -> list[str]:
    """What of the files does not fit the network, one line each with file, key and shapes."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    faults = [fault for item in stored if (fault := _fault(item, expected.get(item.name)))]
    seen = {item.name for item in stored}
    where = str(files[0]) if len(files) == 1 else f"{files[0].parent}/*.safetensors"
    lacking = [name for name in expected if name not in seen | key_names.OPTIONAL]
    if key_names.EMBEDDING_ALIAS in seen and key_names.SHARED_EMBEDDING in lacking:
        lacking.remove(key_names.SHARED_EMBEDDING)
    faults += [f"{where}: key {name} {list(expected[name])} is missing" for name in lacking]
    return faults


def _fault(item: StoredTensor, wanted: tuple[int, ...] | None) -> str | None:
    """What is wrong with a tensor that a file has."""
    if wanted is None:
        return f"{item.file}: unexpected key {item.key} {list(item.shape)}"
    if item.shape != wanted and item.name != key_names.LOGITS_BIAS:
        return (
            f"{item.file}: key {item.key} has shape {list(item.shape)}, "
            f"{CONFIG_FILE} asks for {list(wanted)}"
        )
    if item.dtype not in BYTES:
        known = ", ".join(BYTES)
        return f"{item.file}: key {item.key} has numbers of format {item.dtype}; known: {known}"
    return None


def _needed(stored: Sequence[StoredTensor], model: XVLA) -> list[StoredTensor]:
    """What has to be read: an alias of what is read already need not be."""
    names = {item.name for item in stored}
    spare = {key_names.LOGITS_BIAS}  # nothing reads it, whatever its vocabulary
    if key_names.SHARED_EMBEDDING in names:
        # The network looks ids up in `shared`; a file with both holds the same numbers twice.
        spare.add(key_names.EMBEDDING_ALIAS)
    return [item for item in stored if item.name not in spare]


def _known_buffers(config: XVLAConfig) -> dict[str, Tensor]:
    """Tensors that a file may leave out, because their contents are known."""
    vision = config.vision
    return {
        key_names.LOGITS_BIAS: torch.zeros(1, config.text.vocab_size),
        key_names.TEMPORAL_TABLE: temporal_table(vision.max_temporal_embeddings, vision.out_dim),
    }


def empty_network(config: XVLAConfig) -> XVLA:
    """The network of a configuration, on the meta device."""
    with torch.device("meta"), _Unfilled():
        return XVLA(config)


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


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A path to write to that takes the place of `path` once it is complete."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
