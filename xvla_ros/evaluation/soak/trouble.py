"""Random chunks, and random trouble with them; a seed says it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk, Provenance
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.scheduler.params import STRATEGIES, SchedulerParams
from xvla_ros.scheduler.trajectory import exp_rows

Array = NDArray[np.float64]
Value = TypeVar("Value")
Spoiler = Callable[[Chunk, np.random.Generator], Chunk]

_STEP_TIMES = (1.0 / 30.0, 1.0 / 15.0, 0.1, 1.0 / 6.0, 1.0 / 3.0)
_LATENCIES_S = (0.0, 0.02, 0.135, 0.4, 0.8, 1.5)
# Speeds of the chunks, most of them within the limits of the arm, some at what is still accepted.
_SPEEDS = (0.05, 0.15, 0.25, 0.45, 0.6)
_ANGULAR_SPEEDS = (0.2, 0.8, 1.25, 2.5, 3.0)


def parameters(rng: np.random.Generator, strategy: str) -> SchedulerParams:
    """The defaults of a strategy, or in half of the cases others."""
    chosen = next(name for name in STRATEGIES if name == strategy)
    params = SchedulerParams(strategy=chosen)
    if rng.random() < 0.5:
        return params
    return replace(
        params,
        fade_s=float(rng.choice([0.05, 0.2, 0.4, 1.0])),
        execution_horizon_s=float(rng.uniform(0.2, 3.0)),
        ensemble_decay=float(rng.uniform(-1.0, 1.0)),
        arm_lag_s=float(rng.choice([0.0, 0.1, 0.3])),
        gripper_lag_s=float(rng.choice([0.0, 0.1, 0.3])),
    )


def latency(rng: np.random.Generator) -> float | None:
    """Seconds from an observation to the arrival of its chunk; None loses it."""
    if rng.random() < 0.1:
        return None
    return _one_of(rng, _LATENCIES_S) * float(rng.uniform(0.5, 1.5))


def chunk(
    rng: np.random.Generator, start: Pose, stamp: float, sequence: int, epoch: int
) -> tuple[Chunk, str]:
    """A random walk from near a pose, and what is wrong with it (or nothing)."""
    horizon, step_dt = int(rng.integers(2, 31)), _one_of(rng, _STEP_TIMES)
    speed, angular_speed = _one_of(rng, _SPEEDS), _one_of(rng, _ANGULAR_SPEEDS)
    offset = _one_of(rng, (0.0, 0.01, 0.05))
    drift = _within(rng, 0.7 * speed * step_dt, 1)
    steps = drift + _within(rng, 0.3 * speed * step_dt, horizon)
    positions = start.position + _within(rng, offset, 1) + np.cumsum(steps, axis=0)
    spin = _within(rng, 0.7 * angular_speed * step_dt, 1)
    turns = np.cumsum(spin + _within(rng, 0.3 * angular_speed * step_dt, horizon), axis=0)
    # Two rotation vectors are at least as far apart as the rotations that they stand for.
    rotations = start.rotation @ so3_exp(_within(rng, 5.0 * offset, 1)[0]) @ exp_rows(turns)
    lead = _one_of(rng, (0.0, 0.0, 0.135, 0.6))
    source = "commanded_future" if lead else _one_of(rng, ("commanded", "measured"))
    proprio = tuple(ee6d.pack(start.position, start.rotation, 0.0).tolist())
    made = Chunk(
        stamp=stamp,
        t_ref=stamp + lead,
        step_dt=step_dt,
        positions=positions,
        rotations=rotations,
        gripper=np.clip(rng.normal(_one_of(rng, (0.1, 0.7, 0.9)), 0.15, horizon), 0.0, 1.0),
        gripper_threshold=_one_of(rng, (0.0, 0.5, 0.8)),
        gripper_open_below=_one_of(rng, (0.0, 0.4, 0.9)),
        sequence=sequence,
        epoch=epoch,
        provenance=Provenance(proprio=proprio, proprio_source=source),
    )
    if rng.random() < 0.75:
        return made, ""
    fault = _one_of(rng, tuple(_FAULTS))
    return _FAULTS[fault](made, rng), fault


def _one_of(rng: np.random.Generator, values: tuple[Value, ...]) -> Value:
    return values[int(rng.integers(len(values)))]


def _within(rng: np.random.Generator, radius: float, count: int) -> Array:
    """Vectors (count, 3) of lengths up to a radius."""
    v = rng.normal(size=(count, 3))
    lengths = np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-12)
    return np.asarray(radius * v * rng.random((count, 1)) / lengths)


def _number(name: str, value: float) -> Spoiler:
    """Puts a value at a random place of an array."""

    def spoil(good: Chunk, rng: np.random.Generator) -> Chunk:
        values = getattr(good, name).copy()
        values.flat[int(rng.integers(values.size))] = value
        return replace(good, **{name: values})

    return spoil


def _jump(good: Chunk, rng: np.random.Generator) -> Chunk:
    positions = good.positions.copy()
    positions[int(rng.integers(good.horizon)) :] += _within(rng, 0.5, 1)
    return replace(good, positions=positions)


def _flip(good: Chunk, rng: np.random.Generator) -> Chunk:
    rotations = good.rotations.copy()
    rotations[int(rng.integers(good.horizon)) :] @= so3_exp([0.0, np.pi, 0.0])
    return replace(good, rotations=rotations)


def _stamped(seconds: float) -> Spoiler:
    return lambda good, rng: replace(good, stamp=good.stamp + seconds, t_ref=good.t_ref + seconds)


_FAULTS: dict[str, Spoiler] = {
    "NaN position": _number("positions", np.nan),
    "infinite position": _number("positions", np.inf),
    "NaN rotation": _number("rotations", np.nan),
    "NaN gripper": _number("gripper", np.nan),
    "scaled rotation": _number("rotations", 1.7),
    "jump": _jump,
    "flip": _flip,
    "old epoch": lambda good, rng: replace(good, epoch=good.epoch - 1),
    "old": _stamped(-10.0),
    "from the future": _stamped(5.0),
    "repeated": lambda good, rng: replace(good, sequence=good.sequence - 1),
    "no step time": lambda good, rng: replace(good, step_dt=0.0),
    "no pose": lambda good, rng: replace(good, provenance=Provenance(proprio=(1.0,) * 20)),
    "another arm": lambda good, rng: replace(good, frame_id="somewhere_else"),
}
NEVER = frozenset(
    {
        "NaN position",
        "infinite position",
        "NaN rotation",
        "NaN gripper",
        "old epoch",
        "no step time",
        "another arm",
    }
)
"""Faults with which a chunk must be refused; the others may turn out harmless, and whether a stamp
is old or of the future depends on the clock of the arrival."""
