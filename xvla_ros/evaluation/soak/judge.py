"""Every command against its bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.scheduler.arm_io import ArmCommand
from xvla_ros.scheduler.params import ExecutorParams, SchedulerParams

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Plan time advances by at most two periods in one.
_MOST_PERIODS = 2.0
# A command and the joints that it is sent as differ by less: where the wrist is singular the
# kinematics gives up 1e-3 rad and 0.2 mm.
_SAME_M, _SAME_RAD = 2.5e-4, 2e-3
# One command in so many is held against its own forward kinematics.
_SPOT = 10
_ORTHONORMAL = 1e-6
# Angles so small are noise of the arc cosine, radians.
_ANGLE_NOISE = 1e-7
# Seconds after which a stopped arm has come to rest: its stop bounds need 0.1 s.
_AT_REST_S = 0.5
# How much faster than its steps a command may be: between two steps a cubic that rests at both ends
# is half as fast again, and a fade adds to that.
_OVERSHOOT = 3.0
# An arm that was found outside the workspace by this much, metres, is told to stay there.
_FOUND_OUTSIDE_M = 0.005
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

    def note(self, name: str, fractions: Array) -> None:
        """Takes values as fractions of their bound."""
        if fractions.size == 0:
            return
        # Written so that NaN is a violation.
        beyond = int(np.count_nonzero(~(fractions <= 1.0 + _SLACK)))
        if beyond:
            self.violations[name] += beyond
        largest = float(np.nan_to_num(fractions, nan=1e9, posinf=1e9).max())
        self.worst[name] = max(self.worst.get(name, 0.0), largest)

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


@dataclass(frozen=True, eq=False)
class _Seen:
    command: ArmCommand
    elapsed: float
    moving: bool
    stopped_for: float


@dataclass(frozen=True, eq=False)
class _Steps:
    """From each of n commands to the next: arrays (n - 1,)."""

    metres: Array
    radians: Array
    time: Array
    """Seconds, as plan time counts them."""
    stopped: Array
    """Seconds since a stop was latched."""
    moved: Mask

    @staticmethod
    def between(seen: list[_Seen], positions: Array, rotations: Array, longest: float) -> _Steps:
        """The steps between positions (n, 3) and rotations (n, 3, 3) of n commands."""
        metres = np.linalg.norm(np.diff(positions, axis=0), axis=1)
        turns = np.swapaxes(rotations[:-1], 1, 2) @ rotations[1:]
        cosine = 0.5 * (np.trace(turns, axis1=1, axis2=2) - 1.0)
        # Of a small angle the cosine says little; the skew part says it.
        skew = turns - np.swapaxes(turns, 1, 2)
        sine = 0.5 * np.sqrt(0.5 * np.einsum("nij,nij->n", skew, skew))
        radians = np.arctan2(sine, cosine)
        return _Steps(
            metres=metres,
            radians=radians,
            time=np.clip([s.elapsed for s in seen[1:]], 0.0, longest),
            stopped=np.array([s.stopped_for for s in seen[1:]]),
            moved=(metres > 1e-9) | (radians > _ANGLE_NOISE),
        )


class Judge:
    """Takes the commands of one sequence and looks at them all in the end.

    Args:
        arm: that is commanded; None for poses of the scheduler alone, before any limit.
        params: the arm's limits.
        scheduler: of the chunks.
    """

    def __init__(
        self, arm: WidowX250s | None, params: ExecutorParams, scheduler: SchedulerParams
    ) -> None:
        self.findings = Findings()
        self._arm = arm
        self._limits = params.limits
        self._longest = _MOST_PERIODS * scheduler.period
        self._scheduler = scheduler
        self._seen: list[_Seen] = []

    def take(self, command: ArmCommand, elapsed: float, moving: bool, stopped_for: float) -> None:
        """One command.

        Args:
            command: what the executor decided.
            elapsed: seconds since the last one.
            moving: whether a joint move (backing off) made it.
            stopped_for: seconds since a stop was latched; 0 = none is.
        """
        self._seen.append(_Seen(command, elapsed, moving, stopped_for))

    def judge(self) -> Findings:
        """What there is to say of them."""
        found, seen = self.findings, self._seen
        found.commands += len(seen)
        # Only what is published can reach the arm.
        sent = np.array([s.command.publish and s.command.pose is not None for s in seen])
        chosen = [s for s, was_sent in zip(seen, sent, strict=True) if was_sent]
        found.published += len(chosen)
        if not chosen:
            return found
        poses = [pose for s in chosen if (pose := s.command.pose) is not None]
        positions = np.array([pose.position for pose in poses])
        rotations = np.array([pose.rotation for pose in poses])
        boxed = ~np.array([s.moving for s in chosen])
        follows = (sent[:-1] & sent[1:])[sent[:-1]][: len(chosen) - 1]
        steps = _Steps.between(chosen, positions, rotations, self._longest)
        led = boxed & np.concatenate([[False], steps.moved & follows])
        self._places(positions, rotations, led, boxed & ~led)
        found.require("moves in no time", not steps.moved[follows & (steps.time <= 0.0)].any())
        late = follows & (steps.stopped > _AT_REST_S)
        found.require("moves long after a stop", not steps.moved[late].any())
        passing = follows & (steps.time > 0.0)
        if self._arm is None:
            self._steps_of_poses(steps, passing)
        else:
            self._joints(self._arm, np.array([s.command.joints for s in chosen]), steps, passing)
            self._speeds(steps, passing & boxed[1:])
            for s in chosen[::_SPOT]:
                self._kinematics(self._arm, s.command)
        self._gripper(chosen, sent)
        return found

    def _places(self, positions: Array, rotations: Array, led: Mask, held: Mask) -> None:
        """Places (n, 3) that a chunk has led to, and those at which the command began or stays."""
        found, limits = self.findings, self._limits
        low, high = np.array(limits.workspace_min), np.array(limits.workspace_max)
        beside, reach = np.abs(positions - 0.5 * (low + high)), 0.5 * (high - low)
        found.note("workspace", beside[led] / reach)
        found.note("workspace, at rest", beside[held] / (reach + _FOUND_OUTSIDE_M))
        gram = np.swapaxes(rotations, 1, 2) @ rotations - np.eye(3)
        found.note("orthonormal to 1e-6", np.abs(gram) / _ORTHONORMAL)

    def _joints(self, arm: WidowX250s, joints: Array, steps: _Steps, passing: Mask) -> None:
        """Joints (n, 6) of the commands."""
        limits = self._limits
        middle, reach = 0.5 * (arm.lower + arm.upper), 0.5 * (arm.upper - arm.lower)
        beside = np.abs(joints - middle) / (reach - limits.joint_margin_rad)
        self.findings.note("joint range", beside)
        turns = np.abs(np.diff(joints, axis=0))[passing]
        speed = np.minimum(arm.max_speed, limits.max_joint_speed)
        self.findings.note("joint speed", turns / (speed * steps.time[passing, None]))

    def _speeds(self, steps: _Steps, free: Mask) -> None:
        time, limits = steps.time[free], self._limits
        self.findings.note("linear speed", steps.metres[free] / (limits.max_linear_speed * time))
        turned = np.maximum(steps.radians[free] - _ANGLE_NOISE, 0.0)
        self.findings.note("angular speed", turned / (limits.max_angular_speed * time))

    def _steps_of_poses(self, steps: _Steps, passing: Mask) -> None:
        """Before any limit: the largest jump that is accepted, and the fastest motion."""
        splice, chunk = self._scheduler.splice, self._scheduler.chunk
        time = _OVERSHOOT * steps.time[passing]
        metres = splice.max_jump_m + chunk.max_linear_speed * time
        radians = splice.max_jump_rad + chunk.max_angular_speed * time
        self.findings.note("step before limits, m", steps.metres[passing] / metres)
        self.findings.note("step before limits, rad", steps.radians[passing] / radians)

    def _kinematics(self, arm: WidowX250s, command: ArmCommand) -> None:
        if command.joints is not None and command.pose is not None:
            metres, radians = arm.fk(command.joints).distance(command.pose)
            apart = np.array([metres / _SAME_M, radians / _SAME_RAD])
            self.findings.note("joints are those of the pose", apart)

    def _gripper(self, chosen: list[_Seen], sent: Mask) -> None:
        values = np.array([s.command.gripper_closed for s in chosen])
        self.findings.require(
            "gripper neither open nor closed", bool(np.isin(values, (0.0, 1.0)).all())
        )
        passed = np.cumsum([min(max(s.elapsed, 0.0), self._longest) for s in self._seen])
        times = passed[sent]
        changes = times[1:][np.diff(values) != 0.0]
        self.findings.note(
            "gripper dwell", self._scheduler.gripper.dwell_s / np.maximum(np.diff(changes), 1e-9)
        )
