"""Remembers the last arm command across the death of the process.

The servos hold what they were told last. A scheduler that is started again soon continues from
there if the arm still is there, so that a sagging arm is not moved by the mere start.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_FORMAT = struct.Struct("<7d")
_MAX_AGE_S = 60.0


class LastCommand:
    """A time and six joint angles in a small file, written with one system call."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def read(self, now: float) -> NDArray[np.float64] | None:
        """The joint angles (6,) in rad, None where none were written in the last minute.

        Args:
            now: seconds since 1970.
        """
        data = os.pread(self._file, _FORMAT.size, 0)
        if len(data) != _FORMAT.size:
            return None
        written, *values = _FORMAT.unpack(data)
        joints = np.array(values)
        fresh = 0.0 <= now - written <= _MAX_AGE_S
        return joints if fresh and np.isfinite(joints).all() else None

    def write(self, joints: NDArray[np.float64], now: float) -> None:
        """Keeps joint angles (6,) sent at `now`, seconds since 1970."""
        os.pwrite(self._file, _FORMAT.pack(now, *joints), 0)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
