"""A bag as a recording: messages of the chosen topics become events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xvla_ros import images
from xvla_ros.evaluation.bag import discovery
from xvla_ros.evaluation.bag.discovery import Found, View
from xvla_ros.evaluation.bag.files import BagError
from xvla_ros.evaluation.bag.joint_states import JointStateReader
from xvla_ros.evaluation.bag.reader import Bag, Raw, header_stamp_ns
from xvla_ros.evaluation.events import (
    EpisodeSeen,
    Event,
    ImageSeen,
    InstructionSeen,
    JointsSeen,
    StoredImage,
)

_NANO = 1_000_000_000
_SAMPLE = 200
# Beyond this distance from their stamps the observation buffer holds messages to be from another
# clock; a bag that was converted, or recorded in simulated time, is so as a whole.
_OTHER_CLOCK_S = 1.0
# A driver that works and a recorder that keeps up are faster than this.
_LATE_S = 0.15


class BagRecording:
    """The events of an open bag.

    Args:
        bag: stays open while the events are read.
        found: its topics.
        clock: `auto`, `receive` or `stamp`; see parameters/evaluation.py.
        instruction: what holds until the bag says otherwise; empty = the bag's first one.
    """

    def __init__(self, bag: Bag, found: Found, clock: str = "auto", instruction: str = "") -> None:
        self._bag = bag
        self._found = found
        self._clock = clock
        self._handlers: dict[str, Callable[[Raw], Event | None]] = {
            found.joint_states: self._joints,
            **{view.topic: self._image for view in found.views},
        }
        self._slots = {view.topic: view.slot for view in found.views}
        if found.instruction is not None:
            self._handlers[found.instruction.name] = self._instruction
        if found.episode is not None:
            self._handlers[found.episode.name] = self._episode
        self._joint_states = JointStateReader(bag.decode)
        self._bad: Counter[str] = Counter()
        self._faults: dict[str, str] = {}
        self._world: tuple[int, float, int] | None = None
        self._notes: list[str] = list(found.warnings)
        self.views: tuple[View, ...] = found.views
        self.joints_topic = found.joint_states
        self.first_instruction = instruction or discovery.initial_instruction(bag, found)
        self.start_ns = bag.start_ns
        self.duration = bag.duration
        self.shift_ns = self._find_shift()

    @property
    def warnings(self) -> list[str]:
        """What was wrong with the files and with messages."""
        bad = [
            f"{topic}: {count} messages cannot be read ({self._faults[topic]})"
            for topic, count in sorted(self._bad.items())
        ]
        return [*self._bag.warnings, *self._notes, *bad]

    def events(self) -> Iterator[Event]:
        """Everything that happens, in order of time; unreadable messages are counted."""
        for raw in self._bag.messages(self._handlers):
            try:
                event = self._handlers[raw.topic](raw)
            except (BagError, ValueError) as error:
                self._bad[raw.topic] += 1
                self._faults.setdefault(raw.topic, str(error))
                continue
            if event is not None:
                yield event

    def _find_shift(self) -> int:
        """Nanoseconds by which the recorded times are moved to the clock of the stamps."""
        if self._clock == "receive":
            return 0
        topics = [self._found.joint_states, *self._slots]
        by_topic = {topic: self._offsets(topic, _SAMPLE // len(topics)) for topic in topics}
        offsets = [offset for found in by_topic.values() for offset in found]
        shift = int(np.median(offsets)) if offsets else 0
        if self._clock == "auto" and abs(shift) <= _OTHER_CLOCK_S * _NANO:
            self._note_late(by_topic)
            return 0
        if shift:
            self._notes.append(
                f"messages were recorded {shift * 1e-9:.3f} s after their stamps: "
                "the stamps' clock is taken"
            )
        return shift

    def _offsets(self, topic: str, count: int) -> list[int]:
        """Nanoseconds from stamp to recording of a topic's first messages that have a stamp."""
        return [
            raw.time_ns - stamp
            for raw in islice(self._bag.messages([topic]), count)
            if len(raw.data) >= 12 and (stamp := header_stamp_ns(raw.data)) > 0
        ]

    def _note_late(self, offsets: dict[str, list[int]]) -> None:
        for topic, found in offsets.items():
            late = float(np.median(found)) / _NANO if found else 0.0
            if late > _LATE_S:
                self._notes.append(
                    f"{topic}: recorded {late:.2f} s after the stamps; an observation refuses "
                    "what is older than observation.max_image_age_s and joint_states_max_age_s"
                )

    def _time(self, raw: Raw) -> float:
        return seconds(raw.time_ns - self.shift_ns)

    def _image(self, raw: Raw) -> ImageSeen:
        stamp_ns = header_stamp_ns(raw.data)
        stored = StoredImage(stamp_ns, raw.time_ns, lambda: self._rgb(raw))
        return ImageSeen(self._time(raw), self._slots[raw.topic], seconds(stamp_ns), stored)

    def _rgb(self, raw: Raw) -> NDArray[np.uint8]:
        try:
            message = self._bag.decode(raw)
        except BagError as error:
            raise images.ImageError(str(error)) from error
        return images.from_message(message, raw.topic)

    def _joints(self, raw: Raw) -> JointsSeen:
        names, positions = self._joint_states.read(raw)
        return JointsSeen(self._time(raw), seconds(header_stamp_ns(raw.data)), names, positions)

    def _instruction(self, raw: Raw) -> InstructionSeen | None:
        text = discovery.instruction_of(self._bag.decode(raw), raw.type_name)
        return None if text is None else InstructionSeen(self._time(raw), text)

    def _episode(self, raw: Raw) -> EpisodeSeen:
        message = self._bag.decode(raw)
        if raw.type_name == discovery.WORLD_STATE:
            key = self._world_key(message)
        else:
            # A number, a text, or the frame of a header.
            key = str(getattr(message, "data", getattr(message, "frame_id", "")))
        return EpisodeSeen(self._time(raw), key)

    def _world_key(self, message: Any) -> str:
        """The simulator's episodes: another seed, or its time has begun again."""
        seed, elapsed = int(message.seed), float(message.elapsed)
        before = self._world
        resets = 0 if before is None else before[2]
        if before is not None and (seed != before[0] or elapsed < before[1]):
            resets += 1
        self._world = (seed, elapsed, resets)
        return f"{resets}"


def seconds(nanoseconds: int) -> float:
    """Seconds of a time in ns, rounded as the nodes round a stamp."""
    whole, rest = divmod(nanoseconds, _NANO)
    return float(whole) + rest * 1e-9
