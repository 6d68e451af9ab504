"""The last messages of one input, and whether they can be used.

Times are seconds on the ROS clock and always arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Item = TypeVar("Item")

# Stamps further than this from their time of arrival come from another clock.
_STAMP_OFFSET_S = 1.0
# A stamp may lead the receiver's clock by this much: /clock ticks coarsely, hosts drift.
_LEAD_S = 0.1
# A clock that goes back by more than this has been reset (a bag that loops, a simulator that
# restarts); by less, two threads have merely overtaken one another.
CLOCK_BACK_S = 0.1
# Long enough to reach back to the oldest image that is still admitted.
_JOINT_HISTORY_S = 2.0
_MOST_IMAGES = 32


class Reason(str, Enum):
    """Why there is no observation."""

    MISSING_VIEW = "no image has arrived"
    STALE_VIEW = "images have stopped or are late"
    SKEWED = "images are too far apart in time"
    MISSING_JOINTS = "joint positions are missing"
    STALE_JOINTS = "joint states have stopped or are late"
    NON_FINITE_JOINTS = "a joint position is NaN or infinite"
    AWAITED_JOINTS = "the joint state after the newest images is awaited"
    CLOCKS_DIFFER = "clocks differ: the stamp is implausible against now"


@dataclass(frozen=True)
class Problem:
    """One reason, the topic at fault and the time since when."""

    reason: Reason
    topic: str
    since: float
    detail: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.topic}: {self.reason.value}{detail}, since {self.since:.3f}"


@dataclass(frozen=True, eq=False)
class Stamped(Generic[Item]):
    """A message's content, its stamp and the time of its arrival."""

    stamp: float
    arrival: float
    item: Item


class Stream(Generic[Item]):
    """Items in rising order of their stamps, pruned by age."""

    def __init__(self, topic: str, most: int | None = None) -> None:
        self.topic = topic
        self.items: deque[Stamped[Item]] = deque(maxlen=most)
        self.received = 0
        self.dropped = 0

    @property
    def newest(self) -> Stamped[Item] | None:
        """The item with the latest stamp."""
        return self.items[-1] if self.items else None

    def add(self, stamp: float, arrival: float, item: Item, keep: float) -> bool:
        """Keeps an item; false for a duplicate or a late one, which are dropped and counted.

        A stamp far behind the newest one means that the source's clock was set back: what was
        kept belongs to the clock before and goes.
        """
        newest = self.newest
        if newest is not None and stamp <= newest.stamp:
            if newest.stamp - stamp < _STAMP_OFFSET_S:
                self.dropped += 1
                return False
            self.items.clear()
        self.items.append(Stamped(stamp, arrival, item))
        while self.items[0].stamp < stamp - keep:
            self.items.popleft()
        return True

    def age_problem(self, now: float, max_age: float, stale: Reason) -> Problem | None:
        """What is wrong with the newest item's stamp at `now`; None with no item at all."""
        newest = self.newest
        if newest is None:
            return None
        late = newest.arrival - newest.stamp
        if not -_LEAD_S <= late <= _STAMP_OFFSET_S:
            detail = f"stamped {late:.3f} s before its arrival"
            return Problem(Reason.CLOCKS_DIFFER, self.topic, newest.arrival, detail)
        if now - newest.stamp > max_age:
            return Problem(stale, self.topic, newest.stamp, f"older than {max_age:g} s")
        return None


class ImageStream(Stream[Item]):
    """The images of one view."""

    def __init__(self, topic: str, required: bool) -> None:
        super().__init__(topic, _MOST_IMAGES)
        self.required = required

    def problem(self, now: float, max_age: float, waiting_since: float) -> Problem | None:
        """Why the view cannot be used at `now`, if so."""
        if self.newest is None:
            return Problem(Reason.MISSING_VIEW, self.topic, waiting_since)
        return self.age_problem(now, max_age, Reason.STALE_VIEW)

    def until(self, time: float) -> Stamped[Item] | None:
        """The newest image that is no later than a time."""
        return next((kept for kept in reversed(self.items) if kept.stamp <= time), None)

    def first_after(self, time: float) -> Stamped[Item] | None:
        """The oldest image that is later than a time."""
        return next((kept for kept in self.items if kept.stamp > time), None)

    def pick(
        self, reference: float, max_skew: float, now: float, max_age: float
    ) -> Stamped[Item] | None:
        """The image nearest to the reference, within `max_skew` of it and not too old.

        The nearest, not the newest: which images belong to a reference time does then not depend
        on what has come since.
        """
        near = [k for k in self.items if abs(k.stamp - reference) <= max_skew]
        fresh = [k for k in near if now - k.stamp <= max_age]
        return min(reversed(fresh), key=lambda k: abs(k.stamp - reference), default=None)

    def skew_problem(self, reference: float, max_skew: float) -> Problem:
        """The problem of a view that has no image near enough to the reference."""
        off = min(abs(kept.stamp - reference) for kept in self.items)
        detail = f"{off:.3f} s off the reference, {max_skew:g} s are allowed"
        return Problem(Reason.SKEWED, self.topic, reference, detail)


class JointStream(Stream[Array]):
    """Joint positions by name, in the order asked for."""

    def __init__(self, topic: str, names: Sequence[str]) -> None:
        super().__init__(topic)
        self.names = tuple(names)
        self._fault: Problem | None = None

    def clear(self) -> None:
        """Forgets all messages and faults."""
        self.items.clear()
        self._fault = None

    @property
    def period(self) -> float:
        """Seconds between the stamps of the last two messages; 0 with fewer."""
        return self.items[-1].stamp - self.items[-2].stamp if len(self.items) > 1 else 0.0

    def add_named(
        self, stamp: float, arrival: float, names: Sequence[str], positions: Sequence[float]
    ) -> None:
        """Keeps the joints asked for, whatever their order and company in the message.

        A message with none of them is somebody else's. One that lacks some, or has a number
        that is not finite, is a fault until a whole one arrives.
        """
        known = dict(zip(names, positions, strict=False))
        missing = [name for name in self.names if name not in known]
        if len(missing) == len(self.names):
            if not self.items:
                self._set_fault(Reason.MISSING_JOINTS, arrival, f"none of {', '.join(missing)}")
            return
        self.received += 1
        if missing:
            self._set_fault(Reason.MISSING_JOINTS, arrival, ", ".join(missing))
            return
        values = np.array([known[name] for name in self.names], dtype=np.float64)
        if not np.isfinite(values).all():
            bad = self.names[int(np.argmin(np.isfinite(values)))]
            self._set_fault(Reason.NON_FINITE_JOINTS, arrival, f"{bad} is {known[bad]}")
            return
        if self.add(stamp, arrival, values, _JOINT_HISTORY_S):
            self._fault = None

    def problem(self, now: float, max_age: float, waiting_since: float) -> Problem | None:
        """Why the joints cannot be used at `now`, if so."""
        if self._fault is not None:
            return self._fault
        if self.newest is None:
            return Problem(Reason.MISSING_JOINTS, self.topic, waiting_since, "no message")
        return self.age_problem(now, max_age, Reason.STALE_JOINTS)

    def at(self, time: float, max_gap: float) -> Array | Problem:
        """Positions interpolated at a time.

        None across a gap longer than `max_gap`, before the oldest message or after the newest one:
        what is told of a time depends on the messages around it, not on when one asks.
        """
        after: Stamped[Array] | None = None
        for sample in reversed(self.items):
            if sample.stamp <= time:
                if sample.stamp == time:
                    return sample.item.copy()
                if after is None:
                    return self.behind()
                gap = after.stamp - sample.stamp
                if gap > max_gap:
                    detail = f"a gap of {gap:.3f} s at the time of the images"
                    return Problem(Reason.STALE_JOINTS, self.topic, sample.stamp, detail)
                fraction = (time - sample.stamp) / gap
                return np.asarray(sample.item + fraction * (after.item - sample.item))
            after = sample
        return Problem(Reason.MISSING_JOINTS, self.topic, time, "none as old as the images yet")

    def behind(self) -> Problem:
        """The problem of images that no joint state reaches."""
        since = self.newest.stamp if self.newest else 0.0
        return Problem(Reason.STALE_JOINTS, self.topic, since, "none as new as the images")

    def _set_fault(self, reason: Reason, now: float, detail: str) -> None:
        # The time of the first fault of a kind is the one to tell.
        fault = self._fault
        if fault is None or fault.reason is not reason or fault.detail != detail:
            self._fault = Problem(reason, self.topic, now, detail)
