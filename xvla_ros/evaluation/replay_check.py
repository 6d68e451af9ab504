"""A live replay beside the offline engine: the same observations, the same actions?"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk
from xvla_ros.evaluation.events import Recording, StoredImage
from xvla_ros.evaluation.open_loop import OpenLoop, OpenLoopSettings, stamp_ns
from xvla_ros.evaluation.outcome import Moment, Outcome
from xvla_ros.geometry import Pose
from xvla_ros.observation import Observation, ObservationRefused
from xvla_ros.runtime.inpainting import of_provenance
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
    lost_joints: int = 0
    """Those whose proprio lies between two recorded joint states around the stamp that are not the
    nearest: the node has not got the nearer ones."""
    same_actions: int = 0
    """Those in which the same images, proprio and noise give the same actions."""
    largest_difference: float = 0.0
    """Between the actions of such chunks, in metres or in elements of a rotation matrix."""
    others: list[str] = field(default_factory=list)
    """What is not the same, one line each."""

    @property
    def explained(self) -> int:
        """Chunks with the same images and the same proprio, or one that is explained."""
        return self.same_proprio + self.lost_joints

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "live_chunks": self.live,
            "observations_found": self.found,
            "same_views": self.same_views,
            "same_proprio": self.same_proprio,
            "lost_joints": self.lost_joints,
            "same_actions": self.same_actions,
            "largest_difference": self.largest_difference,
            "others": self.others,
        }

    def line(self) -> str:
        """One line for a person."""
        return (
            f"live and offline: {self.found} of {self.live} observations found again, "
            f"{self.same_views} with the same images, {self.same_proprio} with the same proprio "
            f"({self.lost_joints} more without a joint state that the node did not get), "
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
        super().__init__(policy, recording, settings, skip=skip)
        self._live = live
        self._agreement = agreement
        self._waiting = deque(sorted(live))
        self._seen: dict[float, Observation[StoredImage]] = {}
        self._repeated: dict[float, Chunk] = {}
        self._own: dict[float, Pose] = {}
        self._compared: set[float] = set()
        agreement.live = len(live)

    def run(self, progress: Callable[[float], None] | None = None) -> Iterator[Outcome]:
        """See `OpenLoop`; the outcomes are those of the live chunks."""
        for outcome in super().run(progress):
            self._compare(outcome.moment)
            yield outcome
        for stamp in sorted(self._live.keys() - self._compared):
            time = stamp - self._start
            self._agreement.others.append(f"{time:.3f} s: not observed in the recording")

    def _tick_until(self, now: float) -> None:
        """When to look has been the node's to say."""

    def _try(self, now: float) -> bool:
        """Predicts what the node has, once the same images have come.

        When the node looked is not known to the message. Which images belong to a reference time
        depends on it, where cameras are not in step: what is asked for is a moment at which
        this engine sees the same.
        """
        for stamp in self._waiting:
            if stamp > now:
                break
            if stamp not in self._seen or not self._same_views(self._seen[stamp]):
                with contextlib.suppress(ObservationRefused):
                    self._seen[stamp] = self._observer.buffer.snapshot(now, stamp)
        return self._repeat(now, self._settings.limits.max_image_age)

    def _repeat(self, now: float, patience: float) -> bool:
        """Predicts in the order of the stamps; whether anything was."""
        any_one = False
        while self._waiting and (stamp := self._waiting[0]) <= now:
            seen = self._seen.get(stamp)
            if (seen is None or not self._same_views(seen)) and now < stamp + patience:
                break
            self._waiting.popleft()
            self._seen.pop(stamp, None)
            if seen is not None:
                self._predict(seen, now)
                any_one = True
        return any_one

    def _end_episode(self) -> Iterator[Outcome]:
        """What has been seen is repeated first: no other images of its time will come."""
        self._repeat(self._now, 0.0)
        yield from super()._end_episode()

    def _same_views(self, seen: Observation[StoredImage]) -> bool:
        stamps = tuple(map(stamp_ns, seen.images))
        return self._live[seen.stamp].view_stamps_ns[: len(stamps)] == stamps

    def _seed(self, stamp: float, index: int) -> int:
        return self._live[stamp].chunk.provenance.noise_seed

    def _chunk(self, request: Request, index: int) -> Chunk:
        live = self._live[request.stamp].chunk
        given = np.asarray(live.provenance.proprio, dtype=np.float64)
        own = request.proprio.pose
        self._own[request.stamp] = own
        # To know whether the same input gives the same actions, the input must be the same.
        request = replace(
            request,
            instruction=live.provenance.instruction,
            prefix=of_provenance(live.provenance),
        )
        if not _same_pose(own, given):
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
        self._compared.add(moment.stamp)
        report.found += 1
        if live.view_stamps_ns[: len(moment.view_stamps_ns)] != moment.view_stamps_ns:
            report.others.append(f"{moment.time:.3f} s: other images")
            return
        report.same_views += 1
        given = np.asarray(live.chunk.provenance.proprio, dtype=np.float64)
        if _same_pose(own, given):
            report.same_proprio += 1
        elif self._lost_joints(given, moment.stamp):
            report.lost_joints += 1
        else:
            report.others.append(f"{moment.time:.3f} s: other proprio")
        apart = _difference(live.chunk, again)
        report.largest_difference = max(report.largest_difference, apart)
        report.same_actions += apart <= _SAME

    def _lost_joints(self, given: Array, stamp: float) -> bool:
        """Whether a proprio lies between two joint states that an observation may take."""
        longest = self._settings.limits.joints_max_age
        before = self._track.stamps(stamp - longest, stamp)
        after = self._track.stamps(stamp, stamp + longest)
        return any(
            _same_pose(self._track.pose_between(first, last, stamp), given)
            for first in before
            for last in after
            if last - first <= longest
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
