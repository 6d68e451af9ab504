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

from xvla_ros.scheduler.arm_io import HeldCommand

_FORMAT = struct.Struct("<8d")
_MAX_AGE_S = 60.0


class LastCommand:
    """A time, six joint angles and the gripper in a small file, written with one system call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, now: float) -> HeldCommand | None:
        """The command, None where none was written in the last minute.

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
        fresh = 0.0 <= now - written <= _MAX_AGE_S
        if not fresh or not np.isfinite(values).all():
            return None
        return HeldCommand(np.array(values[:-1]), values[-1])

    def write(self, command: HeldCommand, now: float) -> None:
        """Keeps a command sent at `now`, seconds since 1970."""
        with contextlib.suppress(OSError):
            file = self._open()
            try:
                os.pwrite(file, _FORMAT.pack(now, *command.joints, command.gripper_closed), 0)
            finally:
                os.close(file)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, flags, 0o600)
