"""Runs one node as a process: arguments, signals, orderly end, exit code.

Ctrl-C and SIGTERM do not end communication at once, as rclpy's own handlers do; they ask the loop
to stop, and the node's shutdown transition runs while its publishers still work.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from types import FrameType
from typing import Protocol, TypeVar, cast

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import Executor, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import try_shutdown

from xvla_ros.nodes.parameters.declaration import Parameter, ParameterRefused, check_file

ENDS_WITH_INPUT = "XVLA_ENDS_WITH_INPUT"
"""Environment variable of a process that shall not outlive the one that holds its input."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

_SPIN_S = 0.1
_FINISH_S = 1.0


class OrderlyNode(Protocol):
    """A node, lifecycle or plain, that can be brought to its end while it still communicates."""

    def shut_down(self) -> None:
        """Ends what the node does."""

    def destroy_node(self) -> None:
        """Frees its publishers and the rest."""


AnyNode = TypeVar("AnyNode", bound=OrderlyNode)
Spin = Callable[[AnyNode, Executor, threading.Event], None]


def spin(_: OrderlyNode, executor: Executor, stop: threading.Event) -> None:
    """Runs callbacks as they come until asked to stop."""
    while not stop.is_set():
        executor.spin_once(timeout_sec=_SPIN_S)


def run(
    make_node: Callable[[], AnyNode],
    name: str,
    parameters: Sequence[Parameter],
    argv: Sequence[str] | None = None,
    *,
    threads: int = 1,
    spin: Spin[AnyNode] = spin,
) -> int:
    """Runs the node until SIGINT or SIGTERM, then shuts it down in order.

    Args:
        make_node: makes the node; rclpy is initialised by then.
        name: the node's name unless remapped, under which a parameter file addresses it.
        parameters: the node's parameters, against which parameter files are checked.
        argv: the arguments, program name first; sys.argv if None.
        threads: of the executor.
        spin: what is done until the end.

    Returns:
        Exit code: 0 after an orderly end, 1 after an exception, 2 for wrong arguments.
    """
    arguments = list(sys.argv if argv is None else argv)
    try:
        actual = _remapped_name(arguments) or name
        for path in parameter_files(arguments):
            check_file(path, {actual: parameters})
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except (ParameterRefused, rclpy_implementation.RCLError, ValueError) as error:
        return _usage(name, error)
    stop = _stop_on_signals()
    try:
        try:
            node = make_node()
        except (ParameterRefused, ParameterException) as error:
            return _usage(name, error)
        executor: Executor = (
            SingleThreadedExecutor() if threads == 1 else MultiThreadedExecutor(threads)
        )
        executor.add_node(cast(Node, node))
        code = _guarded(partial(spin, node, executor, stop))
        node.shut_down()
        let_finish(executor)
        executor.shutdown(timeout_sec=1.0)
        node.destroy_node()
        return code
    finally:
        try_shutdown()


def parameter_files(arguments: Sequence[str]) -> Iterator[str]:
    """The files given with `--params-file` among ROS arguments."""
    for flag, value in pairwise(arguments):
        if flag == "--params-file":
            yield value


def _remapped_name(arguments: Sequence[str]) -> str | None:
    for argument in arguments:
        for prefix in ("__node:=", "__name:="):
            if argument.startswith(prefix):
                return argument.removeprefix(prefix)
    return None


def _usage(name: str, error: Exception) -> int:
    print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
    return EXIT_USAGE


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    if os.environ.get(ENDS_WITH_INPUT):
        threading.Thread(target=_end_with_input, args=(stop,), daemon=True).start()

    def handler(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGTERM, handler)
    return stop


def _end_with_input(stop: threading.Event) -> None:
    """Asks to stop when nobody holds the other end of the standard input any more."""
    # Not through sys.stdin, whose lock the interpreter would wait for at its end.
    while os.read(0, 1):
        pass
    stop.set()


def _guarded(spinning: Callable[[], None]) -> int:
    """Exit code; an exception in a callback ends the node, in order."""
    try:
        spinning()
    except Exception:
        traceback.print_exc()
        return EXIT_FAILED
    return EXIT_OK


def let_finish(executor: Executor) -> None:
    """Waits for callbacks in other threads.

    rclpy's own shutdown does not (7.1), and they would find their executor gone.
    """
    running = list(getattr(executor, "_futures", ()))
    end = time.monotonic() + _FINISH_S
    while not all(task.done() for task in running) and time.monotonic() < end:
        time.sleep(0.005)
