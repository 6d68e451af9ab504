"""The safetensors files of a model folder: which there are, what they hold, and their tensors.

Tensors that a network can use as they are stay mapped from the page cache. The others go from the
file to where they shall be through a small window of it, so that nothing is ever held twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from xvla_ros.model import key_names
from xvla_ros.model.errors import CheckpointError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Dtype = torch.dtype | Callable[[str], torch.dtype | None] | None

    Form = Callable[[Tensor], Tensor]
    """Makes what is kept of a tensor that is only lent."""

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Number formats that weights may have, with the size of one number."""

# Bytes of a file that are mapped at once while they are converted: mapped pages count as memory
# of the process until they are unmapped.
_WINDOW = 16 << 20
_SHARDS = "model-*-of-*.safetensors"
# Folders with these hold something that is meant for others, or is not the whole.
_OTHER_KINDS = {
    "adapter_model.safetensors": "a LoRA adapter; merge it into its base model first "
    "(`merge_and_unload` of the library peft) and save that",
    "pytorch_model.bin": "a pickle, which is not read here; save it as safetensors",
    "pytorch_model.bin.index.json": "pickles, which are not read here; save them as safetensors",
}
_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file, as the file's header describes it."""

    file: Path
    key: str
    """Its name there."""
    name: str
    """Our name of it."""
    shape: tuple[int, ...]
    """Its shape here."""
    dtype: str
    """Number format in the words of safetensors: F32, BF16, ..."""
    transposed: bool = False
    """Whether it is stored with rows and columns exchanged."""

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * BYTES.get(self.dtype, 1)


def weight_files(folder: str | Path) -> list[Path]:
    """The safetensors files of a model folder, in a fixed order.

    One file goes before shards. Shards are those that the index lists or, without an index, those
    whose names count them.

    Raises:
        CheckpointError: there are none, or one of the shards is missing.
    """
    folder = Path(folder)
    index, single = folder / INDEX_FILE, folder / WEIGHTS_FILE
    if single.is_file():
        return [single]
    if index.exists():
        return _listed(index)
    shards = sorted(folder.glob(_SHARDS))
    if shards:
        return _counted(shards)
    for name, meaning in _OTHER_KINDS.items():
        if (folder / name).exists():
            raise CheckpointError(f"{single}: no such file; {folder / name} is {meaning}")
    raise CheckpointError(f"{single}: no such file; download the model's weights into {folder}")


def _listed(index: Path) -> list[Path]:
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        files = [index.parent / name for name in sorted(names)]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{index}: not a safetensors index: {error}") from error
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"{file}: no such file, but {index.name} lists it")
    if not files:
        raise CheckpointError(f"{index}: not a safetensors index: it lists no file")
    return files


def _counted(shards: list[Path]) -> list[Path]:
    """Shards named model-00001-of-00003.safetensors, if all are there."""
    total = shards[0].stem.rpartition("-of-")[2]
    count = int(total) if total.isdigit() else 0
    wanted = [f"model-{k + 1:0{len(total)}}-of-{total}.safetensors" for k in range(count)]
    for name in wanted:
        if not (shards[0].parent / name).is_file():
            raise CheckpointError(
                f"{shards[0].parent / name}: no such file, but {shards[0].name} is beside it"
            )
    return [shards[0].parent / name for name in wanted] or shards


def stored_tensors(files: Sequence[Path]) -> list[StoredTensor]:
    """What the headers of the files list; no tensor is read.

    Raises:
        CheckpointError: a file is truncated or of another kind.
    """
    found = []
    for file in files:
        with _opened(file, "np") as stream:
            for key in stream.keys():  # noqa: SIM118 - the stream is no mapping
                own, part = key_names.own_name(key), stream.get_slice(key)
                shape = tuple(part.get_shape())
                shape = shape[::-1] if own.transposed else shape
                found.append(
                    StoredTensor(file, key, own.key, shape, part.get_dtype(), own.transposed)
                )
    return found


def read_tensors(
    stored: Iterable[StoredTensor],
    device: str | torch.device,
    dtype: Dtype,
    forms: Mapping[str, Form] | None = None,
) -> dict[str, Tensor]:
    """The tensors by our names, on the device and in the number format asked for.

    Args:
        stored: of `stored_tensors`.
        device: where they shall be.
        dtype: what they shall be, for all or by name; None keeps the format of the file.
        forms: what to keep, by name, of tensors that are converted on the CPU.

    Raises:
        CheckpointError: a file cannot be read any more.
    """
    import torch

    target, forms = torch.device(device), forms or {}
    out: dict[str, Tensor] = {}
    by_file: dict[Path, list[StoredTensor]] = {}
    for item in stored:
        by_file.setdefault(item.file, []).append(item)
    for file, items in by_file.items():
        with _opened(file, "pt") as stream:
            window = _Window(file)
            for item in items:
                own = _torch_dtype(item.dtype)
                wanted = (dtype(item.name) if callable(dtype) else dtype) or own
                if target.type == "cpu" and wanted == own and not item.transposed:
                    out[item.name] = stream.get_tensor(item.key)
                elif target.type == "cpu" and item.name in forms:
                    out[item.name] = forms[item.name](window.lend(item, wanted))
                else:
                    out[item.name] = window.copy(item, target, wanted)
            window.close()
    return out


class _Window:
    """Copies tensors out of a file of which only a part is mapped at a time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stream: Any = None
        self._mapped = 0
        self._lent: Tensor | None = None

    def copy(self, item: StoredTensor, device: torch.device, dtype: torch.dtype) -> Tensor:
        """A tensor, moved and converted."""
        import torch

        return self._fill(torch.empty(item.shape, dtype=dtype, device=device), item)

    def lend(self, item: StoredTensor, dtype: torch.dtype) -> Tensor:
        """A tensor on the CPU, converted, until the next one is lent: their memory is the same."""
        import torch

        count = math.prod(item.shape)
        size = count * dtype.itemsize
        if self._lent is None or self._lent.nbytes < size:
            self._lent = torch.empty(size, dtype=torch.uint8)
        return self._fill(self._lent[:size].view(dtype).view(item.shape), item)

    def _fill(self, out: Tensor, item: StoredTensor) -> Tensor:
        """`out`, with the numbers of a tensor."""
        # As many numbers as the file has, in its order.
        stored = out.T if item.transposed else out
        rows = len(stored) if stored.ndim else 0
        if item.nbytes <= _WINDOW or rows < 2:
            stored.copy_(self._open(item.nbytes).get_tensor(item.key))
            return out
        step = max(1, rows * _WINDOW // item.nbytes)
        for start in range(0, rows, step):
            part = stored[start : start + step]
            size = item.nbytes * len(part) // rows
            part.copy_(self._open(size).get_slice(item.key)[start : start + len(part)])
        return out

    def _open(self, size: int) -> Any:
        """The file with room for `size` further bytes in the window."""
        if self._stream is None or self._mapped + size > _WINDOW:
            self._stream = None  # unmaps what has been read
            self._stream = safe_open(self._file, framework="pt", device="cpu")
            self._mapped = 0
        self._mapped += size
        return self._stream

    def close(self) -> None:
        """Unmaps the rest."""
        self._stream = None


@contextmanager
def _opened(file: Path, framework: str) -> Iterator[Any]:
    try:
        with safe_open(file, framework=framework, device="cpu") as stream:
            yield stream
    except (SafetensorError, OSError) as error:
        if _starts_with(file, _POINTER):
            raise CheckpointError(
                f"{file}: only the Git LFS pointer to the weights; run `git lfs pull` in its folder"
            ) from error
        raise CheckpointError(
            f"{file}: not a whole safetensors file ({error}); download it again"
        ) from error


def _starts_with(file: Path, start: bytes) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(start)) == start
    except OSError:
        return False


def _torch_dtype(name: str) -> torch.dtype:
    import torch

    return {
        "F64": torch.float64,
        "F32": torch.float32,
        "F16": torch.float16,
        "BF16": torch.bfloat16,
    }[name]
