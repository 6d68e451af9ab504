"""Which chunks are fit for execution, judged from the chunk and the time alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk, ChunkRefused, Refusal
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.params import ChunkParams, SchedulerParams, SpliceParams
from xvla_ros.scheduler.trajectory import Trajectory

Array = NDArray[np.float64]

# Largest entry of R^T R - I of a matrix that passes as a rotation; float32 keeps about 1e-6.
_ORTHONORMAL = 1e-3
# Between two rotations this far apart, radians, the shortest way is no longer well determined.
_LARGEST_TURN = 2.5


def check(chunk: Chunk, now: float, params: SchedulerParams) -> None:
    """Raises ChunkRefused unless shape, numbers, frames and times of a chunk are plausible."""
    _check_numbers(chunk)
    _check_times(chunk, now, params.chunk)
    for what, name, wanted in (
        ("poses are in", chunk.frame_id, params.base_frame),
        ("poses are of", chunk.ee_frame, params.ee_frame),
    ):
        if name != wanted:
            raise ChunkRefused(Refusal.WRONG_FRAME, f"{what} {name!r}, expected {wanted!r}")


def trajectory(chunk: Chunk, params: ChunkParams) -> Trajectory:
    """The chunk as a function of time, from the pose that the policy was given.

    A chunk without proprio rests at its first step until that is due.

    Raises:
        ChunkRefused: two steps are further apart than the arm may move.
    """
    positions, rotations = _with_proprio(chunk)
    _check_steps(positions, rotations, chunk.step_dt, params)
    return Trajectory.through(positions, rotations, chunk.step_dt)


def check_jump(command: Pose, start: Pose, params: SpliceParams) -> None:
    """Raises ChunkRefused if a chunk would start too far from the command."""
    metres, radians = command.distance(start)
    if metres > params.max_jump_m or radians > params.max_jump_rad:
        raise ChunkRefused(
            Refusal.JUMP,
            f"{metres:.3f} m and {radians:.3f} rad, allowed are "
            f"{params.max_jump_m:g} m and {params.max_jump_rad:g} rad",
        )


def _check_numbers(chunk: Chunk) -> None:
    n = len(chunk.positions)
    shapes = (np.shape(chunk.positions), np.shape(chunk.rotations), np.shape(chunk.gripper))
    if n == 0 or shapes != ((n, 3), (n, 3, 3), (n,)):
        raise ChunkRefused(Refusal.SHAPE, f"positions, rotations, gripper have {shapes}")
    for name, values in (
        ("positions", chunk.positions),
        ("rotations", chunk.rotations),
        ("gripper", chunk.gripper),
        ("proprio", np.array(chunk.provenance.proprio)),
        ("gripper_threshold", np.array(chunk.gripper_threshold)),
        ("gripper_open_below", np.array(chunk.gripper_open_below)),
    ):
        if not np.isfinite(values).all():
            raise ChunkRefused(Refusal.NON_FINITE, f"in {name}")
    gram = np.swapaxes(chunk.rotations, 1, 2) @ chunk.rotations
    if np.abs(gram - np.eye(3)).max() > _ORTHONORMAL or np.linalg.det(chunk.rotations).min() < 0:
        raise ChunkRefused(Refusal.DEGENERATE_ROTATION, "a matrix is no rotation")


def _check_times(chunk: Chunk, now: float, params: ChunkParams) -> None:
    if not np.isfinite([chunk.stamp, chunk.t_ref, chunk.step_dt]).all():
        raise ChunkRefused(
            Refusal.IMPLAUSIBLE_TIME,
            f"stamp {chunk.stamp}, t_ref {chunk.t_ref}, step_dt {chunk.step_dt}",
        )
    if not params.min_step_dt_s <= chunk.step_dt <= params.max_step_dt_s:
        raise ChunkRefused(
            Refusal.IMPLAUSIBLE_TIME,
            f"step_dt {chunk.step_dt:g} s is not in "
            f"[{params.min_step_dt_s:g}, {params.max_step_dt_s:g}] s",
        )
    age = now - chunk.stamp
    if not -params.max_future_s <= age <= params.max_age_s:
        raise ChunkRefused(
            Refusal.CLOCKS_DIFFER,
            f"the stamp is {age:.3f} s old; is that how long inference takes?"
            if age > 0.0
            else f"the stamp is {-age:.3f} s in the future",
        )
    lead = chunk.t_ref - chunk.stamp
    if not -params.max_future_s <= lead <= params.max_lead_s:
        raise ChunkRefused(Refusal.IMPLAUSIBLE_TIME, f"t_ref is {lead:.3f} s after the stamp")


def _with_proprio(chunk: Chunk) -> tuple[Array, Array]:
    """Positions (H + 1, 3) and rotations (H + 1, 3, 3), the pose at t_ref first."""
    first_position, first_rotation = chunk.positions[0], chunk.rotations[0]
    proprio = np.array(chunk.provenance.proprio, dtype=np.float64)
    # Twenty zeros are how a message says that there is no proprio.
    if proprio.any():
        if proprio.shape != (ee6d.DIM,):
            raise ChunkRefused(Refusal.SHAPE, f"proprio has shape {proprio.shape}")
        try:
            first_position, first_rotation, _ = ee6d.unpack(proprio)
        except ee6d.DegenerateRotation as error:
            raise ChunkRefused(Refusal.DEGENERATE_ROTATION, f"proprio: {error}") from error
    return (
        np.concatenate([first_position[None], chunk.positions]),
        np.concatenate([first_rotation[None], chunk.rotations]),
    )


def _check_steps(positions: Array, rotations: Array, step_dt: float, params: ChunkParams) -> None:
    metres = np.linalg.norm(np.diff(positions, axis=0), axis=-1)
    cosine = 0.5 * (np.einsum("nij,nij->n", rotations[:-1], rotations[1:]) - 1.0)
    radians = np.arccos(np.clip(cosine, -1.0, 1.0))
    for values, bound, unit in (
        (metres, params.max_linear_speed * step_dt + params.step_slack_m, "m"),
        (
            radians,
            min(params.max_angular_speed * step_dt + params.step_slack_rad, _LARGEST_TURN),
            "rad",
        ),
    ):
        worst = int(np.argmax(values))
        if values[worst] > bound:
            raise ChunkRefused(
                Refusal.IMPLAUSIBLE_STEP,
                f"{values[worst]:.3f} {unit} to step {worst}, allowed are {bound:.3f} {unit}",
            )
