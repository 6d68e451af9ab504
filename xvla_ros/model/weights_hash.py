"""SHA-256 of a model's weights, and whether they are the published ones.

The hash names a model in every chunk. It can be compared with a number, with a list as `sha256sum`
writes it, or with what the `hf` command noted when it downloaded the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from xvla_ros.model.errors import CheckpointError
from xvla_ros.model.weights import weight_files

SUMS_FILE = "SHA256SUMS"
Progress = Callable[[int, int], None]
"""Told the bytes read so far, and all bytes."""

_BLOCK = 1 << 22
_HEX = re.compile(r"[0-9a-f]{64}")
# One line of `sha256sum`; the asterisk marks binary mode.
_LINE = re.compile(r"([0-9a-f]{64})(?:\s+\*?(\S.*))?")


@dataclass(frozen=True)
class WeightsHash:
    """Hashes of the weight files of a folder."""

    files: Mapping[str, str]
    """By name, in the order of `weight_files`."""

    @property
    def whole(self) -> str:
        """One hash for all.

        That of the file or, of shards, what `sha256sum model-*.safetensors | sha256sum` prints.
        """
        if len(self.files) == 1:
            return next(iter(self.files.values()))
        lines = "".join(f"{digest}  {name}\n" for name, digest in self.files.items())
        return hashlib.sha256(lines.encode()).hexdigest()


def hash_weights(folder: str | Path, progress: Progress | None = None) -> WeightsHash:
    """Reads every weight file once.

    Raises:
        CheckpointError: there are no weights.
    """
    files = weight_files(folder)
    total, done = sum(file.stat().st_size for file in files), 0
    digests: dict[str, str] = {}
    block = bytearray(_BLOCK)
    view = memoryview(block)
    for file in files:
        digest = hashlib.sha256()
        with file.open("rb", buffering=0) as stream:
            while size := stream.readinto(block):
                digest.update(view[:size])
                done += size
                if progress is not None:
                    progress(done, total)
        digests[file.name] = digest.hexdigest()
    return WeightsHash(digests)


def weights_hash(folder: str | Path) -> str:
    """`WeightsHash.whole` of a folder."""
    return hash_weights(folder).whole


def check_hash(folder: str | Path, found: WeightsHash, expected: str | Path | None = None) -> str:
    """Where the expected hashes came from, if the weights have them.

    Args:
        folder: of the weights.
        found: of `hash_weights`.
        expected: 64 hexadecimal digits, or a file with lines of `sha256sum`; None looks for what
            the folder itself has: SHA256SUMS, model.safetensors.sha256, or the notes of a download
            from the Hugging Face Hub.

    Raises:
        CheckpointError: the weights are others, or nothing says what they should be.
    """
    source, wanted = _expected(Path(folder), found, expected)
    for name, digest in wanted.items():
        has = found.whole if name == _WHOLE else found.files[name]
        if has != digest:
            what = Path(folder) if name == _WHOLE else Path(folder) / name
            raise CheckpointError(
                f"{what}: SHA-256 is {has}, but {source} says {digest}; download it again"
            )
    return source


_WHOLE = ""


def _expected(
    folder: Path, found: WeightsHash, expected: str | Path | None
) -> tuple[str, dict[str, str]]:
    """Where hashes come from, and them by file name; "" is the name of the whole."""
    if expected is None:
        for source, hashes in ((str(p), _sums(p)) for p in _beside(folder, found)):
            known = {name: hashes[name] for name in found.files if name in hashes}
            if len(known) == len(found.files):
                return source, known
        noted = {name: digest for name in found.files if (digest := _noted(folder / name))}
        if len(noted) == len(found.files):
            return "the record of its download", noted
        raise CheckpointError(
            f"{folder}: SHA-256 of the weights is {found.whole}, but nothing says which it should "
            f"be; give it, or put a {SUMS_FILE} there"
        )
    text = str(expected).strip().lower()
    if _HEX.fullmatch(text):
        return "the given hash", {_WHOLE: text}
    hashes = _sums(Path(expected))
    known = {name: hashes[name] for name in found.files if name in hashes}
    if known:
        missing = [name for name in found.files if name not in known]
        if missing:
            raise CheckpointError(f"{expected}: says nothing of {', '.join(missing)}")
        return str(expected), known
    if _WHOLE in hashes:
        return str(expected), {_WHOLE: hashes[_WHOLE]}
    raise CheckpointError(f"{expected}: no SHA-256 of {', '.join(found.files)} in it")


def _beside(folder: Path, found: WeightsHash) -> list[Path]:
    """Lists that the folder has."""
    lists = [folder / SUMS_FILE, *(folder / f"{name}.sha256" for name in found.files)]
    return [path for path in lists if path.is_file()]


def _sums(path: Path) -> dict[str, str]:
    """Hashes by file name of a list; a bare hash belongs to the file that the list is named after.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: neither 64 hexadecimal digits nor a readable file of hashes: {error}"
        ) from error
    named = path.name.removesuffix(".sha256") if path.suffix == ".sha256" else _WHOLE
    out = {}
    for line in lines:
        match = _LINE.fullmatch(line.strip().lower())
        if match:
            # Only the case of the digits does not matter.
            start = match.start(2)
            out[Path(line.strip()[start:]).name if match[2] else named] = match[1]
    return out


def _noted(file: Path) -> str | None:
    """The hash that huggingface_hub keeps of a file that it downloaded.

    It is the second line of `.cache/huggingface/download/<name>.metadata` beside it or, in the
    shared cache, the name of the blob that the file is a link to.
    """
    metadata = file.parent / ".cache" / "huggingface" / "download" / f"{file.name}.metadata"
    try:
        lines = metadata.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    candidates = [*lines[1:2], file.resolve().name if file.is_symlink() else ""]
    return next((text for text in candidates if _HEX.fullmatch(text)), None)
