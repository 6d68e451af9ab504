"""Names and positions of many joint states, without decoding each message as a whole.

A driver sends the same names in the same order every time. What comes before the positions is
then the same bytes but for the stamp, and the positions can be read from where they lie. Layout:
OMG CDR (formal/02-06-51, chapter 15.3), little-endian, as ROS 2 writes it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LITTLE_ENDIAN = b"\x00\x01"
_BODY = 4
# Behind the encapsulation and the stamp.
_FRAME_ID = 12


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the positions are in messages that begin like one that was seen."""

    head: bytes
    """From the frame's name to the number of positions."""
    start: int
    """Offset of the first position."""
    names: tuple[str, ...]

    def fits(self, data: bytes) -> bool:
        """Whether a message has these names and as many positions."""
        end = _FRAME_ID + len(self.head)
        return data[:2] == _LITTLE_ENDIAN and data[_FRAME_ID:end] == self.head

    def positions(self, data: bytes) -> NDArray[np.float64]:
        """(n,) of a message that fits."""
        return np.frombuffer(data, "<f8", len(self.names), self.start)


class JointStateReader:
    """Reads sensor_msgs/JointState.

    Args:
        decode: decodes any such message as a whole; used wherever the names have changed.
    """

    def __init__(self, decode: Callable[[Any], Any]) -> None:
        self._decode = decode
        self._layout: _Layout | None = None

    def read(self, raw: Any) -> tuple[Sequence[str], Sequence[float]]:
        """Names and positions of a message.

        Raises:
            Whatever `decode` raises; ValueError for a message that is cut.
        """
        layout = self._layout
        if layout is not None and layout.fits(raw.data):
            return layout.names, layout.positions(raw.data).tolist()
        message = self._decode(raw)
        found = _layout(raw.data)
        # The shortcut is taken only where it is seen to give the same.
        if (
            found is not None
            and list(found.names) == list(message.name)
            and np.array_equal(found.positions(raw.data), message.position, equal_nan=True)
        ):
            self._layout = found
        return message.name, message.position


def _layout(data: bytes) -> _Layout | None:
    """The layout of a message; None where it is not the usual one."""
    if data[:2] != _LITTLE_ENDIAN:
        return None
    try:
        _, offset = _text(data, _FRAME_ID)
        count, offset = _count(data, offset)
        names = []
        for _ in range(count):
            name, offset = _text(data, offset)
            names.append(name)
        positions, offset = _count(data, offset)
    except (struct.error, UnicodeDecodeError):
        return None
    start = offset + -(offset - _BODY) % 8
    if positions != count or start + 8 * count > len(data):
        return None
    return _Layout(data[_FRAME_ID:offset], start, tuple(names))


def _count(data: bytes, offset: int) -> tuple[int, int]:
    """A number of elements, aligned to four, and the offset behind it."""
    offset += -(offset - _BODY) % 4
    return struct.unpack_from("<I", data, offset)[0], offset + 4


def _text(data: bytes, offset: int) -> tuple[str, int]:
    """A string, which ends with a zero, and the offset behind it."""
    length, offset = _count(data, offset)
    return data[offset : offset + length - 1].decode(), offset + length
