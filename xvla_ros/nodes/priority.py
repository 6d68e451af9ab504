"""Who goes first on a machine that inference saturates: the commands, then everything else.

Raising a priority needs a permission; giving way needs none. What computes for long gives way, so
that a command that is due is not kept waiting where the scheduler may not raise its own.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from xvla_ros.parameters.nice import NICE

_FIFO = 20
_NICE = -15
# Without privileges the kernel changes one autogroup in a tenth of a second.
_AUTOGROUP_TRIES = 20
_AUTOGROUP_WAIT_S = 0.06


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


def lower_priority(nice: int, pid: int = 0) -> str:
    """Makes a process give way to others, and says how, in words for a log.

    A session has a weight of its own in the kernel (`man 7 sched`, autogroup), beside which that of
    a process counts only within it: where the process leads its session, both are set.

    Args:
        nice: 0 to 19; a process that already gives way more is left alone.
        pid: the process; 0 = this one.
    """
    pid = pid or os.getpid()
    if nice <= 0:
        return f"nice {os.getpriority(os.PRIO_PROCESS, pid)}"
    # The value belongs to a thread, and threads that run already keep theirs.
    for thread in _threads(pid):
        _lower_thread(thread, nice)
    group = os.getsid(pid) == pid and _lower_autogroup(pid, nice)
    obtained = os.getpriority(os.PRIO_PROCESS, pid)
    return f"nice {obtained}, with its session" if group else f"nice {obtained}"


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return [pid]


def _lower_thread(thread: int, nice: int) -> None:
    # It may have ended meanwhile.
    with suppress(ProcessLookupError):
        own = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, max(own, nice))


def _lower_autogroup(pid: int, nice: int) -> bool:
    """Whether the kernel has autogroups and has taken the value."""
    for _ in range(_AUTOGROUP_TRIES):
        fault = _write_autogroup(pid, nice)
        if fault != errno.EAGAIN:
            return fault == 0
        time.sleep(_AUTOGROUP_WAIT_S)
    return False


def _write_autogroup(pid: int, nice: int) -> int | None:
    """0, or the number of the error."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
    except OSError as error:
        return error.errno
    return 0


class Giving(Protocol):
    """A node with the parameter `nice`."""

    def get_parameter(self, name: str) -> Any:
        """The parameter."""

    def get_logger(self) -> Any:
        """The logger."""


Node = TypeVar("Node", bound=Giving)


def giving_way(make_node: Callable[[], Node]) -> Node:
    """Makes a node, and lets its process give way as its parameter `nice` says."""
    node = make_node()
    obtained = lower_priority(int(node.get_parameter(NICE.name).value))
    node.get_logger().info(f"priority: {obtained}")
    return node
