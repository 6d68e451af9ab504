"""How far predicted motion is from what was done.

Pure numpy: metres and seconds in, millimetres and degrees out, NaN where a number does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xvla_ros.evaluation import so3
from xvla_ros.geometry import Pose, interpolate
from xvla_ros.scheduler.gripper import GripperKnots, GripperState
from xvla_ros.scheduler.params import GripperParams

Array = NDArray[np.float64]

ONE_SECOND = 1.0
TIMES = ("dt", "1s", "end")
"""Names of the three times at which errors are told."""
_SAME_TIME_S = 1e-6


@dataclass(frozen=True, eq=False)
class Motion:
    """Predicted poses at the steps of a chunk, and the gripper."""

    positions: Array
    """(H, 3), metres."""
    rotations: Array
    """(H, 3, 3)."""
    closed: Array
    """(H,), probability of closed."""
    command: Array
    """(H,), 0 = open, 1 = closed."""

    def pose_at(self, start: Pose, step_dt: float, time: float) -> Pose:
        """Pose at a time after the start, between the steps too; the last one holds for ever."""
        x = time / step_dt - 1.0
        last = len(self.positions) - 1
        if x >= last:
            return self._pose(last)
        k = int(np.floor(x))
        before = start if k < 0 else self._pose(k)
        return interpolate(before, self._pose(k + 1), x - k)

    def _pose(self, step: int) -> Pose:
        return Pose(self.positions[step], self.rotations[step])


@dataclass(frozen=True, eq=False)
class Errors:
    """Distance of a motion from the truth."""

    position_mm: Array
    """(H,)."""
    rotation_deg: Array
    """(H,)."""
    agrees: Array
    """(H,), 1 where the gripper command is what the gripper was, 0 where not."""
    position_at: dict[str, float]
    """mm by name of the time."""
    rotation_at: dict[str, float]
    agrees_at: dict[str, float]


def step_times(horizon: int, step_dt: float) -> Array:
    """Times (H,) after the observation at which the steps are due."""
    return step_dt * np.arange(1, horizon + 1)


def second_step(horizon: int, step_dt: float) -> int | None:
    """The step that is due after one second, None if that lies between two or beyond all."""
    step = round(ONE_SECOND / step_dt) - 1
    due = (step + 1) * step_dt
    return step if 0 <= step < horizon and abs(due - ONE_SECOND) < _SAME_TIME_S else None


def distances(
    positions: ArrayLike, rotations: ArrayLike, true_positions: Array, true_rotations: Array
) -> tuple[Array, Array]:
    """Millimetres (n,) and degrees (n,) between poses."""
    mm = 1e3 * np.linalg.norm(np.asarray(positions) - true_positions, axis=-1)
    relative = np.swapaxes(np.asarray(rotations), -1, -2) @ true_rotations
    sine = 0.5 * np.sqrt(
        (relative[..., 2, 1] - relative[..., 1, 2]) ** 2
        + (relative[..., 0, 2] - relative[..., 2, 0]) ** 2
        + (relative[..., 1, 0] - relative[..., 0, 1]) ** 2
    )
    cosine = 0.5 * (np.trace(relative, axis1=-2, axis2=-1) - 1.0)
    return mm, np.degrees(np.arctan2(sine, cosine))


def errors(
    motion: Motion,
    start: Pose,
    step_dt: float,
    truth: tuple[Array, Array, Array],
    second: tuple[Array, Array, float],
    closed_above: float,
) -> Errors:
    """Errors of a motion.

    Args:
        motion: predicted.
        start: measured pose at the observation.
        step_dt: seconds between two steps.
        truth: positions (H, 3), rotations (H, 3, 3) and closed fractions (H,) at the steps.
        second: position (3,), rotation (3, 3) and closed fraction one second after the start.
        closed_above: the recorded gripper is closed above this fraction.
    """
    mm, deg = distances(motion.positions, motion.rotations, truth[0], truth[1])
    agrees = _agreement(motion.command, truth[2], closed_above)
    horizon = len(mm)
    at = second_step(horizon, step_dt)
    if at is not None:
        middle = (mm[at], deg[at], agrees[at])
    elif horizon * step_dt < ONE_SECOND:
        middle = (np.nan, np.nan, np.nan)
    else:
        pose = motion.pose_at(start, step_dt, ONE_SECOND)
        mm1, deg1 = distances(pose.position, pose.rotation, second[0], second[1])
        step = int(ONE_SECOND / step_dt) - 1
        command = motion.command[max(step, 0)]
        agrees1 = _agreement(np.array([command]), np.array([second[2]]), closed_above)
        middle = (mm1, deg1, agrees1[0])
    named = [
        dict(zip(TIMES, (float(v[0]), float(m), float(v[-1])), strict=True))
        for v, m in zip((mm, deg, agrees), middle, strict=True)
    ]
    return Errors(mm, deg, agrees, *named)


def _agreement(command: Array, closed: Array, closed_above: float) -> Array:
    same = (command > 0.5) == (closed > closed_above)
    return np.where(np.isfinite(closed), same.astype(np.float64), np.nan)


def gripper_commands(
    closed: Array,
    start_closed: float,
    step_dt: float,
    threshold: float,
    params: GripperParams,
    open_below: float = 0.0,
) -> Array:
    """The scheduler's gripper command (H,) at the steps of a chunk.

    Args:
        closed: (H,) probability of closed.
        start_closed: command before the chunk, 0 or 1.
        step_dt: seconds between two steps.
        threshold: the chunk's own; 0 takes the parameters'.
        params: of the scheduler.
        open_below: the chunk's own; 0 takes the parameters'.
    """
    knots = GripperKnots.of(closed, step_dt, threshold, params, open_below)
    state = GripperState(start_closed)
    commands = np.empty(len(closed))
    for k in range(len(closed)):
        state = state.advanced(knots, (k + 1) * step_dt, step_dt, params)
        commands[k] = state.command
    return commands


def spread(positions: Array, rotations: Array) -> tuple[Array, Array]:
    """Root mean square distance from the mean over K seeds: mm (n,) and degrees (n,).

    The mean rotation is the orthogonal matrix nearest to the mean of the matrices (Moakher,
    "Means and averaging in the group of rotations", SIAM J. Matrix Anal. Appl. 24, 2002).

    Args:
        positions: (K, n, 3).
        rotations: (K, n, 3, 3).
    """
    middle = positions.mean(axis=0)
    u, _, vt = np.linalg.svd(rotations.mean(axis=0))
    flip = np.ones((len(u), 3))
    flip[:, 2] = np.linalg.det(u @ vt)
    mean = (u * flip[:, None, :]) @ vt
    mm, deg = distances(positions, rotations, middle, mean)
    return np.sqrt((mm**2).mean(axis=0)), np.sqrt((deg**2).mean(axis=0))


def at_times(values: Array, step_dt: float) -> dict[str, float]:
    """Values (H,) of the steps at the three times; 1s is interpolated between steps."""
    horizon = len(values)
    times = step_times(horizon, step_dt)
    inside = times[0] - _SAME_TIME_S <= ONE_SECOND <= times[-1] + _SAME_TIME_S
    second = float(np.interp(ONE_SECOND, times, values)) if inside else float("nan")
    return dict(zip(TIMES, (float(values[0]), second, float(values[-1])), strict=True))


def resample(motion: Motion, start: Pose, step_dt: float, offset: float) -> Motion:
    """A motion that began `offset` seconds earlier, at the steps of one that begins now.

    Behind its end the last pose is held.
    """
    horizon = len(motion.positions)
    positions = np.concatenate([start.position[None], motion.positions])
    rotations = np.concatenate([start.rotation[None], motion.rotations])
    x = np.minimum(np.arange(1, horizon + 1) + offset / step_dt, horizon)
    low = np.minimum(np.floor(x).astype(int), horizon - 1)
    share = x - low
    moved = positions[low] + share[:, None] * (positions[low + 1] - positions[low])
    ways = so3.log(np.swapaxes(rotations[low], 1, 2) @ rotations[low + 1])
    turned = rotations[low] @ so3.exp(share[:, None] * ways)
    # The gripper is held from each step to the next.
    step = np.clip(np.floor(x + _SAME_TIME_S).astype(int) - 1, 0, horizon - 1)
    return Motion(moved, turned, motion.closed[step], motion.command[step])
