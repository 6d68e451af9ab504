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


class Judge:
    """Takes the commands of one sequence and looks at them all in the end."""

    def __init__(
        self, arm: WidowX250s, params: ExecutorParams, period: float, dwell: float
    ) -> None:
        self.findings = Findings()
        self._arm = arm
        self._limits = params.limits
        self._longest = _MOST_PERIODS * period
        self._dwell = dwell
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
        sent = np.array(
            [s.command.publish and s.command.joints is not None for s in seen], dtype=bool
        )
        chosen = [s for s, was_sent in zip(seen, sent, strict=True) if was_sent]
        found.published += len(chosen)
        if not chosen:
            return found
        joints = np.array([s.command.joints for s in chosen])
        poses = [pose for s in chosen if (pose := s.command.pose) is not None]
        positions = np.array([pose.position for pose in poses])
        rotations = np.array([pose.rotation for pose in poses])
        boxed = ~np.array([s.moving for s in chosen])
        self._places(joints, positions, rotations, boxed)
        for s in chosen[::_SPOT]:
            self._kinematics(s.command)
        follows = sent[:-1] & sent[1:]
        self._steps(joints, positions, rotations, chosen, follows[sent[:-1]])
        self._gripper(chosen)
        return found

    def _places(self, joints: Array, positions: Array, rotations: Array, boxed: Mask) -> None:
        found, limits = self.findings, self._limits
        middle = 0.5 * (self._arm.lower + self._arm.upper)
        reach = 0.5 * (self._arm.upper - self._arm.lower) - limits.joint_margin_rad
        found.note("joint range", np.abs(joints - middle) / reach)
        low, high = np.array(limits.workspace_min), np.array(limits.workspace_max)
        beside = np.abs(positions - 0.5 * (low + high)) / (0.5 * (high - low))
        found.note("workspace", beside[boxed])
        gram = np.swapaxes(rotations, 1, 2) @ rotations - np.eye(3)
        found.note("orthonormal to 1e-6", np.abs(gram) / _ORTHONORMAL)

    def _kinematics(self, command: ArmCommand) -> None:
        if command.joints is not None and command.pose is not None:
            metres, radians = self._arm.fk(command.joints).distance(command.pose)
            apart = np.array([metres / _SAME_M, radians / _SAME_RAD])
            self.findings.note("joints are those of the pose", apart)

    def _steps(
        self,
        joints: Array,
        positions: Array,
        rotations: Array,
        chosen: list[_Seen],
        follows: Mask,
    ) -> None:
        """Between one published command and the next.

        Args:
            joints: (n, 6).
            positions: (n, 3).
            rotations: (n, 3, 3).
            chosen: the n commands.
            follows: whether each is followed by a published one; the last one may be left out.
        """
        found, limits = self.findings, self._limits
        count = len(chosen) - 1
        follows = follows[:count]
        elapsed = np.array([s.elapsed for s in chosen[1:]])[: len(follows)]
        stopped = np.array([s.stopped_for for s in chosen[1:]])[: len(follows)]
        boxed = ~np.array([s.moving for s in chosen[1:]], dtype=bool)[: len(follows)]
        turns = np.abs(np.diff(joints, axis=0))
        metres = np.linalg.norm(np.diff(positions, axis=0), axis=1)
        cosine = 0.5 * (np.einsum("nij,nij->n", rotations[:-1], rotations[1:]) - 1.0)
        # Of a small angle the cosine says little; the skew part says it.
        skew = np.swapaxes(rotations[:-1], 1, 2) @ rotations[1:]
        sine = 0.5 * np.linalg.norm(
            np.stack(
                [
                    skew[:, 2, 1] - skew[:, 1, 2],
                    skew[:, 0, 2] - skew[:, 2, 0],
                    skew[:, 1, 0] - skew[:, 0, 1],
                ]
            ),
            axis=0,
        )
        radians = np.maximum(np.arctan2(sine, cosine) - _ANGLE_NOISE, 0.0)
        counted = np.clip(elapsed, 0.0, self._longest)
        passing = follows & (counted > 0.0)
        time = counted[passing]
        speed = np.minimum(self._arm.max_speed, limits.max_joint_speed)
        found.note("joint speed", turns[passing] / (speed * time[:, None]))
        free = passing & boxed
        time = counted[free]
        found.note("linear speed", metres[free] / (limits.max_linear_speed * time))
        found.note("angular speed", radians[free] / (limits.max_angular_speed * time))
        frozen = follows & (counted <= 0.0)
        found.require("moves in no time", not turns[frozen].any())
        late = follows & (stopped > _AT_REST_S)
        found.require("moves long after a stop", not (turns[late] > 1e-9).any())

    def _gripper(self, chosen: list[_Seen]) -> None:
        values = np.array([s.command.gripper_closed for s in chosen])
        self.findings.require(
            "gripper neither open nor closed", bool(np.isin(values, (0.0, 1.0)).all())
        )
        times = np.cumsum([min(max(s.elapsed, 0.0), self._longest) for s in chosen])
        changes = times[1:][np.diff(values) != 0.0]
        self.findings.note("gripper dwell", self._dwell / np.maximum(np.diff(changes), 1e-9))
