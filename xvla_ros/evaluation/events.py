"""What happens in a recording, whatever its format, in order of time.

Times are seconds on the recording's clock, stamps those of the messages; a stamp of 0 is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xvla_ros.evaluation.bag.discovery import View


@dataclass(frozen=True, eq=False)
class StoredImage:
    """An image that is decoded only if the policy is shown it."""

    stamp_ns: int
    """0 = none."""
    log_ns: int
    """Time under which the recording holds it."""
    decode: Callable[[], NDArray[np.uint8]]
    """RGB (height, width, 3); raises images.ImageError."""


@dataclass(frozen=True, eq=False)
class ImageSeen:
    """A camera's frame."""

    time: float
    slot: int
    stamp: float
    image: StoredImage


@dataclass(frozen=True, eq=False)
class JointsSeen:
    """Joint positions by name, rad and m."""

    time: float
    stamp: float
    names: Sequence[str]
    positions: Sequence[float]


@dataclass(frozen=True)
class InstructionSeen:
    """What is to be done from now on."""

    time: float
    text: str


@dataclass(frozen=True)
class EpisodeSeen:
    """Says which episode this is; another key is another episode."""

    time: float
    key: str


Event = ImageSeen | JointsSeen | InstructionSeen | EpisodeSeen


class Recording(Protocol):
    """A recording that can be evaluated."""

    @property
    def views(self) -> Sequence[View]:
        """The filled view slots."""

    @property
    def joints_topic(self) -> str:
        """Name of the joint states, for reasons."""

    @property
    def first_instruction(self) -> str:
        """What holds until an `InstructionSeen`; empty = nothing."""

    @property
    def start_ns(self) -> int:
        """Time under which the first message was recorded."""

    @property
    def duration(self) -> float:
        """Seconds."""

    @property
    def shift_ns(self) -> int:
        """Recorded time minus the time of the events."""

    @property
    def warnings(self) -> Sequence[str]:
        """What was wrong with the recording; complete after all events."""

    def events(self) -> Iterator[Event]:
        """Everything that happens, in order of time."""
