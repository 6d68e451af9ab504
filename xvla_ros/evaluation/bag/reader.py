"""Recordings as messages in order of time, whatever state their files are in.

What can be read is read; what could not is said in `Bag.warnings`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from xvla_ros.evaluation.bag import storage
from xvla_ros.evaluation.bag.files import BagError, BagFiles, StorageFile, open_file, read_metadata

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Topic:
    """A topic of a bag."""

    name: str
    type_name: str
    """Like sensor_msgs/msg/Image."""
    count: int


@dataclass(frozen=True)
class Raw:
    """One message as it was on the wire."""

    topic: str
    type_name: str
    time_ns: int
    """When it was received."""
    data: bytes
    """CDR."""


class Bag:
    """An open bag; use it in a `with` statement.

    Attributes:
        topics: by name.
        start_ns: time of the first message.
        end_ns: time of the last message.
        custom: custom data of the recording.
        warnings: what was wrong with the files, one line each; grows while messages are read.
        storage: mcap or sqlite3.

    Args:
        files: see `files.find`.

    Raises:
        BagError: nothing can be read, or there is no message.
    """

    def __init__(self, files: BagFiles) -> None:
        self.files = files
        self.warnings: list[str] = []
        self.custom: dict[str, str] = {}
        self.storage = "sqlite3" if files.files and _is_sqlite(files.files[0]) else "mcap"
        self._stack = ExitStack()
        self._parts: list[tuple[Path, StorageFile]] = []
        self._store: Typestore | None = None
        self._told: set[Path] = set()
        self._partial = False
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Bag:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the files."""
        self._stack.close()
        self._parts = []

    @property
    def partial(self) -> bool:
        """Whether some of the bag could not be read, as far as has been seen."""
        return self._partial

    @property
    def duration(self) -> float:
        """Seconds from the first to the last message."""
        return (self.end_ns - self.start_ns) * 1e-9

    def messages(self, topics: Collection[str] | None = None) -> Iterator[Raw]:
        """Messages of all or of some topics, in order of time."""
        wanted = set(self.topics) if topics is None else set(topics)
        for path, part in self._parts:
            for topic, type_name, time_ns, data in part.messages(wanted):
                if data.startswith(_ZSTD_MAGIC):
                    # Each message compressed by itself; CDR never begins like this.
                    try:
                        data = zstd.decompress(data)
                    except zstd.ZstdError:
                        self._warn_once(path, f"{path.name}: a message does not decompress")
                        continue
                yield Raw(topic, type_name, time_ns, data)
            self._note_fault(path, part)

    def decode(self, raw: Raw) -> Any:
        """The message; its fields are named as in ROS.

        Raises:
            BagError: the type is not known, or the bytes are not such a message.
        """
        if self._store is None:
            self._store = self._make_store()
        if raw.type_name not in self._store.types:
            raise BagError(f"{raw.topic}: type {raw.type_name} is not known")
        try:
            return self._store.deserialize_cdr(raw.data, raw.type_name)
        except Exception as error:
            # The library has no error of its own for bytes that are no such message.
            raise BagError(f"{raw.topic}: a message is not a {raw.type_name} ({error})") from error

    def _open(self) -> None:
        scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="xvla-bag-")))
        self._read_metadata()
        for path in self.files.files:
            try:
                part = open_file(path, scratch)
            except BagError as error:
                self.warnings.append(str(error))
                self._partial = True
                continue
            self._stack.callback(part.close)
            self._parts.append((path, part))
            self._note_fault(path, part)
        if not self._parts:
            raise BagError("; ".join(self.warnings) or "the folder has no storage file")
        self._parts = [part for part in self._parts if part[1].start_ns is not None]
        if not self._parts:
            raise BagError("the bag holds no message")
        self._parts.sort(key=lambda part: part[1].start_ns or 0)
        self.start_ns = min(part.start_ns for _, part in self._parts if part.start_ns is not None)
        self.end_ns = max(part.end_ns for _, part in self._parts if part.end_ns is not None)
        self.topics = self._count_topics()

    def _read_metadata(self) -> None:
        if self.files.metadata is None:
            return
        try:
            names, self.custom = read_metadata(self.files.metadata)
        except BagError as error:
            self.warnings.append(f"{error}; the files themselves are read")
            return
        present = {path.name for path in self.files.files}
        missing = [name for name in names if name not in present]
        if missing:
            self._partial = True
            self.warnings.append(f"missing though named in metadata.yaml: {', '.join(missing)}")

    def _count_topics(self) -> dict[str, Topic]:
        topics: dict[str, Topic] = {}
        foreign: set[str] = set()
        for _, part in self._parts:
            for channel in part.channels:
                if channel.encoding != "cdr":
                    foreign.add(channel.encoding)
                    continue
                before = topics.get(channel.topic)
                count = channel.count + (before.count if before else 0)
                topics[channel.topic] = Topic(channel.topic, channel.type_name, count)
        if not topics:
            raise BagError(f"messages are serialised as {', '.join(sorted(foreign))}, not as cdr")
        return dict(sorted(topics.items()))

    def _note_fault(self, path: Path, part: StorageFile) -> None:
        if part.fault:
            self._warn_once(path, f"{path.name}: {part.fault}")

    def _warn_once(self, path: Path, text: str) -> None:
        if path not in self._told:
            self._told.add(path)
            self.warnings.append(text)
            self._partial = True

    def _make_store(self) -> Typestore:
        """ROS 2's own types, those that the bag defines, and this package's for the rest."""
        store = get_typestore(Stores.ROS2_JAZZY)
        for _, part in self._parts:
            for channel in part.channels:
                if channel.type_name in store.types or not channel.definition:
                    continue
                try:
                    if channel.definition_format == "ros2idl":
                        types = get_types_from_idl(channel.definition)
                    else:
                        types = get_types_from_msg(channel.definition, channel.type_name)
                    store.register({k: v for k, v in types.items() if k not in store.types})
                except Exception as error:
                    # A definition that does not parse concerns its own topic alone.
                    self.warnings.append(
                        f"{channel.topic}: the definition of {channel.type_name} in the bag "
                        f"cannot be used ({' '.join(str(error).split())})"
                    )
        own = storage.own_types()
        store.register({k: v for k, v in own.items() if k not in store.types})
        return store


def _is_sqlite(path: Path) -> bool:
    return path.name.removesuffix(".zstd").endswith(".db3")


def header_stamp_ns(data: bytes) -> int:
    """The header's stamp of a CDR message that begins with a std_msgs/Header, without decoding.

    Raises:
        ValueError: too few bytes.
    """
    if len(data) < 12:
        raise ValueError("the message has no header")
    order = "little" if data[1] & 1 else "big"
    sec = int.from_bytes(data[4:8], order, signed=True)  # type: ignore[arg-type]
    return sec * 1_000_000_000 + int.from_bytes(data[8:12], order)  # type: ignore[arg-type]
