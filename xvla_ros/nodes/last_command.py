"""Remembers the last arm command across the death of the process.

The servos hold what they were told last. A scheduler that is started again soon continues from
there if the arm still is there, so that a sagging arm is not moved by the mere start. Where the
file cannot be written the start is from the measured pose, and that is all.
"""

from __future__ import annotations

import contextlib
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
        self._path = path

    def read(self, now: float) -> NDArray[np.float64] | None:
        """The joint angles (6,) in rad, None where none were written in the last minute.

        Args:
            now: seconds since 1970.
        """
        try:
            data = self._path.read_bytes()
        except OSError:
            return None
        if len(data) != _FORMAT.size:
            return None
        written, *values = _FORMAT.unpack(data)
        joints = np.array(values)
        fresh = 0.0 <= now - written <= _MAX_AGE_S
        return joints if fresh and np.isfinite(joints).all() else None

    def write(self, joints: NDArray[np.float64], now: float) -> None:
        """Keeps joint angles (6,) sent at `now`, seconds since 1970."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(file, _FORMAT.pack(now, *joints), 0)
            finally:
                os.close(file)
