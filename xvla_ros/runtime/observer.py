"""From stored messages to the request for a prediction; without ROS and without a clock.

The policy node and the evaluation on recordings see through exactly this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.constants import ARM_JOINTS
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.observation import (
    Limits,
    Observation,
    ObservationBuffer,
    ObservationRefused,
    Reason,
    ViewSpec,
)
from xvla_ros.runtime.interface import Policy
from xvla_ros.runtime.prediction import Request
from xvla_ros.runtime.proprio import Proprio, ProprioParams, ProprioSelector

Rgb = NDArray[np.uint8]
Message = TypeVar("Message")


@dataclass(frozen=True)
class Frames:
    """Names of the frames that poses are given in and of."""

    base: str
    ee: str


class Observer(Generic[Message]):
    """What the policy may look at, when it looks, and what it is told.

    Attributes:
        buffer: takes images and joint states.
        proprio: takes the scheduler's plans.

    Args:
        views: by slot of the policy; None leaves a slot empty.
        rotated: by slot, whether the camera is mounted upside down.
        decode: RGB of a stored image message, given its topic; raises images.ImageError.
        joints_topic: name of the joint states' topic, for reasons.
        limits: ages and skew of an observation.
        proprio: how the proprio is chosen.
    """

    def __init__(
        self,
        views: Sequence[ViewSpec | None],
        rotated: Sequence[bool],
        decode: Callable[[Message, str], Rgb],
        joints_topic: str,
        limits: Limits,
        proprio: ProprioParams,
    ) -> None:
        self.buffer: ObservationBuffer[Message] = ObservationBuffer(
            views, ARM_JOINTS, joints_topic, limits
        )
        self.proprio = ProprioSelector(proprio)
        self._views = tuple(views)
        self._rotated = tuple(rotated)
        self._decode = decode
        self._arm = WidowX250s()
        self._due = False
        self._awaits_joints = False
        self._last_stamp = math.nan

    @property
    def awaits_joints(self) -> bool:
        """Whether an observation is due that only lacks the next joint state."""
        return self._due and self._awaits_joints

    @property
    def slots(self) -> tuple[int, ...]:
        """View slots that have a camera."""
        return tuple(slot for slot, view in enumerate(self._views) if view is not None)

    def restart(self) -> None:
        """Nothing is due, and any observation is a new one."""
        self._due = False
        self._last_stamp = math.nan

    def ask(self) -> None:
        """An observation is due: the next `look` that finds a new one returns it."""
        self._due = True

    def look(self, now: float) -> Observation[Message] | None:
        """The observation at `now` if one is due and there is a new one."""
        if not self._due:
            return None
        try:
            observation = self.buffer.snapshot(now)
        except ObservationRefused as refusal:
            self._awaits_joints = refusal.reason is Reason.AWAITED_JOINTS
            return None
        self._awaits_joints = False
        if observation.stamp == self._last_stamp:
            return None
        self._due = False
        self._last_stamp = observation.stamp
        return observation

    def choose_proprio(self, observation: Observation[Message], now: float) -> Proprio:
        """The pose to condition on."""
        return self.proprio.choose(observation.stamp, self._arm.fk(observation.joints), now)

    def request(
        self,
        observation: Observation[Message],
        now: float,
        *,
        policy: Policy,
        instruction: str,
        seed: int,
        sequence: int,
        frames: Frames,
    ) -> Request:
        """Everything but the pixels, whose decoding costs milliseconds."""
        plan = self.proprio.plan(now)
        proprio = self.choose_proprio(observation, now)
        return Request(
            stamp=observation.stamp,
            images=(),
            view_stamps=observation.view_stamps,
            proprio=proprio,
            instruction=instruction,
            seed=seed,
            prefix=self.proprio.prefix(
                observation.stamp, proprio, now, policy.step_dt, policy.horizon
            ),
            epoch=0 if plan is None else plan.epoch,
            sequence=sequence,
            frame_id=frames.base,
            ee_frame=frames.ee,
        )

    def rgb(self, observation: Observation[Message]) -> tuple[Rgb | None, ...]:
        """The decoded images by slot.

        Raises:
            images.ImageError: with topic and encoding.
        """
        return tuple(
            None if message is None or view is None else self._rgb(slot, view.topic, message)
            for slot, (view, message) in enumerate(
                zip(self._views, observation.images, strict=True)
            )
        )

    def _rgb(self, slot: int, topic: str, message: Message) -> Rgb:
        image = self._decode(message, topic)
        return np.ascontiguousarray(image[::-1, ::-1]) if self._rotated[slot] else image
