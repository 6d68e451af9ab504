"""The command stream as it leaves the scheduler, while simulator and policy run and more besides.

Time is what the middleware writes into each message when the scheduler publishes it, so that
neither the way to here nor this process adds to it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from xvla_ros import names
from xvla_ros.evaluation.live_conductor import NotRunning
from xvla_ros.evaluation.live_demo import choose_domain
from xvla_ros.evaluation.live_record import spinning
from xvla_ros.evaluation.tick_timing import Timing
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes import qos
from xvla_ros.nodes.bringup import Arguments, describe
from xvla_ros.nodes.priority import lower_priority, raise_priority
from xvla_ros.nodes.supervisor import Supervisor
from xvla_ros.parameters.nice import DEFAULT
from xvla_ros.scheduler.params import SchedulerParams

_START_S = 120.0
# What a restarted stream and a first inference take is over by then.
_SETTLE_S = 3.0
# Deeper than a driver's, so that a busy machine loses none of them on the way to here.
_DEPTH = 5000
# About a third of a millisecond.
_FIXED = 5000
_FIXED_WORK_S = 10.0
_PERIOD_S = SchedulerParams().period


@dataclass(frozen=True)
class StreamFigures:
    """What the stream was like."""

    commands: int
    seconds: float
    period_ms: float
    """Nominal."""
    jitter_p50_ms: float
    """Of the distance between two commands from the period."""
    jitter_p95_ms: float
    jitter_p99_ms: float
    jitter_max_ms: float
    missed: int
    """Periods without a command."""
    priority: str
    """That the scheduler's process obtained."""
    saturated: bool
    chunks: int
    """Accepted meanwhile: the policy was at work."""
    beside_network: dict[str, float] = field(default_factory=dict)
    """From the policy's choice of an observation to its chunk, without the network: n; median, min,
    p95 and, of a hundred chunks or more, p99 in seconds. Of the last thousand chunks."""


def figures(
    stamps: list[int], period: float, priority: str, saturated: bool, chunks: int
) -> StreamFigures:
    """The figures of commands published at `stamps`, nanoseconds, meant to be a period apart."""
    gaps = np.diff(np.array(stamps, dtype=np.int64)) * 1e-9
    jitter = 1e3 * np.abs(gaps - period)
    p50, p95, p99 = (float(v) for v in np.percentile(jitter, (50, 95, 99)))
    return StreamFigures(
        commands=len(stamps),
        seconds=float(gaps.sum()),
        period_ms=1e3 * period,
        jitter_p50_ms=p50,
        jitter_p95_ms=p95,
        jitter_p99_ms=p99,
        jitter_max_ms=float(jitter.max()),
        missed=int(np.maximum(np.rint(gaps / period) - 1, 0).sum()),
        priority=priority,
        saturated=saturated,
        chunks=chunks,
    )


def measure(
    seconds: float, threads: int, logs: Path, said: Callable[[str], None], params_file: str = ""
) -> StreamFigures:
    """Brings simulator, policy and scheduler up and listens to the commands.

    Args:
        seconds: for how long.
        threads: of torch that saturate the processors besides; 0 = none.
        logs: folder for what the nodes say.
        said: told what is going on.
        params_file: of the nodes; empty = that of the package.

    Raises:
        BringUpError: the nodes could not be started.
        NotRunning: no commands came.
    """
    domain = choose_domain()
    bringup = describe(Arguments(sim=True, start_actuation=True, params_file=params_file))
    said(f"starting {len(bringup.processes)} nodes in ROS domain {domain} ...")
    with contextlib.ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(bringup, logs))
        supervisor.wait_until_up(_START_S)
        listener = _Listener(stack.enter_context(spinning("xvla_benchmark")))
        listener.wait(_START_S)
        if threads:
            stack.enter_context(_saturated(threads))
        time.sleep(_SETTLE_S)
        said(f"listening for {seconds:g} s ...")
        before = listener.status()
        listener.stamps.clear()
        time.sleep(seconds)
        stamps = listener.stamps[:]
        after = listener.status()
        beside = dict(listener.beside_network)
        if supervisor.faults:
            raise NotRunning(supervisor.faults[0])
    if len(stamps) < 2:
        raise NotRunning(f"{names.SCHEDULER_NODE} sends no commands")
    chunks = int(after.chunks_accepted - before.chunks_accepted)
    found = figures(stamps, _PERIOD_S, after.priority, threads > 0, chunks)
    return replace(found, beside_network=beside)


def fixed_work(at_most: float) -> Timing:
    """Times of the same arithmetic in every period, with the priority that can be obtained.

    Takes ten seconds, or `at_most` if that is less.
    """
    periods = max(round(min(_FIXED_WORK_S, at_most) / _PERIOD_S), 1)
    seconds: list[float] = []

    def work() -> None:
        raise_priority()
        start = time.monotonic()
        for period in range(periods):
            time.sleep(max(start + period * _PERIOD_S - time.monotonic(), 0.0))
            begun = time.perf_counter()
            sum(i * i for i in range(_FIXED))
            seconds.append(time.perf_counter() - begun)

    # Only this thread gets the priority.
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return Timing.of(seconds)


class _Listener:
    """Keeps when commands were published, and the newest status."""

    def __init__(self, node: Node) -> None:
        self.stamps: list[int] = []
        self.beside_network: dict[str, float] = {}
        self._status: SchedulerStatus | None = None
        # rclpy tells from the signature that the callback wants to know when it was published.
        on_command: Any = self._on_command
        node.create_subscription(
            JointTrajectory, names.arm_trajectory(), on_command, QoSProfile(depth=_DEPTH)
        )
        node.create_subscription(
            SchedulerStatus,
            names.of(names.SCHEDULER_NODE, names.STATUS),
            self._on_status,
            qos.STATUS,
        )
        node.create_subscription(
            DiagnosticArray, names.DIAGNOSTICS, self._on_diagnostics, qos.DIAGNOSTICS
        )

    def wait(self, timeout: float) -> None:
        """Waits until commands come.

        Raises:
            NotRunning: none within `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while not self.stamps or self._status is None:
            if time.monotonic() > end:
                raise NotRunning(f"no commands of {names.SCHEDULER_NODE} within {timeout:g} s")
            time.sleep(0.05)

    def status(self) -> SchedulerStatus:
        """The newest status."""
        assert self._status is not None
        return self._status

    def _on_command(self, _: JointTrajectory, info: dict[str, Any]) -> None:
        self.stamps.append(int(info["source_timestamp"]))

    def _on_status(self, message: SchedulerStatus) -> None:
        self._status = message

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        found = {
            value.key.removeprefix(names.BESIDE_NETWORK).removesuffix(" [s]").strip(): value.value
            for status in message.status
            for value in status.values
            if value.key.startswith(names.BESIDE_NETWORK)
        }
        if found:
            self.beside_network = {key: float(value) for key, value in found.items()}


@contextlib.contextmanager
def _saturated(threads: int) -> Iterator[None]:
    """A process that keeps the processors busy meanwhile, and gives way as inference does."""
    command = [sys.executable, "-m", "xvla_ros.runtime.saturate", str(threads)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    lower_priority(DEFAULT, process.pid)
    try:
        yield
    finally:
        process.kill()
        process.wait()
