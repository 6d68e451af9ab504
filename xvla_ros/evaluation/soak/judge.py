"""Every command against its bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.scheduler.arm_io import ArmCommand
from xvla_ros.scheduler.params import ExecutorParams

Array = NDArray[np.float64]

# Plan time advances by at most two periods in one.
_MOST_PERIODS = 2.0
# A command and the joints that it is sent as differ by less: where the wrist is singular the
# kinematics gives up 1e-3 rad and 0.2 mm.
_SAME_M, _SAME_RAD = 2.5e-4, 2e-3
# One command in so many is held against its own forward kinematics.
_SPOT = 4
# Of a bound, for rounding.
_SLACK = 1e-6


@dataclass
class Findings:
    """What has been seen of the commands of one sequence, or of many."""

    commands: int = 0
    published: int = 0
    worst: dict[str, float] = field(default_factory=dict)
    """The nearest that anything came to its bound, as a fraction of it; above 1 is beyond."""
    violations: Counter[str] = field(default_factory=Counter)

    def note(self, name: str, fraction: float) -> None:
        """Takes a value as a fraction of its bound."""
        # Written so that NaN is a violation.
        if not fraction <= 1.0 + _SLACK:
            self.violations[name] += 1
        self.worst[name] = max(self.worst.get(name, 0.0), min(fraction, 1e9))

    def require(self, name: str, holds: bool) -> None:
        """Takes something that must hold."""
        if not holds:
            self.violations[name] += 1

    def add(self, other: Findings) -> None:
        """Takes the findings of another sequence."""
        self.commands += other.commands
        self.published += other.published
        for name, fraction in other.worst.items():
            self.worst[name] = max(self.worst.get(name, 0.0), fraction)
        self.violations.update(other.violations)


class Judge:
    """Looks at one command after another."""

    def __init__(
        self, arm: WidowX250s, params: ExecutorParams, period: float, dwell: float
    ) -> None:
        self._dwell = dwell
        self.findings = Findings()
        self._arm = arm
        self._limits = params.limits
        self._period = period
        self._low = np.array(params.limits.workspace_min)
        self._high = np.array(params.limits.workspace_max)
        self._speed = np.minimum(arm.max_speed, params.limits.max_joint_speed)
        self._before: ArmCommand | None = None
        self._gripper_age = np.inf

    def look(self, command: ArmCommand, elapsed: float, moving: bool, stopped_for: float) -> None:
        """One command.

        Args:
            command: what the executor decided.
            elapsed: seconds since the last one.
            moving: whether a joint move (backing off) made it.
            stopped_for: seconds since a stop was latched; 0 = none is.
        """
        found, before = self.findings, self._before
        self._before = command
        found.commands += 1
        if command.joints is None or command.pose is None or not command.publish:
            return
        found.published += 1
        self._look_at_place(command, moving)
        if before is None or not before.publish or before.joints is None or before.pose is None:
            return
        counted = min(max(elapsed, 0.0), _MOST_PERIODS * self._period)
        self._gripper_age += counted
        if command.gripper_closed != before.gripper_closed:
            if self._gripper_age < np.inf:
                found.note("gripper dwell", self._dwell / max(self._gripper_age, 1e-9))
            self._gripper_age = 0.0
        if counted <= 0.0:
            still = bool((command.joints == before.joints).all())
            found.require("moves in no time", still)
            return
        joints = np.abs(command.joints - before.joints) / (self._speed * counted)
        found.note("joint speed", float(joints.max()))
        metres, radians = before.pose.distance(command.pose)
        if not moving:
            found.note("linear speed", metres / (self._limits.max_linear_speed * counted))
            # Rotations so near are known to 1e-8 rad only.
            found.note(
                "angular speed", (radians - 1e-7) / (self._limits.max_angular_speed * counted)
            )
        if stopped_for > 0.5:
            found.require("moves long after a stop", metres < 1e-9 and radians < 1e-7)

    def _look_at_place(self, command: ArmCommand, moving: bool) -> None:
        found, limits = self.findings, self._limits
        joints, pose = command.joints, command.pose
        if joints is None or pose is None:
            return
        found.require("gripper neither open nor closed", command.gripper_closed in (0.0, 1.0))
        found.require("not finite", bool(np.isfinite(joints).all()) and pose.is_finite())
        middle = 0.5 * (self._arm.lower + self._arm.upper)
        reach = 0.5 * (self._arm.upper - self._arm.lower) - limits.joint_margin_rad
        found.note("joint range", float((np.abs(joints - middle) / reach).max()))
        if not moving:
            centre, half = 0.5 * (self._low + self._high), 0.5 * (self._high - self._low)
            found.note("workspace", float((np.abs(pose.position - centre) / half).max()))
        if found.published % _SPOT:
            return
        gram = pose.rotation.T @ pose.rotation - np.eye(3)
        found.note("orthonormal to 1e-6", float(np.abs(gram).max()) / 1e-6)
        metres, radians = self._arm.fk(joints).distance(pose)
        found.note("joints are those of the pose", max(metres / _SAME_M, radians / _SAME_RAD))
