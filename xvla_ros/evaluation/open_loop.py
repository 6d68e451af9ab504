"""What a policy would have done on a recording: the offline engine.

Deterministic: time is the recording's, the noise of a prediction follows from the stamp of its
observation. Memory does not grow with the recording: predictions wait only until the arm's way
through their chunk is known.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from xvla_ros.chunk import Chunk, ChunkRefused
from xvla_ros.evaluation.episodes import Episode, EpisodeSplitter
from xvla_ros.evaluation.events import Event, ImageSeen, InstructionSeen, JointsSeen, StoredImage
from xvla_ros.evaluation.events import Recording as EventRecording
from xvla_ros.evaluation.limit_check import LimitChecker
from xvla_ros.evaluation.outcome import Judge, Moment, Outcome
from xvla_ros.evaluation.truth import JointReader, MotionTrack
from xvla_ros.images import ImageError
from xvla_ros.observation import Limits, Observation, ViewSpec
from xvla_ros.runtime.interface import Policy, PredictionError
from xvla_ros.runtime.observer import Frames, Observer
from xvla_ros.runtime.prediction import Request, predict_chunk
from xvla_ros.runtime.proprio import ProprioParams
from xvla_ros.scheduler.arm_io import JointMeasurement
from xvla_ros.scheduler.params import ExecutorParams, SchedulerParams

Array = NDArray[np.float64]
Rgb = NDArray[np.uint8]

_SEEDS = 2**31
# Joint states kept for velocities and for images that come late.
_HISTORY_S = 2.0
NO_INSTRUCTION = "there is no instruction"
BAD_IMAGE = "an image cannot be decoded"


@dataclass(frozen=True)
class OpenLoopSettings:
    """How a recording is evaluated."""

    policy_rate_hz: float = 2.0
    seeds: int = 1
    """Chunks for each observation, each from other noise."""
    seed: int = 0
    """Other seeds give other noise everywhere."""
    fixed_seed: int | None = None
    """Seed of every first chunk, as a node whose `seed` is set has it."""
    instruction: str = ""
    """Goes before what the recording says."""
    limits: Limits = field(default_factory=Limits)
    episode_gap_s: float = 2.0
    episodes_told: bool = False
    """The recording names every episode; see `EpisodeSplitter`."""
    truth_max_gap_s: float = 0.5
    velocity_window_s: float = 0.2
    closed_above: float = 0.2
    baselines: bool = True
    scheduler: SchedulerParams = field(default_factory=SchedulerParams)
    executor: ExecutorParams = field(default_factory=ExecutorParams)


def noise_seed(base: int, stamp: float, index: int) -> int:
    """Seed of the noise of the `index`-th chunk of an observation.

    It depends on the stamp and on nothing else of a run, so that two runs with other parameters
    are compared under the same noise.
    """
    return zlib.crc32(f"{base}/{stamp:.6f}/{index}".encode()) % _SEEDS


class OpenLoop:
    """One policy on one recording.

    Attributes:
        episodes: those with predictions, the last one still growing.
        no_observation: why inferences could not start, and how often.

    Args:
        policy: used by the calling thread alone.
        recording: read once.
        settings: see `OpenLoopSettings`.
        skip: indices of observations whose outcomes are known already. Only the last of them is
            predicted again, as the chunk before the first new one.
    """

    def __init__(
        self,
        policy: Policy,
        recording: EventRecording,
        settings: OpenLoopSettings,
        *,
        skip: Collection[int] = (),
    ) -> None:
        self._policy = policy
        self._recording = recording
        self._settings = settings
        self._skip = frozenset(skip)
        self._last_skipped = max(self._skip, default=-1)
        self._instruction = settings.instruction or recording.first_instruction
        self._observer = self._make_observer()
        self._track = MotionTrack(settings.truth_max_gap_s)
        self._joint_reader = JointReader()
        self._splitter = EpisodeSplitter(
            settings.episode_gap_s, recording.first_instruction, settings.episodes_told
        )
        self._limits = LimitChecker(settings.scheduler, settings.executor)
        self._judge = Judge(
            policy.step_dt,
            settings.scheduler.gripper,
            settings.closed_above,
            settings.velocity_window_s,
            settings.baselines,
        )
        self._start = (recording.start_ns - recording.shift_ns) * 1e-9
        self._frames = Frames(settings.scheduler.base_frame, settings.scheduler.ee_frame)
        self._pending: deque[Moment] = deque()
        self._now = -np.inf
        self._next_tick: float | None = None
        self._index = 0
        self._mark = 0.0
        self._episode: Episode | None = None
        self.episodes: list[Episode] = []
        self.no_observation: Counter[str] = Counter()
        self.warnings: list[str] = []

    @property
    def progress(self) -> float:
        """Fraction of the recording that has passed."""
        span = self._recording.duration
        return min(max((self._now - self._start) / span, 0.0), 1.0) if span > 0.0 else 0.0

    @property
    def received(self) -> dict[str, tuple[int, int]]:
        """Messages received and dropped by topic."""
        return self._observer.buffer.counts()

    def run(self, progress: Callable[[float], None] | None = None) -> Iterator[Outcome]:
        """The outcomes in order, each once the arm's way through its chunk is known."""
        self._mark = time.perf_counter()
        for event in self._recording.events():
            now = max(event.time, self._now)
            self._tick_until(now)
            self._now = now
            row = self._read(event)
            if self._splitter.begins(event, None if row is None else row[:6]):
                yield from self._end_episode()
            if self._episode is None:
                self._begin_episode(now)
            self._take(event, now, row)
            self._try(now)
            yield from self._ripe(self._track.latest)
            if progress is not None:
                progress(self.progress)
        yield from self._end_episode()
        self.warnings.extend(self._observer.buffer.take_warnings())

    def _make_observer(self) -> Observer[StoredImage]:
        views: list[ViewSpec | None] = [None] * self._policy.num_views
        rotated = [False] * self._policy.num_views
        for view in self._recording.views:
            views[view.slot] = ViewSpec(view.topic, view.required)
            rotated[view.slot] = view.rotate_180
        return Observer(
            views,
            rotated,
            _decode,
            self._recording.joints_topic,
            self._settings.limits,
            # Nothing is commanded while a recording is looked at.
            ProprioParams(source="measured"),
        )

    def _begin_episode(self, now: float) -> None:
        index = len(self.episodes)
        self._episode = Episode(index, now, now, self._instruction)
        self._next_tick = now

    def _end_episode(self) -> Iterator[Outcome]:
        """What has been predicted so far has no future beyond this point."""
        yield from self._ripe(np.inf)
        self._track.clear()
        self.warnings.extend(self._observer.buffer.take_warnings())
        self._observer.buffer.clear()
        self._observer.restart()
        self._judge.earlier = None
        self._episode = None

    def _read(self, event: Event) -> Array | None:
        """Row of a joint state that has all of the arm."""
        if not isinstance(event, JointsSeen):
            return None
        return self._joint_reader.row(event.names, event.positions)

    def _take(self, event: Event, now: float, row: Array | None) -> None:
        assert self._episode is not None
        self._episode.end = now
        if isinstance(event, ImageSeen):
            self._observer.buffer.add_image(event.slot, event.stamp, now, event.image)
        elif isinstance(event, JointsSeen):
            self._observer.buffer.add_joints(event.stamp, now, event.names, event.positions)
            if row is not None:
                self._track.add(event.stamp if event.stamp > 0.0 else now, row)
        elif isinstance(event, InstructionSeen) and not self._settings.instruction:
            self._instruction = event.text
            if not self._episode.predictions:
                self._episode.instruction = event.text

    def _tick_until(self, now: float) -> None:
        """The policy's timer, as long as it fires before or at `now`."""
        if self._next_tick is None or self._episode is None:
            return
        # In a pause that ends the episode nothing is looked at.
        end = min(now, self._now + self._settings.episode_gap_s)
        period = 1.0 / self._settings.policy_rate_hz
        while self._next_tick <= end:
            tick, self._next_tick = self._next_tick, self._next_tick + period
            self._observer.ask()
            if not self._try(tick):
                self._note_problem(tick)
        self._next_tick = max(self._next_tick, now)

    def _note_problem(self, now: float) -> None:
        if not self._instruction:
            self.no_observation[NO_INSTRUCTION] += 1
            return
        problems = self._observer.buffer.problems(now)
        if problems:
            self.no_observation[f"{problems[0].topic}: {problems[0].reason.value}"] += 1

    def _try(self, now: float) -> bool:
        """Predicts if something is due and there is a new observation."""
        if not self._instruction:
            return False
        observation = self._observer.look(now)
        if observation is None:
            return False
        self._predict(observation, now)
        return True

    def _predict(self, observation: Observation[StoredImage], now: float) -> None:
        episode = self._episode
        assert episode is not None
        index, self._index = self._index, self._index + 1
        if index in self._skip and index != self._last_skipped:
            self._count(episode)
            return
        request = self._observer.request(
            observation,
            now,
            policy=self._policy,
            instruction=self._instruction,
            seed=self._seed(observation.stamp, 0),
            sequence=index + 1,
            frames=self._frames,
        )
        try:
            request = replace(request, images=self._observer.rgb(observation))
            chunks = [self._chunk(request, k) for k in range(self._settings.seeds)]
        except ImageError as error:
            self.no_observation[f"{BAD_IMAGE}: {error}"] += 1
            return
        except (PredictionError, ChunkRefused) as error:
            self.no_observation[f"no chunk: {error}"] += 1
            return
        self._count(episode)
        closed = self._track.joints(min(observation.stamp, self._track.latest))[6]
        measured = JointMeasurement(
            observation.stamp,
            observation.joints,
            None,
            float(closed) if np.isfinite(closed) else None,
        )
        stamps = tuple(stamp_ns(image) for image in observation.images)
        reference = next(
            ns
            for ns, stamp in zip(stamps, observation.view_stamps, strict=True)
            if stamp == observation.stamp
        )
        network = tuple(c.provenance.inference_end - c.provenance.inference_start for c in chunks)
        limits = self._limits.check(chunks[0], measured)
        mark, self._mark = self._mark, time.perf_counter()
        self._pending.append(
            Moment(
                index=index,
                episode=episode.index,
                stamp_ns=reference,
                time=observation.stamp - self._start,
                view_stamps_ns=stamps,
                view_log_ns=tuple(0 if i is None else i.log_ns for i in observation.images),
                start=request.proprio.pose,
                chunks=tuple(chunks),
                network_s=network,
                overhead_s=self._mark - mark - sum(network),
                limits=limits,
            )
        )

    def _seed(self, stamp: float, index: int) -> int:
        if self._settings.fixed_seed is not None:
            return (self._settings.fixed_seed + index) % _SEEDS
        return noise_seed(self._settings.seed, stamp, index)

    def _chunk(self, request: Request, index: int) -> Chunk:
        seeded = replace(request, seed=self._seed(request.stamp, index))
        return predict_chunk(self._policy, seeded, time.perf_counter)

    def _count(self, episode: Episode) -> None:
        if not episode.predictions:
            self.episodes.append(episode)
        episode.predictions += 1

    def _ripe(self, known_until: float) -> Iterator[Outcome]:
        """The outcomes of moments whose chunk has ended by a time."""
        while self._pending and self._pending[0].end <= known_until:
            outcome = self._judge.judge(self._pending.popleft(), self._track)
            if outcome.moment.index not in self._skip:
                yield outcome
        oldest = self._pending[0].stamp if self._pending else self._track.latest - _HISTORY_S
        self._track.forget(oldest - _HISTORY_S)


def _decode(image: StoredImage, _topic: str) -> Rgb:
    return image.decode()


def stamp_ns(image: StoredImage | None) -> int:
    """The stamp by which an image is known: its own, or that of its arrival."""
    if image is None:
        return 0
    return image.stamp_ns if image.stamp_ns > 0 else image.log_ns
