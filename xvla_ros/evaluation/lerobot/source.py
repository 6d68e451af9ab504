"""A LeRobot dataset as a recording: its frames become events.

A dataset has no clock; its episodes are laid end to end at its frame rate, from second 1 on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xvla_ros.evaluation.bag.discovery import NO_CAMERA, View, Wanted, camera_rank
from xvla_ros.evaluation.bag.files import BagError
from xvla_ros.evaluation.events import (
    EpisodeSeen,
    Event,
    ImageSeen,
    InstructionSeen,
    JointsSeen,
    StoredImage,
)
from xvla_ros.evaluation.lerobot.frames import Rgb, VideoFrames, stored
from xvla_ros.evaluation.lerobot.layout import IMAGE, Dataset, EpisodeFiles
from xvla_ros.evaluation.lerobot.state import NAMES, STATE, JointSolver, check_feature
from xvla_ros.images import ImageError
from xvla_ros.observation import Limits

# A stamp of zero means that there is none.
_START_NS = 1_000_000_000
_TASK = "task_index"
# BridgeData's conversions fill the place of a camera that an episode did not have with zeros.
_BLACK = 8
_NAMED_EPISODES = 10
_NAMED_REASONS = 10

Decoder = Callable[[int], Rgb]
"""RGB of an episode's frame by number."""


class LeRobotRecording:
    """The events of a dataset; an episode that cannot be read is left out, with a warning.

    Args:
        dataset: its description.
        views: the cameras; see `find_views`.
        notes: warnings known before.

    Raises:
        BagError: its states are not BridgeData's.
    """

    def __init__(self, dataset: Dataset, views: Sequence[View], notes: Sequence[str] = ()) -> None:
        self._dataset = dataset
        self._solver = JointSolver()
        self._videos = {view.topic: VideoFrames(dataset) for view in views}
        self._skipped: dict[str, list[int]] = {}
        self._frames: Counter[bool] = Counter()
        self._dark: Counter[str] = Counter()
        own = (check_feature(dataset.features), _robot(dataset))
        self._notes = [*(note for note in own if note), *notes]
        # A camera that an episode did not have is masked, not awaited; the main one must be there.
        self.views = (*views[:1], *(replace(view, required=False) for view in views[1:]))
        self.joints_topic = STATE
        self.first_instruction = ""
        self.start_ns = _START_NS
        self.duration = sum(episode.length for episode in dataset.episodes) / dataset.fps
        self.shift_ns = 0

    @property
    def skipped(self) -> list[str]:
        """Why episodes were left out, and which; of many reasons the first ones."""
        reasons = list(self._skipped.items())
        named = [f"{reason} ({_numbers(found)})" for reason, found in reasons[:_NAMED_REASONS]]
        more = sum(len(found) for _, found in reasons[_NAMED_REASONS:])
        return [*named, f"for such reasons {more} more episodes are left out"] if more else named

    @property
    def warnings(self) -> list[str]:
        """What was wrong with the dataset; complete after all events."""
        bad, every = self._frames[False], self._frames.total()
        unreachable = (
            f"{STATE}: {bad} of {every} cannot be reached by a WidowX 250S and are left out"
        )
        episodes = len(self._dataset.episodes)
        dark = [
            f"{topic}: black in {count} of {episodes} episodes: the camera was not there, and the "
            "policy is not shown it"
            for topic, count in sorted(self._dark.items())
        ]
        return [*self._notes, *([unreachable] if bad else []), *dark, *self.skipped]

    def events(self) -> Iterator[Event]:
        """Everything that happens, in order of time."""
        first = 0
        for episode in self._dataset.episodes:
            try:
                rows, decoders = self._open(episode)
            except (BagError, ImageError) as error:
                self._skipped.setdefault(str(error), []).append(episode.index)
            else:
                yield from self._play(episode, rows, decoders, first)
            first += episode.length
        for video in self._videos.values():
            video.close()

    def _open(self, episode: EpisodeFiles) -> tuple[dict[str, list[Any]], dict[str, Decoder]]:
        features = self._dataset.features
        pictures = [v.topic for v in self.views if features[v.topic]["dtype"] == IMAGE]
        task = [_TASK] if _TASK in features else []
        rows = self._dataset.rows(episode, [STATE, *task, *pictures])
        width = int(features[STATE]["shape"][0])
        if any(state is None or len(state) != width for state in rows[STATE]):
            name = self._dataset.name(episode.data)
            raise BagError(f"{name}: {STATE} has not {width} numbers in every frame")
        decoders: dict[str, Decoder] = {}
        for view in self.views:
            if view.topic in pictures:
                decoders[view.topic] = partial(_stored, rows[view.topic], view.topic)
            else:
                clip = episode.clips[view.topic]
                decoders[view.topic] = partial(self._videos[view.topic].frame, clip)
            # A file that is missing, or of an unknown codec, is told once for the episode.
            if episode.length and decoders[view.topic](0).max() <= _BLACK:
                self._dark[view.topic] += 1
                del decoders[view.topic]
        return rows, decoders

    def _play(
        self,
        episode: EpisodeFiles,
        rows: dict[str, list[Any]],
        decoders: dict[str, Decoder],
        first: int,
    ) -> Iterator[Event]:
        told: str | None = None
        for number, state in enumerate(rows[STATE]):
            stamp_ns = _START_NS + round((first + number) * 1e9 / self._dataset.fps)
            time = stamp_ns * 1e-9
            if number == 0:
                yield EpisodeSeen(time, str(episode.index))
            text = self._instruction(episode, rows, number)
            if text != told:
                yield InstructionSeen(time, text)
                told = text
            joints = self._solver.solve(state)
            self._frames[joints is not None] += 1
            if joints is None:
                # Its pictures belong to a pose that nobody knows.
                continue
            yield JointsSeen(time, time, NAMES, joints)
            # The main view last: with it the observation is complete.
            for view in reversed(self.views):
                if view.topic in decoders:
                    image = StoredImage(stamp_ns, stamp_ns, partial(decoders[view.topic], number))
                    yield ImageSeen(time, view.slot, time, image)

    def _instruction(self, episode: EpisodeFiles, rows: dict[str, list[Any]], number: int) -> str:
        task = rows[_TASK][number] if _TASK in rows else None
        text = self._dataset.tasks.get(task, "") if task is not None else ""
        return text or next(iter(episode.tasks), "")


def find_views(dataset: Dataset, wanted: Wanted, most: int) -> tuple[tuple[View, ...], list[str]]:
    """The cameras to use, and what is to be said about them.

    A parameter file's topics may be names of the dataset's cameras; otherwise these are found.

    Raises:
        BagError: the dataset has no camera.
    """
    cameras = dataset.cameras()
    given = [replace(v, topic=v.topic.removesuffix("/compressed")) for v in wanted.cameras]
    if given and all(view.topic in cameras for view in given):
        kinds = {name: str(dataset.features[name]["dtype"]) for name in cameras}
        return tuple(replace(view, type_name=kinds[view.topic]) for view in given), []
    usable = sorted((name for name in cameras if not NO_CAMERA.search(name)), key=camera_rank)
    if not usable:
        raise BagError(f"no camera; the dataset has {', '.join(dataset.features)}")
    views = tuple(
        View(slot, name, str(dataset.features[name]["dtype"]))
        for slot, name in enumerate(usable[:most])
    )
    if not given:
        return views, []
    topics = ", ".join(view.topic for view in given)
    found = ", ".join(view.topic for view in views)
    return views, [f"no cameras {topics} in the dataset: {found} are used instead"]


def longest_pause(fps: float) -> float:
    """Seconds between frames of which none is missing, with a margin."""
    return 1.5 / fps


def within_frames(limits: Limits, fps: float) -> Limits:
    """Limits under which the newest frame of a slow dataset is not yet too old."""
    age = longest_pause(fps)
    return replace(
        limits,
        max_image_age=max(limits.max_image_age, age),
        joints_max_age=max(limits.joints_max_age, age),
    )


def _robot(dataset: Dataset) -> str:
    if not dataset.robot or "widowx" in dataset.robot.lower() or dataset.robot == "unknown":
        return ""
    return f"robot_type is {dataset.robot}: its states are read as a WidowX 250S's"


def _stored(column: Sequence[Any], name: str, number: int) -> Rgb:
    return stored(column[number], name)


def _numbers(episodes: Sequence[int]) -> str:
    named = ", ".join(str(index) for index in episodes[:_NAMED_EPISODES])
    more = f" and {len(episodes) - _NAMED_EPISODES} more" if episodes[_NAMED_EPISODES:] else ""
    return f"left out: episode{'s' if len(episodes) > 1 else ''} {named}{more}"
