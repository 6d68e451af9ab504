"""An mcap file read from its beginning, as far as it goes, without its index.

For files whose writer died (no summary, a torn last record) or that are damaged in the middle.
Format: github.com/foxglove/mcap, website/docs/spec/index.md.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import lz4.frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC = b"\x89MCAP0\r\n"

_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 0x03, 0x04, 0x05, 0x06, 0x0F
# No ROS message is as large; a greater length is noise.
_LARGEST_RECORD = 1 << 32


@dataclass(frozen=True)
class ScannedChannel:
    """One topic as the file describes it."""

    topic: str
    type_name: str
    encoding: str
    definition: str
    definition_format: str
    """ros2msg, ros2idl or empty."""


@dataclass(eq=False)
class Extent:
    """What a scan found."""

    channels: dict[int, ScannedChannel] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    start_ns: int | None = None
    end_ns: int | None = None
    fault: str = ""
    """Where and why reading ended early, or what was skipped; empty for a whole file."""


class _Torn(Exception):
    """The bytes end, or make no sense, in the middle of a record."""

    def __init__(self, reason: str, code: int = 0, content: bytes = b"") -> None:
        super().__init__(reason)
        self.code = code
        self.content = content


class McapScan:
    """Messages of an mcap file in the order in which they were written.

    Args:
        path: a file that begins as an mcap file does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.extent = Extent()
        for channel, time_ns, _ in self._messages(self.extent):
            extent = self.extent
            extent.counts[channel] = extent.counts.get(channel, 0) + 1
            first, last = extent.start_ns, extent.end_ns
            extent.start_ns = time_ns if first is None else min(first, time_ns)
            extent.end_ns = time_ns if last is None else max(last, time_ns)

    def messages(self) -> Iterator[tuple[ScannedChannel, int, bytes]]:
        """Channel, time in ns and data of every message that can be read."""
        extent = Extent()
        for channel, time_ns, data in self._messages(extent):
            yield extent.channels[channel], time_ns, data

    def _messages(self, extent: Extent) -> Iterator[tuple[int, int, bytes]]:
        schemas: dict[int, tuple[str, str, str]] = {}
        with self._path.open("rb") as file:
            if file.read(8) != MAGIC:
                extent.fault = "it does not begin as an mcap file does"
                return
            try:
                for code, content in _records(file):
                    if code == _DATA_END:
                        return
                    if code == _CHUNK:
                        yield from _chunk(content, schemas, extent)
                    else:
                        yield from _record(code, content, schemas, extent)
                extent.fault = extent.fault or "there is no end record"
            except _Torn as torn:
                extent.fault = extent.fault or f"torn at byte {file.tell()}: {torn}"
                # What is whole of a torn chunk can still be read.
                if torn.code == _CHUNK:
                    yield from _chunk(torn.content, schemas, extent)


def _records(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Code and content of the records of a file or of a chunk."""
    while head := file.read(9):
        if len(head) < 9:
            raise _Torn("the head of a record is not whole")
        code, length = head[0], struct.unpack_from("<Q", head, 1)[0]
        if length > _LARGEST_RECORD:
            raise _Torn(f"a record of {length} bytes")
        content = file.read(length)
        if len(content) < length:
            raise _Torn("the last record is not whole", code, content)
        yield code, content


def _chunk(
    content: bytes, schemas: dict[int, tuple[str, str, str]], extent: Extent
) -> Iterator[tuple[int, int, bytes]]:
    """Messages of a chunk in order of time; a chunk that does not decompress is skipped."""
    try:
        compression, offset = _text(content, 28)
        data = _decompress(compression, content[offset + 8 :])
    except (struct.error, ValueError, RuntimeError, EOFError, zstd.ZstdError) as error:
        extent.fault = extent.fault or f"a chunk cannot be read ({error})"
        return
    found: list[tuple[int, int, bytes]] = []
    try:
        for code, record in _records(BytesIO(data)):
            found.extend(_record(code, record, schemas, extent))
    except _Torn as torn:
        extent.fault = extent.fault or f"a chunk is damaged: {torn}"
    yield from sorted(found, key=lambda message: message[1])


def _record(
    code: int, content: bytes, schemas: dict[int, tuple[str, str, str]], extent: Extent
) -> Iterator[tuple[int, int, bytes]]:
    try:
        if code == _SCHEMA:
            key = struct.unpack_from("<H", content)[0]
            name, offset = _text(content, 2)
            encoding, offset = _text(content, offset)
            definition, _ = _text(content, offset)
            schemas[key] = (name, encoding, definition)
        elif code == _CHANNEL:
            key, schema = struct.unpack_from("<HH", content)
            topic, offset = _text(content, 4)
            encoding, _ = _text(content, offset)
            name, form, definition = schemas.get(schema, ("", "", ""))
            extent.channels[key] = ScannedChannel(topic, name, encoding, definition, form)
        elif code == _MESSAGE:
            key, _, time_ns, _ = struct.unpack_from("<HIQQ", content)
            if key in extent.channels:
                yield key, time_ns, content[22:]
    except (struct.error, UnicodeDecodeError) as error:
        raise _Torn(f"a record makes no sense ({error})") from error


def _text(content: bytes, offset: int) -> tuple[str, int]:
    """A string with its length before it, and the offset behind it."""
    length = struct.unpack_from("<I", content, offset)[0]
    start = offset + 4
    if start + length > len(content):
        raise struct.error("a string reaches beyond its record")
    return content[start : start + length].decode(), start + length


def _decompress(compression: str, data: bytes) -> bytes:
    """As much as the bytes give: the end may be missing."""
    if compression == "":
        return data
    decompressor: Any
    if compression == "zstd":
        decompressor = zstd.ZstdDecompressor()
    elif compression == "lz4":
        decompressor = lz4.frame.LZ4FrameDecompressor()
    else:
        raise ValueError(f"unknown compression '{compression}'")
    return bytes(decompressor.decompress(data))
