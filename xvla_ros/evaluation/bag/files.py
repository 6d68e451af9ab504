"""Which files make a bag, and how one file is read however it was left."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import yaml
from rosbags.rosbag2 import Reader

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.mcap_scan import McapScan

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

METADATA = "metadata.yaml"
ROSBAG2, LEROBOT = "rosbag2", "lerobot"
_STORAGE = (".mcap", ".db3")
_SPLIT = re.compile(r"^(.*)_\d+$")


class BagError(Exception):
    """A bag, or a file of one, that cannot be used: cause and mend in one line."""


@dataclass(frozen=True)
class BagFiles:
    """The files of one bag."""

    name: str
    """Unique among the bags of one run."""
    path: Path
    """What a person would call the bag: its folder, or its only file."""
    files: tuple[Path, ...]
    """Storage files, in the order of their names."""
    metadata: Path | None = None
    format: str = ROSBAG2
    """Or LEROBOT, a dataset."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files)


@dataclass(frozen=True)
class Channel:
    """A topic of a file."""

    topic: str
    type_name: str
    count: int
    encoding: str = "cdr"
    definition: str = ""
    definition_format: str = ""
    """ros2msg, ros2idl or empty."""


class StorageFile(Protocol):
    """One open storage file."""

    channels: list[Channel]
    start_ns: int | None
    end_ns: int | None
    fault: str

    def messages(self, topics: Iterable[str]) -> Iterator[tuple[str, str, int, bytes]]:
        """Topic, type, time in ns and data, in order of time as far as the file has one."""

    def close(self) -> None:
        """Lets go of the file."""


def find(paths: Sequence[Path]) -> list[BagFiles]:
    """The bags at or below some paths, by name.

    Raises:
        UsageError: a path does not exist, or has no bag.
    """
    found: dict[Path, BagFiles] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        bags = list(_below(path))
        if not bags:
            raise UsageError(
                f"{path}: no rosbag2 here: neither a folder with {METADATA} nor a file "
                f"{' or '.join('*' + suffix for suffix in _STORAGE)}, nor a LeRobot dataset "
                "(meta/info.json)"
            )
        found.update((bag.path.absolute(), bag) for bag in bags)
    return _named(list(found.values()))


def _named(bags: Sequence[BagFiles]) -> list[BagFiles]:
    """Bags with unique names: as short as possible, with the folders above where needed."""
    named = []
    for bag in bags:
        parts = bag.path.absolute().parts
        depth = next(
            d
            for d in range(1, len(parts) + 1)
            if all(other is bag or other.path.absolute().parts[-d:] != parts[-d:] for other in bags)
        )
        name = "/".join(parts[-depth:])
        named.append(replace(bag, name=name))
    return named


def _below(path: Path) -> Iterator[BagFiles]:
    if path.is_file():
        yield BagFiles(path.name, path, (path,))
        return
    if _is_dataset(path):
        inside = tuple(sorted(p for p in path.rglob("*") if p.is_file()))
        yield BagFiles(path.name, path, inside, format=LEROBOT)
        return
    files = sorted((p for p in path.iterdir() if p.is_file() and _is_storage(p)), key=_natural)
    metadata = path / METADATA
    if metadata.is_file():
        yield BagFiles(path.name, path, tuple(files), metadata)
    elif _is_split(path, files):
        yield BagFiles(path.name, path, tuple(files))
    else:
        for file in files:
            yield BagFiles(file.name, file, (file,))
    for folder in sorted(p for p in path.iterdir() if p.is_dir()):
        yield from _below(folder)


def _is_dataset(folder: Path) -> bool:
    """Whether a folder is a LeRobot dataset, also one that has lost its description."""
    meta = folder / "meta"
    return (meta / "info.json").is_file() or (meta.is_dir() and (folder / "data").is_dir())


def _is_split(folder: Path, files: Sequence[Path]) -> bool:
    """Whether the files of a folder without metadata are the parts of one recording."""
    stems = {_stem(path) for path in files}
    return len(stems) == 1 and (len(files) > 1 or stems == {folder.name})


def _is_storage(path: Path) -> bool:
    name = path.name.removesuffix(".zstd")
    return name.endswith(_STORAGE)


def _stem(path: Path) -> str:
    stem = Path(path.name.removesuffix(".zstd")).stem
    split = _SPLIT.match(stem)
    return split.group(1) if split else stem


def _natural(path: Path) -> tuple[object, ...]:
    """Names with numbers in them in the order of the numbers."""
    parts = re.split(r"(\d+)", path.name)
    return tuple(int(part) if part.isdigit() else part for part in parts)


def read_metadata(path: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """File names and custom data of a metadata.yaml.

    Raises:
        BagError: it cannot be read.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        information = content["rosbag2_bagfile_information"]
        names = tuple(Path(name).name for name in information["relative_file_paths"])
        custom = {str(k): str(v) for k, v in (information.get("custom_data") or {}).items()}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError) as e:
        raise BagError(f"{path.name} cannot be read ({' '.join(str(e).split())})") from e
    return names, custom


def open_file(path: Path, scratch: Path) -> StorageFile:
    """Opens a storage file.

    Args:
        path: mcap or sqlite3, possibly compressed as a whole (.zstd).
        scratch: folder for a decompressed copy.

    Raises:
        BagError: nothing of the file can be read.
    """
    fault = ""
    if path.suffix == ".zstd":
        path, fault = _decompressed(path, scratch)
    if path.suffix not in _STORAGE:
        hint = " (a ROS 1 bag: convert it with rosbags-convert)" if path.suffix == ".bag" else ""
        raise BagError(f"{path.name}: neither .mcap nor .db3{hint}")
    if path.stat().st_size == 0:
        raise BagError(f"{path.name}: the file is empty")
    try:
        return _Indexed(path, fault)
    except Exception as error:
        # Whatever a library says of a damaged file is a fact about the file.
        if path.suffix != ".mcap":
            raise BagError(f"{path.name}: {_one_line(error)}") from error
        reason = fault or _one_line(error)
    scan = _Scanned(path, reason)
    if not scan.channels:
        raise BagError(f"{path.name}: {reason}; nothing can be read from its beginning either")
    return scan


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")


def _decompressed(path: Path, scratch: Path) -> tuple[Path, str]:
    target = scratch / path.name.removesuffix(".zstd")
    try:
        with zstd.open(path, "rb") as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    except (zstd.ZstdError, EOFError) as error:
        if target.stat().st_size == 0:
            raise BagError(f"{path.name}: cannot be decompressed ({_one_line(error)})") from error
        return target, f"decompressed in part only ({_one_line(error)})"
    return target, ""


class _Indexed:
    """A whole file, in order of time."""

    def __init__(self, path: Path, fault: str) -> None:
        self._path = path
        self._reader = Reader(path)
        self._reader.open()
        self.fault = fault
        self.channels = [_channel(connection) for connection in self._reader.connections]
        whole = self._reader.message_count > 0
        self.start_ns = self._reader.start_time if whole else None
        self.end_ns = self._reader.end_time - 1 if whole else None

    def messages(self, topics: Iterable[str]) -> Iterator[tuple[str, str, int, bytes]]:
        wanted = set(topics)
        chosen = [c for c in self._reader.connections if c.topic in wanted]
        if not chosen:
            return
        last = -1
        try:
            for connection, time_ns, data in self._reader.messages(connections=chosen):
                last = time_ns
                yield connection.topic, connection.msgtype, time_ns, bytes(data)
        except Exception as error:
            self.fault = f"damaged after {last} ns ({_one_line(error)})"
        if self.fault and self._path.suffix == ".mcap" and last < (self.end_ns or 0):
            # Behind a damaged part there may be more.
            scan = _Scanned(self._path, self.fault)
            yield from (m for m in scan.messages(wanted) if m[2] > last)

    def close(self) -> None:
        self._reader.close()


class _Scanned:
    """A damaged mcap file, in the order in which it was written."""

    def __init__(self, path: Path, reason: str) -> None:
        self._scan = McapScan(path)
        extent = self._scan.extent
        self.fault = f"{reason}; read from its beginning: {extent.fault or 'whole'}"
        self.channels = [
            Channel(c.topic, c.type_name, extent.counts.get(key, 0), c.encoding, c.definition, form)
            for key, c in extent.channels.items()
            for form in [c.definition_format]
        ]
        self.start_ns, self.end_ns = extent.start_ns, extent.end_ns

    def messages(self, topics: Iterable[str]) -> Iterator[tuple[str, str, int, bytes]]:
        wanted = set(topics)
        for channel, time_ns, data in self._scan.messages():
            if channel.topic in wanted:
                yield channel.topic, channel.type_name, time_ns, data

    def close(self) -> None:
        """Nothing stays open."""


def _channel(connection: Any) -> Channel:
    form = {"MSG": "ros2msg", "IDL": "ros2idl"}.get(connection.msgdef.format.name, "")
    return Channel(
        connection.topic,
        connection.msgtype,
        connection.msgcount,
        connection.ext.serialization_format,
        connection.msgdef.data,
        form,
    )
