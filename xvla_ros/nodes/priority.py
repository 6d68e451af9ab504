"""Scheduling priority of a process that must keep a rate while inference saturates the machine."""

from __future__ import annotations

import os

_FIFO = 20
_NICE = -15


def raise_priority() -> str:
    """Takes the best priority that is permitted, and says which, in words for a status.

    Threads that are started later inherit it, so it is taken before ROS starts its own.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_FIFO))
        return f"SCHED_FIFO {_FIFO}"
    except OSError:
        pass
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        return f"nice {_NICE}"
    except OSError:
        return "normal"
