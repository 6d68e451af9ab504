"""A live replay beside the offline engine: the same observations, the same actions?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk
from xvla_ros.evaluation.events import Recording
from xvla_ros.evaluation.open_loop import OpenLoop, OpenLoopSettings
from xvla_ros.evaluation.outcome import Moment, Outcome
from xvla_ros.geometry import Pose
from xvla_ros.runtime.interface import Policy
from xvla_ros.runtime.prediction import Request

# A chunk travels as float32.
_SAME = 1e-5
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LiveChunk:
    """A chunk that a policy node has published."""

    chunk: Chunk
    view_stamps_ns: tuple[int, ...]
    """By view slot, exactly; 0 = none."""


@dataclass(eq=False)
class Agreement:
    """How far a live replay and the offline engine agree."""

    live: int = 0
    """Chunks that the policy node has published."""
    found: int = 0
    """Those for which the engine has an observation of the same stamp."""
    same_views: int = 0
    same_proprio: int = 0
    later_joints: int = 0
    """Those whose proprio differs because other joint states had arrived by then: an observation
    interpolates at its stamp where the next one is there, and holds the last one where not."""
    same_actions: int = 0
    """Those in which the same images, proprio and noise give the same actions."""
    largest_difference: float = 0.0
    """Between the actions of such chunks, in metres or in elements of a rotation matrix."""
    others: list[str] = field(default_factory=list)
    """What is not the same, one line each."""

    @property
    def explained(self) -> int:
        """Chunks with the same images and the same proprio, or one that is explained."""
        return self.same_proprio + self.later_joints

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "live_chunks": self.live,
            "observations_found": self.found,
            "same_views": self.same_views,
            "same_proprio": self.same_proprio,
            "later_joints": self.later_joints,
            "same_actions": self.same_actions,
            "largest_difference": self.largest_difference,
            "others": self.others,
        }

    def line(self) -> str:
        """One line for a person."""
        return (
            f"live and offline: {self.found} of {self.live} observations found again, "
            f"{self.same_views} with the same images, {self.same_proprio} with the same proprio "
            f"({self.later_joints} more with a joint state that had or had not arrived), "
            f"{self.same_actions} with the same actions"
        )


class ReplayLoop(OpenLoop):
    """Judges the chunks of a live replay, and repeats each prediction to compare it.

    Args:
        policy: that of the node, loaded again.
        recording: that was played.
        settings: those of the node.
        live: chunks by stamp.
        agreement: filled while the loop runs.
        skip: see `OpenLoop`.
    """

    def __init__(
        self,
        policy: Policy,
        recording: Recording,
        settings: OpenLoopSettings,
        *,
        live: Mapping[float, LiveChunk],
        agreement: Agreement,
        skip: Any = (),
    ) -> None:
        seeds = {stamp: one.chunk.provenance.noise_seed for stamp, one in live.items()}
        super().__init__(policy, recording, settings, skip=skip, only=seeds)
        self._live = live
        self._agreement = agreement
        self._repeated: dict[float, Chunk] = {}
        self._own: dict[float, Pose] = {}
        agreement.live = len(live)

    def run(self, progress: Callable[[float], None] | None = None) -> Iterator[Outcome]:
        """See `OpenLoop`; the outcomes are those of the live chunks."""
        for outcome in super().run(progress):
            self._compare(outcome.moment)
            yield outcome

    def _chunk(self, request: Request, index: int) -> Chunk:
        live = self._live[request.stamp].chunk
        given = np.asarray(live.provenance.proprio, dtype=np.float64)
        own = request.proprio.pose
        self._own[request.stamp] = own
        if not _same_pose(own, given):
            # To know whether the same input gives the same actions, the input must be the same.
            position, rotation, _ = ee6d.unpack(given)
            pose = Pose(position, rotation)
            request = replace(request, proprio=replace(request.proprio, pose=pose))
        self._repeated[request.stamp] = super()._chunk(request, index)
        return live

    def _compare(self, moment: Moment) -> None:
        """Compares what was observed and predicted at one stamp."""
        live, again = self._live[moment.stamp], self._repeated.pop(moment.stamp)
        own = self._own.pop(moment.stamp)
        report = self._agreement
        report.found += 1
        if live.view_stamps_ns[: len(moment.view_stamps_ns)] != moment.view_stamps_ns:
            report.others.append(f"{moment.time:.3f} s: other images")
            return
        report.same_views += 1
        given = np.asarray(live.chunk.provenance.proprio, dtype=np.float64)
        if _same_pose(own, given):
            report.same_proprio += 1
        elif self._was_there(given, moment.stamp):
            report.later_joints += 1
        else:
            report.others.append(f"{moment.time:.3f} s: other proprio")
        apart = _difference(live.chunk, again)
        report.largest_difference = max(report.largest_difference, apart)
        report.same_actions += apart <= _SAME

    def _was_there(self, given: Array, stamp: float) -> bool:
        """Whether a proprio is a pose that an observation may take for the one at a stamp."""
        oldest = stamp - self._settings.limits.joints_max_age
        poses = self._track.poses([stamp, *self._track.stamps(oldest, stamp)])
        return any(
            known and _same_pose(Pose(position, rotation), given)
            for known, position, rotation in zip(
                poses.known, poses.positions, poses.rotations, strict=True
            )
        )


def _same_pose(pose: Pose, proprio: Array) -> bool:
    numbers = ee6d.pack(pose.position, pose.rotation, 0.0)
    return bool(np.abs(numbers[:9] - proprio[:9]).max() <= _SAME)


def _difference(first: Chunk, second: Chunk) -> float:
    if first.horizon != second.horizon:
        return float("inf")
    return max(
        float(np.abs(first.positions - second.positions).max()),
        float(np.abs(first.rotations - second.rotations).max()),
        float(np.abs(first.gripper - second.gripper).max()),
    )
