"""What the policy may look at: stamped images and joint states, and when not to.

Callbacks only store. `snapshot` picks images that belong together, interpolates the joints at
their reference time, and otherwise refuses with reasons. Times are seconds on the ROS clock and
always arguments. A view is never silently absent: a required one that is missing, old or out of
step with the others means no observation.

The reference time lies between two joint states, so that the same stamp has the same joints
whenever one looks, live or in a recording. Images newer than the newest joint state wait for the
next one, for one period of the joint states at most; then the images before them are taken.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xvla_ros.streams import CLOCK_BACK_S, Array, ImageStream, JointStream, Problem, Reason, Stream

__all__ = [
    "Limits",
    "Observation",
    "ObservationBuffer",
    "ObservationRefused",
    "Problem",
    "Reason",
    "ViewSpec",
]

Image = TypeVar("Image")


class ObservationRefused(Exception):
    """No observation now; `problems` holds every reason, the properties the first one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)

    @property
    def reason(self) -> Reason:
        """The first reason."""
        return self.problems[0].reason

    @property
    def topic(self) -> str:
        """The topic at fault."""
        return self.problems[0].topic

    @property
    def since(self) -> float:
        """Time in seconds since when."""
        return self.problems[0].since


@dataclass(frozen=True)
class ViewSpec:
    """An image slot of the policy and the topic that fills it."""

    topic: str
    required: bool = True


@dataclass(frozen=True)
class Limits:
    """How old and how far apart the parts of an observation may be, in seconds."""

    max_image_age: float = 0.25
    max_skew: float = 0.05
    joints_max_age: float = 0.1


@dataclass(frozen=True, eq=False)
class Observation(Generic[Image]):
    """Images that belong together and the joints at their reference time."""

    stamp: float
    """Reference time: the oldest of the newest images of the required views, out of those that a
    joint state has followed."""
    images: tuple[Image | None, ...]
    """By slot, as they were stored; None where the slot is empty or an optional view absent."""
    view_stamps: tuple[float, ...]
    """By slot; NaN where there is no image."""
    joints: Array
    """Positions in radians at the reference time, in the order asked for."""


class ObservationBuffer(Generic[Image]):
    """Keeps the last images and joint states; safe to use from several threads.

    Args:
        views: by slot of the policy; None leaves a slot empty. At least one must be required.
        joint_names: joints whose positions an observation has, in this order.
        joints_topic: name of the joint states' topic, for reasons.
        limits: may be replaced at any time through the attribute of that name.

    Raises:
        ValueError: no view is required, so there would be no reference time.
    """

    def __init__(
        self,
        views: Sequence[ViewSpec | None],
        joint_names: Sequence[str],
        joints_topic: str = "joint_states",
        limits: Limits | None = None,
    ) -> None:
        if not any(view is not None and view.required for view in views):
            raise ValueError("at least one view must be required")
        self.limits = limits or Limits()
        self._slots: list[ImageStream[Image] | None] = [
            None if view is None else ImageStream(view.topic, view.required) for view in views
        ]
        self._views = [slot for slot in self._slots if slot is not None]
        self._joints = JointStream(joints_topic, joint_names)
        self._waiting_since: float | None = None
        self._latest = -math.inf
        self._warnings: list[str] = []
        self._unstamped: set[str] = set()
        self._lock = threading.Lock()

    def add_image(self, slot: int, stamp: float, now: float, image: Image) -> None:
        """Stores an image; a stamp of zero is replaced by the time of arrival."""
        with self._lock:
            self._tick(now)
            view = self._slots[slot]
            if view is None:
                raise IndexError(f"view slot {slot} is empty")
            view.received += 1
            stamp = self._stamp_or_arrival(view.topic, stamp, now)
            # Twice the age: a reference as old as admitted still finds its neighbours.
            keep = 2.0 * self.limits.max_image_age + self.limits.max_skew
            view.add(stamp, now, image, keep)

    def add_joints(
        self, stamp: float, now: float, names: Sequence[str], positions: Sequence[float]
    ) -> None:
        """Stores joint positions by name; any order, other joints beside them allowed."""
        with self._lock:
            self._tick(now)
            stamp = self._stamp_or_arrival(self._joints.topic, stamp, now)
            self._joints.add_named(stamp, now, names, positions)

    def clear(self) -> None:
        """Forgets everything stored, not the counters."""
        with self._lock:
            self._clear()

    def problems(self, now: float) -> tuple[Problem, ...]:
        """Every reason why there is no observation at `now`; empty if there is one.

        To wait for the next joint state is none.
        """
        with self._lock:
            result = self._select(now)
        if not isinstance(result, tuple) or result[0].reason is Reason.AWAITED_JOINTS:
            return ()
        return result

    def snapshot(self, now: float, reference: float | None = None) -> Observation[Image]:
        """The newest images that belong together, and the joints at their reference time.

        Args:
            now: the time.
            reference: instead of the newest reference time there is; for repeating an observation.

        Raises:
            ObservationRefused: with every reason, the topics at fault and since when. That the
                next joint state is awaited is the only reason then.
        """
        with self._lock:
            result = self._select(now, reference)
        if isinstance(result, tuple):
            raise ObservationRefused(result)
        return result

    def take_warnings(self) -> list[str]:
        """Things to tell the operator once; empties the list."""
        with self._lock:
            warnings, self._warnings = self._warnings, []
            return warnings

    def counts(self) -> dict[str, tuple[int, int]]:
        """Messages received and dropped (duplicate or out of order) by topic, since the start."""
        with self._lock:
            return {s.topic: (s.received, s.dropped) for s in self._streams()}

    def ages(self, now: float) -> dict[str, float]:
        """Seconds since the newest stamp by topic; infinite where nothing has arrived."""
        with self._lock:
            return {
                s.topic: math.inf if s.newest is None else now - s.newest.stamp
                for s in self._streams()
            }

    # Everything below is called with the lock held.

    def _streams(self) -> list[Stream[Any]]:
        return [*self._views, self._joints]

    def _tick(self, now: float) -> None:
        if now < self._latest - CLOCK_BACK_S:
            self._warnings.append(
                f"the clock went back by {self._latest - now:.3f} s: stored observations dropped"
            )
            self._clear()
        self._latest = max(self._latest, now)
        if self._waiting_since is None:
            self._waiting_since = now

    def _clear(self) -> None:
        for view in self._views:
            view.items.clear()
        self._joints.clear()
        self._waiting_since = None
        self._latest = -math.inf

    def _stamp_or_arrival(self, topic: str, stamp: float, now: float) -> float:
        if stamp > 0.0:
            return stamp
        if topic not in self._unstamped:
            self._unstamped.add(topic)
            self._warnings.append(f"{topic}: messages carry no stamp; their arrival time is used")
        return now

    def _select(
        self, now: float, reference: float | None = None
    ) -> Observation[Image] | tuple[Problem, ...]:
        self._tick(now)
        limits = self.limits
        since = now if self._waiting_since is None else self._waiting_since
        required = [view for view in self._views if view.required]
        problems = [view.problem(now, limits.max_image_age, since) for view in required]
        problems.append(self._joints.problem(now, limits.joints_max_age, since))
        found = tuple(problem for problem in problems if problem is not None)
        if found:
            return found
        stamp = self._reference(required, now) if reference is None else reference
        return (stamp,) if isinstance(stamp, Problem) else self._assemble(now, stamp)

    def _reference(self, required: Sequence[ImageStream[Image]], now: float) -> float | Problem:
        """The reference time at `now`, given that there are images and joint states."""
        joints = self._joints.newest
        assert joints is not None
        stamp = min(view.newest.stamp for view in required if view.newest)
        if stamp <= joints.stamp:
            return stamp
        ahead = [view.first_after(joints.stamp) for view in required]
        since = max(image.arrival for image in ahead if image is not None)
        patience = min(self._joints.period, self.limits.max_skew)
        if now < since + patience:
            detail = f"for {patience:g} s at most"
            return Problem(Reason.AWAITED_JOINTS, self._joints.topic, since, detail)
        reached = [view.until(joints.stamp) for view in required]
        stamp = min(-math.inf if image is None else image.stamp for image in reached)
        return stamp if now - stamp <= self.limits.max_image_age else self._joints.behind()

    def _assemble(self, now: float, stamp: float) -> Observation[Image] | tuple[Problem, ...]:
        limits = self.limits
        picked = [
            None if slot is None else slot.pick(stamp, limits.max_skew, now, limits.max_image_age)
            for slot in self._slots
        ]
        problems = [
            view.skew_problem(stamp, limits.max_skew)
            for view, image in zip(self._slots, picked, strict=True)
            if view is not None and view.required and image is None
        ]
        if all(image is None or image.stamp != stamp for image in picked):
            topic = next(view.topic for view in self._views if view.required)
            problems.append(Problem(Reason.MISSING_VIEW, topic, stamp, "none of that time"))
        joints = self._joints.at(stamp, limits.joints_max_age)
        if isinstance(joints, Problem):
            problems.append(joints)
        if problems or isinstance(joints, Problem):
            return tuple(problems)
        images = tuple(None if image is None else image.item for image in picked)
        stamps = tuple(math.nan if image is None else image.stamp for image in picked)
        return Observation(stamp, images, stamps, joints)
