"""Action chunks and plans: what the policy proposes and what the scheduler commands.

Both are canonical whatever checkpoint made them: poses of `ee_frame` in `frame_id`, metres,
rotation matrices, gripper = probability of closed. Times are seconds on the ROS clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xvla_ros import ee6d
from xvla_ros.geometry import Pose, interpolate

Array = NDArray[np.float64]


class Refusal(str, Enum):
    """Why a chunk is not executed. A refused chunk changes nothing but its counter."""

    SHAPE = "the arrays do not fit the stated horizon"
    NON_FINITE = "a number is NaN or infinite"
    DEGENERATE_ROTATION = "a rotation is degenerate"
    IMPLAUSIBLE_STEP = "two steps are further apart than the arm may move"
    IMPLAUSIBLE_TIME = "the step time or a time stamp is not plausible"
    CLOCKS_DIFFER = "clocks differ: the stamp is implausible against now"
    WRONG_FRAME = "the chunk is for another frame"
    OLD_EPOCH = "the chunk belongs to another epoch"
    OUT_OF_ORDER = "the chunk is not newer than the one in execution"
    EXPIRED = "nothing of the chunk lies in the future"
    JUMP = "the chunk starts too far from what is being commanded"
    STOPPED = "the scheduler is stopped"
    BUSY = "the scheduler takes no chunk now"


class ChunkRefused(ValueError):
    """A chunk that must not be executed, with its reason."""

    def __init__(self, reason: Refusal, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Provenance:
    """Where a chunk came from; carried along so that a prediction can be repeated."""

    view_stamps: tuple[float, ...] = ()
    """Stamp of the image in each view slot, seconds; NaN for an empty slot."""
    proprio: tuple[float, ...] = ()
    """The 20 canonical numbers the policy was given."""
    proprio_source: str = "measured"
    noise_seed: int = 0
    time_grid: tuple[float, ...] = ()
    approximation: str = "exact"
    model_hash: str = ""
    instruction: str = ""
    domain_id: int = 0
    prefix: tuple[float, ...] = ()
    """Committed steps that the denoiser was given: canonical numbers, row-major (n, 20)."""
    prefix_weights: tuple[float, ...] = ()
    """(n,), how firmly each was imposed."""
    inference_start: float = 0.0
    inference_end: float = 0.0


@dataclass(frozen=True, eq=False)
class Chunk:
    """H poses with their grippers; step k is due at t_ref + (k + 1) * step_dt."""

    stamp: float
    """Reference time of the observation, seconds."""
    t_ref: float
    """Time from which the steps count, seconds."""
    step_dt: float
    """Seconds between two steps; belongs to the checkpoint's domain."""
    positions: Array
    """(H, 3), metres."""
    rotations: Array
    """(H, 3, 3)."""
    gripper: Array
    """(H,), probability of closed."""
    frame_id: str = "base_link"
    ee_frame: str = "ee_gripper_link"
    gripper_threshold: float = 0.0
    """Close above this probability; 0 leaves it to the scheduler's parameter."""
    gripper_open_below: float = 0.0
    """Open below this probability; 0 leaves it to the scheduler's parameter."""
    sequence: int = 0
    epoch: int = 0
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return len(self.positions)

    def pose(self, step: int) -> Pose:
        """Pose of a step, counted from 0."""
        return Pose(self.positions[step], self.rotations[step])

    def due(self, step: int) -> float:
        """Time in seconds at which a step is due."""
        return self.t_ref + (step + 1) * self.step_dt

    def ee6d(self) -> Array:
        """The canonical numbers (H, 20)."""
        return ee6d.pack(self.positions, self.rotations, self.gripper)

    @staticmethod
    def from_ee6d(
        values: ArrayLike, *, stamp: float, t_ref: float, step_dt: float, **fields: object
    ) -> Chunk:
        """A chunk of canonical numbers (H, 20).

        Raises:
            ChunkRefused: wrong shape, a number that is not finite, a degenerate rotation.
        """
        v = np.asarray(values, dtype=np.float64)
        if v.ndim != 2 or v.shape[0] == 0 or v.shape[1] != ee6d.DIM:
            raise ChunkRefused(Refusal.SHAPE, f"expected (horizon, {ee6d.DIM}), got {v.shape}")
        if not np.isfinite(v).all():
            step, column = np.argwhere(~np.isfinite(v))[0]
            raise ChunkRefused(Refusal.NON_FINITE, f"step {step}, number {column}")
        if not all(np.isfinite([stamp, t_ref, step_dt])) or step_dt <= 0.0:
            raise ChunkRefused(
                Refusal.IMPLAUSIBLE_TIME, f"stamp {stamp}, t_ref {t_ref}, step_dt {step_dt}"
            )
        try:
            positions, rotations, gripper = ee6d.unpack(v)
        except ee6d.DegenerateRotation as error:
            raise ChunkRefused(Refusal.DEGENERATE_ROTATION, str(error)) from error
        return Chunk(
            stamp,
            t_ref,
            step_dt,
            positions,
            rotations,
            gripper,
            **fields,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """What the scheduler will command if no other chunk arrives: pose i at start + i * dt."""

    start: float
    dt: float
    poses: tuple[Pose, ...]
    gripper: tuple[float, ...]
    """0 = open, 1 = closed, as commanded at each pose."""
    sequence: int = 0
    epoch: int = 0
    latency: float = 0.0
    """Measured p95 from observation stamp to chunk arrival, seconds; 0 before the first."""
    holding: bool = True
    actuating: bool = False
    strategy: str = ""
    """How chunks are joined; empty where an older scheduler does not say."""

    def at(self, time: float) -> tuple[Pose, float]:
        """Commanded pose and gripper at a time; the ends are held outside the plan."""
        x = (time - self.start) / self.dt
        last = len(self.poses) - 1
        if x <= 0.0 or last == 0:
            return self.poses[0], self.gripper[0]
        if x >= last:
            return self.poses[last], self.gripper[last]
        i = int(x)
        return interpolate(self.poses[i], self.poses[i + 1], x - i), self.gripper[i]


class PlanHistory:
    """The plans of the last seconds, so that the command at a past stamp can be asked for."""

    def __init__(self, keep_s: float = 2.0) -> None:
        self._keep_s = keep_s
        self._plans: list[Plan] = []

    @property
    def latest(self) -> Plan | None:
        """The newest plan."""
        return self._plans[-1] if self._plans else None

    def add(self, plan: Plan) -> None:
        """Keeps a plan; an older epoch or a clock that went back clears what was kept."""
        if self._plans and (
            plan.epoch != self._plans[-1].epoch or plan.start < self._plans[-1].start
        ):
            self._plans.clear()
        self._plans.append(plan)
        horizon = plan.start - self._keep_s
        while len(self._plans) > 1 and self._plans[1].start < horizon:
            self._plans.pop(0)

    def clear(self) -> None:
        """Forgets every plan."""
        self._plans.clear()

    def commanded(self, time: float) -> tuple[Pose, float] | None:
        """Pose and gripper commanded at a time, by the newest plan that had started by then."""
        for plan in reversed(self._plans):
            if plan.start <= time:
                return plan.at(time)
        return self._plans[0].at(time) if self._plans else None
