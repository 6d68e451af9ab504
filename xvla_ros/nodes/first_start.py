"""Tells the first start of a node from one after its death.

A launch system that respawns a process runs the same command again, so a parameter cannot tell
the two apart. But both have the same parent process, and a user's next launch has another.
"""

from __future__ import annotations

import os
from pathlib import Path


def is_first_start(name: str, folder: Path) -> bool:
    """Whether the parent process starts a node of this name for the first time.

    Notes the start in a small file of the folder, named by the parent's id and start time.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark = folder / f"{name.strip('/').replace('/', '.')}-{_identity(os.getppid())}"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _identity(pid: int) -> str:
    """The process id with its start time in clock ticks (proc(5), field 22 of stat)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return str(pid)
    return f"{pid}-{stat.rsplit(')', 1)[1].split()[19]}"
