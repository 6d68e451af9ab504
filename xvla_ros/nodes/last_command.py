"""Remembers the last arm command across the death of the process.

The servos hold what they were told last. A scheduler that starts anew continues from there if the
arm still is there, so that a sagging arm is not moved by the mere start.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_FORMAT = struct.Struct("<6d")


class LastCommand:
    """Six joint angles in a small file, written with one system call."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def read(self) -> NDArray[np.float64] | None:
        """The joint angles (6,) in rad, None where nothing usable was written."""
        data = os.pread(self._file, _FORMAT.size, 0)
        if len(data) != _FORMAT.size:
            return None
        joints = np.array(_FORMAT.unpack(data))
        return joints if np.isfinite(joints).all() else None

    def write(self, joints: NDArray[np.float64]) -> None:
        """Keeps joint angles (6,)."""
        os.pwrite(self._file, _FORMAT.pack(*joints), 0)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
