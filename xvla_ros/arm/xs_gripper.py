"""The gripper's motor on PWM: pushes until the fingers are there, and never stalls at full power.

The driver knows no limits in this mode: a motor that goes on pushing against a stop overloads and
shuts down within seconds.
"""

from __future__ import annotations

from xvla_ros.arm import constants as c
from xvla_ros.arm.gripper import finger_from_closed

_THERE_M = 0.001
_MOVED_M = 0.0005
_STALLED_S = 0.4
# Without a measurement: the time after which the fingers are there or held up by something.
_BLIND_S = 1.0
_GAP_S = 0.1


class PwmGripper:
    """From how far the gripper shall be closed to the motor's PWM; positive opens.

    Args:
        push: PWM while the fingers move, in counts of 885.
        hold: PWM that goes on pressing what has been grasped.
    """

    def __init__(self, push: int, hold: int) -> None:
        self._push = push
        self._hold = hold
        self._target: float | None = None
        self._seen = 0.0
        self._moved = 0.0
        self._at: float | None = None
        self._opening = False
        self._arrived = False

    def command(self, closed: float, now: float) -> None:
        """Sets how far to close: 0 = open, 1 = closed."""
        target = finger_from_closed(closed)
        if target == self._target:
            return
        self._target, self._at, self._arrived = target, None, False
        self._seen = self._moved = now

    def update(self, now: float, closed: float | None) -> int | None:
        """PWM now, or None before the first command.

        Args:
            now: seconds.
            closed: how far the gripper is closed, None if that is not known.
        """
        if self._target is None:
            return None
        finger = None if closed is None else finger_from_closed(closed)
        if self._at is None:
            start = (c.FINGER_LOWER + c.FINGER_UPPER) / 2 if finger is None else finger
            self._opening, self._at = self._target > start, start
        if self._arrived:
            # What was grasped may have slipped out since.
            if finger is not None and not self._opening:
                self._at = min(self._at, finger)
        elif finger is None:
            self._arrived = now - self._seen > _BLIND_S
        else:
            self._follow(finger, self._at, self._target, now)
        if self._arrived:
            return self.resting()
        return self._push if self._opening else -self._push

    def _follow(self, finger: float, before: float, target: float, now: float) -> None:
        """Whether the fingers are there, or stand still though they are pushed."""
        if abs(finger - before) > _MOVED_M or now - self._seen > _GAP_S:
            self._at, self._moved = finger, now
        self._seen = now
        beyond = finger - target if self._opening else target - finger
        if beyond > -_THERE_M:
            self._at, self._arrived = finger, True
        elif now - self._moved > _STALLED_S:
            self._arrived = True

    def resting(self) -> int:
        """PWM that may stay on for any time: presses what has been grasped, else nothing."""
        if self._target is None or self._opening or self._at is None:
            return 0
        grasped = self._at - self._target > _THERE_M
        return -self._hold if grasped else 0
