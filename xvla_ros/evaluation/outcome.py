"""One observation's predictions and how they compare with what the arm then did."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xvla_ros.chunk import Chunk
from xvla_ros.evaluation import baselines
from xvla_ros.evaluation import open_loop_metrics as metrics
from xvla_ros.evaluation.baselines import Earlier
from xvla_ros.evaluation.limit_check import LimitReport
from xvla_ros.evaluation.open_loop_metrics import Errors, Motion
from xvla_ros.evaluation.truth import MotionTrack, Poses
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.params import GripperParams

Array = NDArray[np.float64]

POLICY = "policy"
METHODS = (POLICY, *baselines.BASELINES)

# A velocity over less than this is noise.
_SHORTEST_WINDOW_S = 0.03


@dataclass(frozen=True, eq=False)
class Moment:
    """An observation with its chunks, before the future is known."""

    index: int
    """In the recording."""
    episode: int
    stamp_ns: int
    time: float
    """Seconds since the recording's first message."""
    view_stamps_ns: tuple[int, ...]
    """By view slot; 0 = no image."""
    view_log_ns: tuple[int, ...]
    """Time under which the recording holds the image; 0 = no image."""
    start: Pose
    """Measured, as the policy was told."""
    chunks: tuple[Chunk, ...]
    """By seed."""
    network_s: tuple[float, ...]
    """By seed."""
    overhead_s: float
    """Everything else since the moment before: reading, decoding, judging, writing."""
    limits: LimitReport

    @property
    def stamp(self) -> float:
        """Reference time of the observation, seconds."""
        return self.chunks[0].stamp

    @property
    def end(self) -> float:
        """When the last step is due, seconds."""
        return self.chunks[0].due(self.chunks[0].horizon - 1)


@dataclass(frozen=True, eq=False)
class Judged:
    """One motion and its errors."""

    method: str
    seed_index: int
    noise_seed: int
    network_s: float | None
    motion: Motion
    errors: Errors


@dataclass(frozen=True, eq=False)
class Outcome:
    """Everything that is known of one observation in the end."""

    moment: Moment
    truth: Poses
    """At the steps."""
    judged: tuple[Judged, ...]
    """The policy's chunks by seed, then the baselines."""
    spread: tuple[Array, Array] | None
    """mm (H,) and degrees (H,) over the seeds; None for one seed."""


@dataclass(eq=False)
class Judge:
    """Compares moments with the truth, in their order.

    Attributes:
        earlier: the chunk of the moment before, None at the beginning of an episode.
    """

    step_dt: float
    gripper: GripperParams = field(default_factory=GripperParams)
    closed_above: float = 0.2
    velocity_window_s: float = 0.2
    baselines: bool = True
    earlier: Earlier | None = None

    def judge(self, moment: Moment, track: MotionTrack) -> Outcome:
        """The outcome of a moment whose future the track holds as far as there is one."""
        horizon = moment.chunks[0].horizon
        times = moment.stamp + metrics.step_times(horizon, self.step_dt)
        truth = track.poses(times)
        second = track.poses([moment.stamp + metrics.ONE_SECOND])
        closed = track.joints(min(moment.stamp, track.latest))[6]
        gripper = float(closed > self.closed_above)
        motions = [self._motion(chunk, gripper) for chunk in moment.chunks]

        def errors(motion: Motion) -> Errors:
            return metrics.errors(
                motion,
                moment.start,
                self.step_dt,
                (truth.positions, truth.rotations, truth.closed),
                (second.positions[0], second.rotations[0], float(second.closed[0])),
                self.closed_above,
            )

        judged = [
            Judged(
                POLICY,
                k,
                chunk.provenance.noise_seed,
                moment.network_s[k],
                motion,
                errors(motion),
            )
            for k, (chunk, motion) in enumerate(zip(moment.chunks, motions, strict=True))
        ]
        for name, motion in self._baselines(moment, track, gripper, horizon):
            judged.append(Judged(name, 0, 0, None, motion, errors(motion)))
        self.earlier = Earlier(moment.stamp, moment.start, motions[0])
        return Outcome(moment, truth, tuple(judged), _spread(motions))

    def _motion(self, chunk: Chunk, gripper: float) -> Motion:
        command = metrics.gripper_commands(
            chunk.gripper,
            gripper,
            self.step_dt,
            chunk.gripper_threshold,
            self.gripper,
            chunk.gripper_open_below,
        )
        return Motion(chunk.positions, chunk.rotations, chunk.gripper, command)

    def _baselines(
        self, moment: Moment, track: MotionTrack, gripper: float, horizon: int
    ) -> list[tuple[str, Motion]]:
        if not self.baselines:
            return []
        before, elapsed = self._before(moment.stamp, track)
        found = [
            (baselines.HOLD_STILL, baselines.hold_still(moment.start, gripper, horizon)),
            (
                baselines.CONSTANT_VELOCITY,
                baselines.constant_velocity(
                    moment.start, before, elapsed, gripper, horizon, self.step_dt
                ),
            ),
        ]
        if self.earlier is not None:
            motion = baselines.previous_chunk(self.earlier, moment.stamp, self.step_dt)
            found.append((baselines.PREVIOUS_CHUNK, motion))
        return found

    def _before(self, stamp: float, track: MotionTrack) -> tuple[Pose | None, float]:
        """The measured pose a window ago, or as long ago as the track goes back."""
        start = max(stamp - self.velocity_window_s, track.earliest)
        elapsed = stamp - start
        poses = track.poses([start])
        if elapsed < _SHORTEST_WINDOW_S or not poses.known[0]:
            return None, 0.0
        return Pose(poses.positions[0], poses.rotations[0]), elapsed


def _spread(motions: list[Motion]) -> tuple[Array, Array] | None:
    if len(motions) < 2:
        return None
    return metrics.spread(
        np.stack([motion.positions for motion in motions]),
        np.stack([motion.rotations for motion in motions]),
    )
