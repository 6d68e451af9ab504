"""How long one command period takes to decide: the scheduler alone, and with limits and IK.

No ROS and no real time: a policy that wanders through the workspace is executed by an arm that
lags behind, and each call is timed. What is timed is what the node does in every period.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Chunk, ChunkRefused
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.scheduler.arm_io import JointMeasurement
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.params import ExecutorParams, SchedulerParams
from xvla_ros.scheduler.scheduler import ChunkScheduler

Array = NDArray[np.float64]

_POLICY_PERIOD_S = 0.5
_LATENCY_S = 0.4
# Of the arm's servos: the part of the way to the command that is done in one period.
_FOLLOWED = 0.18
_STEPS, _STEP_DT = 30, 1.0 / 6.0
_CENTRE = np.array([0.26, 0.0, 0.14])
_SWING = np.array([0.12, 0.15, 0.12])
_TURN = 0.6


@dataclass(frozen=True)
class Timing:
    """Milliseconds of many calls of one thing."""

    calls: int
    median_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float

    @staticmethod
    def of(seconds: list[float]) -> Timing:
        """The figures of calls that took so many seconds each."""
        p50, p95, p99 = (1e3 * float(v) for v in np.percentile(seconds, (50.0, 95.0, 99.0)))
        return Timing(len(seconds), p50, p95, p99, 1e3 * max(seconds))


def measure(
    clock: Callable[[], float],
    ticks: int = 3000,
    scheduler: SchedulerParams | None = None,
    executor: ExecutorParams | None = None,
) -> dict[str, Timing]:
    """Times `ticks` command periods.

    Args:
        clock: seconds, such as `time.perf_counter`.
        ticks: number of periods, 50 to a second.
        scheduler: parameters of the scheduler.
        executor: parameters of limits and moves.

    Returns:
        `tick` (sample, limits, inverse kinematics, gate), `sample` (the scheduler without the
        limits), `submit` (a chunk's admission, between two periods).
    """
    params = scheduler or SchedulerParams()
    with _no_collections():
        tick, submit = _run_arm(clock, ticks, params, executor or ExecutorParams())
        sample = _run_alone(clock, ticks, params)
    return {"tick": Timing.of(tick), "sample": Timing.of(sample), "submit": Timing.of(submit)}


def _run_arm(
    clock: Callable[[], float], ticks: int, params: SchedulerParams, limits: ExecutorParams
) -> tuple[list[float], list[float]]:
    """Seconds of each tick and of each chunk's admission, of an arm in motion."""
    arm = ArmExecutor(ChunkScheduler(params), WidowX250s(), limits)
    joints = np.array(constants.READY)
    policy = _Policy(arm.scheduler)
    seconds: list[float] = []
    admissions: list[float] = []
    for i in range(ticks):
        now = i * params.period
        measured = JointMeasurement(now, joints)
        for chunk in policy.arrived(now):
            start = clock()
            _offer(arm, chunk, now)
            admissions.append(clock() - start)
        start = clock()
        command = arm.tick(now, measured)
        seconds.append(clock() - start)
        if i == 0:
            arm.set_actuation(True, now, measured)
        policy.observe(now)
        if command.joints is not None:
            joints = joints + _FOLLOWED * (command.joints - joints)
    return seconds, admissions


def _run_alone(clock: Callable[[], float], ticks: int, params: SchedulerParams) -> list[float]:
    """Seconds of each `sample` of the same chunks."""
    scheduler = ChunkScheduler(params)
    scheduler.reset(WidowX250s().fk(constants.READY), 0.0, 0.0)
    policy = _Policy(scheduler)
    seconds: list[float] = []
    for i in range(ticks):
        now = i * params.period
        for chunk in policy.arrived(now):
            _offer(scheduler, chunk, now)
        start = clock()
        scheduler.sample(now)
        seconds.append(clock() - start)
        policy.observe(now)
    return seconds


def _offer(to: ArmExecutor | ChunkScheduler, chunk: Chunk, now: float) -> None:
    try:
        to.submit(chunk, now)
    except ChunkRefused:
        # The arm may have been held up at a limit: the next chunk starts from where it is.
        return


class _Policy:
    """Chunks from the command to a figure in the workspace, with the latency of a network."""

    def __init__(self, scheduler: ChunkScheduler) -> None:
        self._scheduler = scheduler
        self._next = 0.0
        self._sequence = 0
        self._in_flight: list[tuple[float, Chunk]] = []

    def arrived(self, now: float) -> list[Chunk]:
        ready = [chunk for due, chunk in self._in_flight if due <= now]
        self._in_flight = [item for item in self._in_flight if item[0] > now]
        return ready

    def observe(self, now: float) -> None:
        if now < self._next:
            return
        self._next += _POLICY_PERIOD_S
        self._sequence += 1
        chunk = _towards_figure(
            self._scheduler.pose, now, self._sequence, self._scheduler.epoch, self._scheduler.params
        )
        self._in_flight.append((now + _LATENCY_S, chunk))


def _towards_figure(
    start: Pose, now: float, sequence: int, epoch: int, params: SchedulerParams
) -> Chunk:
    """Leads from a pose to a moving target within two seconds, and then along with it."""
    times = _STEP_DT * np.arange(1, _STEPS + 1)
    share = np.minimum(times / 2.0, 1.0)[:, None]
    phases = 0.35 * (now + times)[:, None] * np.array([1.0, 0.7, 1.3])
    positions = (1.0 - share) * start.position + share * (_CENTRE + _SWING * np.sin(phases))
    down = WidowX250s().fk(constants.READY).rotation
    turn = _TURN * np.sin(0.5 * (now + times))
    rotations = np.stack([down @ so3_exp([angle, 0.3 * angle, 0.0]) for angle in turn])
    return Chunk(
        stamp=now,
        t_ref=now,
        step_dt=_STEP_DT,
        positions=positions,
        rotations=rotations,
        gripper=(np.sin(phases[:, 0]) > 0.0).astype(np.float64),
        frame_id=params.base_frame,
        ee_frame=params.ee_frame,
        sequence=sequence,
        epoch=epoch,
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """Garbage is collected before and after, as the node does between its commands."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
