"""Where one episode of a recording ends and the next begins."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.constants import JOINT_MAX_SPEED
from xvla_ros.evaluation.events import EpisodeSeen, Event, ImageSeen, InstructionSeen, JointsSeen

Array = NDArray[np.float64]

# An arm that has moved faster than twice its servos' speed, and by more than noise, was put there.
_JUMP_RAD = 0.2
_JUMP_SPEED = 2.0 * max(JOINT_MAX_SPEED)
# The signs of one change (a jump, a counter, another instruction) may come one after the other.
_SAME_CHANGE_S = 0.5


@dataclass
class Episode:
    """A part of a recording."""

    index: int
    start: float
    """Seconds, as `end`."""
    end: float
    instruction: str
    predictions: int = 0


class EpisodeSplitter:
    """Tells at each event whether another episode begins with it.

    A change of the episode's key or of the instruction, a pause of the joint states or of all
    images, and a jump of the arm begin one.

    Args:
        gap_s: longest pause inside an episode.
        instruction: what holds at the beginning.
        told: the recording names every episode: nothing but another key begins one.
    """

    def __init__(self, gap_s: float, instruction: str, told: bool = False) -> None:
        self._told = told
        self._gap = gap_s
        self._key: str | None = None
        self._instruction = instruction
        self._image_time = math.nan
        self._joints_time = math.nan
        self._joints: Array | None = None
        self._begun = -math.inf

    def begins(self, event: Event, joints: Array | None = None) -> bool:
        """Whether the event belongs to another episode than the one before it.

        Args:
            event: the next one.
            joints: (6,) of joint states that have all of the arm, else None.
        """
        if self._told:
            return isinstance(event, EpisodeSeen) and self._changed(event, None)
        changed = self._changed(event, joints)
        if not changed or event.time - self._begun < _SAME_CHANGE_S:
            return False
        self._begun = event.time
        return True

    def _changed(self, event: Event, joints: Array | None) -> bool:
        if isinstance(event, EpisodeSeen):
            before, self._key = self._key, event.key
            return before is not None and event.key != before
        if isinstance(event, InstructionSeen):
            told, self._instruction = self._instruction, event.text
            return bool(told) and event.text != told
        if isinstance(event, ImageSeen):
            image_time, self._image_time = self._image_time, event.time
            return event.time - image_time > self._gap
        return joints is not None and self._joints_changed(event, joints)

    def _joints_changed(self, event: JointsSeen, joints: Array) -> bool:
        elapsed = event.time - self._joints_time
        before = self._joints
        self._joints_time, self._joints = event.time, joints
        if before is None:
            return False
        step = float(np.abs(joints - before).max())
        # Stamps of a jump may coincide; then there is no speed.
        jumped = step > _JUMP_RAD and step > _JUMP_SPEED * max(elapsed, 0.01)
        return jumped or elapsed > self._gap
