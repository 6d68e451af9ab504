"""Chunks with known motion, and a loop that plays them to a scheduler at 50 Hz.

The kit is of session scope and without state, so that property tests may share it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk, ChunkRefused, Plan, Provenance
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.scheduler.params import SchedulerParams
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import SchedulerState, Setpoint

PERIOD = 0.02
STEP_DT = 1.0 / 6.0
START = Pose(np.array([0.25, 0.0, 0.15]), so3_exp([0.0, 1.5, 0.0]))


def line_chunk(
    start: Pose = START,
    velocity: Iterable[float] = (0.06, 0.0, 0.0),
    angular: Iterable[float] = (0.0, 0.0, 0.0),
    *,
    stamp: float = 0.0,
    t_ref: float | None = None,
    step_dt: float = STEP_DT,
    horizon: int = 30,
    gripper: float | np.ndarray = 0.0,
    threshold: float = 0.0,
    sequence: int = 1,
    epoch: int = 2,
    proprio: bool = True,
) -> Chunk:
    """Uniform motion from a pose: velocity in the base frame, angular velocity in the body."""
    times = step_dt * np.arange(1, horizon + 1)
    positions = start.position + times[:, None] * np.array(list(velocity))
    rotations = np.stack([start.rotation @ so3_exp(t * np.array(list(angular))) for t in times])
    given = tuple(ee6d.pack(start.position, start.rotation, 0.0)) if proprio else ()
    return Chunk(
        stamp=stamp,
        t_ref=stamp if t_ref is None else t_ref,
        step_dt=step_dt,
        positions=positions,
        rotations=rotations,
        gripper=np.broadcast_to(np.asarray(gripper, dtype=np.float64), (horizon,)).copy(),
        gripper_threshold=threshold,
        sequence=sequence,
        epoch=epoch,
        provenance=Provenance(proprio=given),
    )


def wild_chunk(
    rng: np.random.Generator,
    start: Pose = START,
    *,
    stamp: float = 0.0,
    speed: float = 0.2,
    angular_speed: float = 0.8,
    step_dt: float = STEP_DT,
    horizon: int = 30,
    sequence: int = 1,
    epoch: int = 2,
    offset: float = 0.0,
) -> Chunk:
    """A random walk of a network's kind: every step within the speeds, from near `start`."""

    def within(radius: float, n: int) -> np.ndarray:
        v = rng.normal(size=(n, 3))
        return radius * v * rng.random((n, 1)) / np.linalg.norm(v, axis=1, keepdims=True)

    positions = start.position + within(offset, 1)
    positions = positions + np.cumsum(within(speed * step_dt, horizon), axis=0)
    rotation = start.rotation @ so3_exp(within(5.0 * offset, 1)[0])
    rotations = []
    for turn in within(angular_speed * step_dt, horizon):
        rotation = rotation @ so3_exp(turn)
        rotations.append(rotation)
    return Chunk(
        stamp=stamp,
        t_ref=stamp,
        step_dt=step_dt,
        positions=positions,
        rotations=np.stack(rotations),
        gripper=rng.random(horizon),
        sequence=sequence,
        epoch=epoch,
        provenance=Provenance(proprio=tuple(ee6d.pack(start.position, start.rotation, 0.0))),
    )


def moved(
    x: float = 0.0, y: float = 0.0, z: float = 0.0, turn: Iterable[float] = (0.0, 0.0, 0.0)
) -> Pose:
    """START moved in the base frame and turned in its own."""
    return Pose(START.position + np.array([x, y, z]), START.rotation @ so3_exp(list(turn)))


def started(params: SchedulerParams | None = None, pose: Pose = START) -> ChunkScheduler:
    """A scheduler that holds a pose since time 0; its epoch is 2."""
    scheduler = ChunkScheduler(params, epoch=1)
    scheduler.reset(pose, 0.0, 0.0)
    return scheduler


@dataclass
class Recording:
    """What a scheduler commanded, tick by tick."""

    times: list[float] = field(default_factory=list)
    setpoints: list[Setpoint] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    refused: list[ChunkRefused] = field(default_factory=list)

    @property
    def positions(self) -> np.ndarray:
        return np.array([s.pose.position for s in self.setpoints])

    @property
    def rotations(self) -> np.ndarray:
        return np.array([s.pose.rotation for s in self.setpoints])

    @property
    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Metres and radians from each tick to the next."""
        pairs = zip(self.setpoints[:-1], self.setpoints[1:], strict=True)
        both = np.array([a.pose.distance(b.pose) for a, b in pairs])
        return both[:, 0], both[:, 1]

    @property
    def states(self) -> list[SchedulerState]:
        return [s.state for s in self.setpoints]

    @property
    def rates(self) -> np.ndarray:
        return np.array([s.rate for s in self.setpoints])

    @property
    def grippers(self) -> list[float]:
        return [s.gripper for s in self.setpoints]


def play(
    scheduler: ChunkScheduler,
    duration: float,
    arrivals: Iterable[tuple[float, Chunk]] = (),
    *,
    start: float = 0.0,
    period: float = PERIOD,
    events: Iterable[tuple[float, Callable[[float], object]]] = (),
) -> Recording:
    """Ticks from `start` on; chunks and calls come at their times, before the tick."""
    recording = Recording()
    chunks, calls = list(arrivals), list(events)
    for i in range(round(duration / period) + 1):
        now = start + i * period
        for item in [c for c in chunks if c[0] <= now + 1e-9]:
            chunks.remove(item)
            try:
                scheduler.submit(item[1], max(item[0], start))
            except ChunkRefused as refusal:
                recording.refused.append(refusal)
        for call in [c for c in calls if c[0] <= now + 1e-9]:
            calls.remove(call)
            call[1](now)
        recording.times.append(now)
        recording.setpoints.append(scheduler.sample(now))
    return recording


Predict = Callable[[float, Pose, int, int], Chunk]


def loop(
    scheduler: ChunkScheduler,
    predict: Predict,
    latencies: Callable[[int], float],
    duration: float,
    policy_period: float = 0.5,
) -> Recording:
    """The closed loop with one inference in flight: `predict(stamp, commanded, sequence, epoch)`.

    A latency of infinity loses the chunk after one second.
    """
    recording = Recording()
    in_flight: tuple[float, Chunk | None] | None = None
    next_start, sequence = 0.0, 0
    for i in range(round(duration / PERIOD) + 1):
        now = i * PERIOD
        if in_flight is not None and in_flight[0] <= now + 1e-9:
            try:
                if in_flight[1] is not None:
                    scheduler.submit(in_flight[1], now)
            except ChunkRefused as refusal:
                recording.refused.append(refusal)
            in_flight = None
        setpoint = scheduler.sample(now)
        recording.times.append(now)
        recording.setpoints.append(setpoint)
        if in_flight is None and now >= next_start - 1e-9:
            sequence += 1
            latency = latencies(sequence)
            chunk = predict(now, setpoint.pose, sequence, scheduler.epoch)
            lost = not np.isfinite(latency)
            in_flight = (now + (1.0 if lost else latency), None if lost else chunk)
            next_start = max(next_start + policy_period, now)
    return recording


def wanderer(
    seed: int, *, offset: float = 0.02, speed: float = 0.15, angular_speed: float = 0.8
) -> Predict:
    """A policy whose chunks have nothing to do with one another but where they begin."""
    rng = np.random.default_rng(seed)

    def predict(stamp: float, commanded: Pose, sequence: int, epoch: int) -> Chunk:
        return wild_chunk(
            rng,
            commanded,
            stamp=stamp,
            sequence=sequence,
            epoch=epoch,
            speed=speed,
            angular_speed=angular_speed,
            offset=offset,
        )

    return predict


def _load(name: str) -> ModuleType:
    """A helper module beside this file; pytest's importlib mode leaves the folder off the path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_RIG = _load("rig")


class Kit:
    """The helpers of this folder, for tests that cannot import them."""

    PERIOD = PERIOD
    STEP_DT = STEP_DT
    START = START
    line_chunk = staticmethod(line_chunk)
    wild_chunk = staticmethod(wild_chunk)
    wanderer = staticmethod(wanderer)
    started = staticmethod(started)
    moved = staticmethod(moved)
    play = staticmethod(play)
    loop = staticmethod(loop)
    Rig = _RIG.Rig
    fractions = staticmethod(_RIG.fractions)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
def rig(kit: type[Kit]) -> Any:
    """An executor on an arm in the ready pose that nobody has switched on."""
    return kit.Rig()
