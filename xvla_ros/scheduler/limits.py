"""Limits of every command, in the order in which they act.

Workspace box (kept by the path itself); linear and angular speed; inverse kinematics; joint
limits; joint speed. Speeds are kept by executing less of the plan in a period, so the path stays
what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.geometry import Pose, interpolate
from xvla_ros.scheduler.arm_io import ArmModel
from xvla_ros.scheduler.blending import Box
from xvla_ros.scheduler.params import LimitParams
from xvla_ros.scheduler.setpoint import Advance

Array = NDArray[np.float64]

WORKSPACE = "workspace"
LINEAR_SPEED = "linear_speed"
ANGULAR_SPEED = "angular_speed"
IK = "inverse_kinematics"
JOINT_LIMIT = "joint_limit"
JOINT_SPEED = "joint_speed"
TRACKING = "tracking_error"
EFFORT = "effort"
NAMES = (
    WORKSPACE,
    LINEAR_SPEED,
    ANGULAR_SPEED,
    IK,
    JOINT_LIMIT,
    JOINT_SPEED,
    TRACKING,
    EFFORT,
)

# Of one step.
_ATTEMPTS = 8
# A shortened step is aimed this much below its bound, so that a curved path meets it at once.
_AIM = 0.999
# An arm that sags or leans on the edge of its box by this much may still be started, metres.
_BOX_SLACK = 0.005
_STILL_M = 1e-9
# What rounding may do to a joint at its margin, radians.
_ANGLE_SLACK = 1e-9
_STILL_RAD = 1e-8


@dataclass(frozen=True, eq=False)
class LimitedStep:
    """What the limits leave of an advance."""

    fraction: float
    """Of the advance, in plan time."""
    pose: Pose
    joints: Array
    acted: frozenset[str]
    """Names of the limits that acted."""
    blocked: bool = False
    """Nothing was possible: the last command stays."""


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Commands between the last one and the end of an advance, by a fraction in [0, 1]."""

    advance: Advance
    target: Pose | None = None
    """Set when the path has jumped away: the way to it is then a straight line."""

    def at(self, fraction: float) -> Pose:
        if self.target is not None:
            return interpolate(self.advance.held, self.target, fraction)
        return self.advance.pose(fraction)

    def straight(self) -> _Candidates:
        return _Candidates(self.advance, self.at(0.0))

    def committed(self, fraction: float) -> float:
        return fraction if self.target is None else 0.0


class StepLimiter:
    """Applies the limits to one command period after another."""

    def __init__(self, arm: ArmModel, params: LimitParams) -> None:
        self._arm = arm
        self.params = params

    def box(self) -> Box:
        """The workspace."""
        return Box(np.array(self.params.workspace_min), np.array(self.params.workspace_max))

    def outside_box(self, pose: Pose) -> str:
        """How a pose lies outside the workspace and what to do about it, or empty."""
        beyond = pose.position - self.box().nearest(pose.position)
        if np.abs(beyond).max() <= _BOX_SLACK:
            return ""
        parts = [f"{d:+.3f} m in {axis}" for axis, d in zip("xyz", beyond, strict=True) if d]
        return (
            f"the end effector is outside the workspace by {', '.join(parts)}: call ~/go_ready, "
            "move the arm by hand, or change limits.workspace_min and limits.workspace_max"
        )

    def limit(self, advance: Advance, joints: Array) -> LimitedStep:
        """The largest part of an advance that keeps every limit, from joint angles (6,)."""
        if advance.path is None or advance.elapsed <= 0.0:
            return LimitedStep(0.0, advance.held, joints, frozenset())
        acted: set[str] = set()
        whole = advance.pose()
        box = advance.path.box
        # The path has been kept inside the box; on its edge it may have been outside.
        if box is not None and ((whole.position <= box.low) | (whole.position >= box.high)).any():
            acted.add(WORKSPACE)
        metres, radians = advance.held.distance(whole)
        if metres < _STILL_M and radians < _STILL_RAD:
            return LimitedStep(1.0, advance.held, joints, frozenset(acted))
        return self._shortened(_Candidates(advance), whole, joints, acted)

    def reachable(self, pose: Pose, joints: Array) -> str | None:
        """The limit that keeps the arm from a pose, None if it can go there."""
        solution = self._arm.ik(pose, joints)
        if solution is None:
            return IK
        return JOINT_LIMIT if self._beyond_margin(solution, joints) else None

    def _shortened(
        self, candidates: _Candidates, whole: Pose, joints: Array, acted: set[str]
    ) -> LimitedStep:
        """Shortens the advance until it keeps the speeds and the arm can follow it.

        Every attempt is held against all limits: a curved path may be further away in its middle
        than at its end.
        """
        advance = candidates.advance
        excess = self._excess(advance, whole, acted)
        if excess > 1.0 and self._excess(advance, candidates.at(0.0), set()) > 1.0:
            candidates = candidates.straight()
            whole = candidates.at(1.0)
            excess = self._excess(advance, whole, set())
        fraction, pose, blocked = 1.0, whole, False
        for _ in range(_ATTEMPTS):
            blocked = excess <= 1.0
            if blocked:
                solution = self._solved(pose, joints, acted)
                if solution is None:
                    break
                excess = self._joint_excess(solution, joints, advance.elapsed, acted)
                if excess <= 1.0:
                    committed = candidates.committed(fraction)
                    return LimitedStep(committed, pose, solution, frozenset(acted))
            fraction *= _AIM / excess
            pose = candidates.at(fraction)
            excess = self._excess(advance, pose, set())
        return LimitedStep(0.0, advance.held, joints, frozenset(acted), blocked)

    def _excess(self, advance: Advance, pose: Pose, acted: set[str]) -> float:
        """Largest ratio of a speed to its limit; the limits that act are added to `acted`."""
        metres, radians = advance.held.distance(pose)
        linear = metres / (self.params.max_linear_speed * advance.elapsed)
        angular = radians / (self.params.max_angular_speed * advance.elapsed)
        if linear > 1.0:
            acted.add(LINEAR_SPEED)
        if angular > 1.0:
            acted.add(ANGULAR_SPEED)
        return max(linear, angular)

    def _solved(self, pose: Pose, joints: Array, acted: set[str]) -> Array | None:
        """Joint angles (6,) of a pose; None where a limit, added to `acted`, forbids them."""
        solution = self._arm.ik(pose, joints)
        if solution is None:
            acted.add(IK)
        elif self._beyond_margin(solution, joints):
            acted.add(JOINT_LIMIT)
            return None
        return solution

    def _joint_excess(
        self, solution: Array, joints: Array, elapsed: float, acted: set[str]
    ) -> float:
        """Largest ratio of a joint's speed to its limit; a limit that acts is added to `acted`."""
        reach = np.minimum(self._arm.max_speed, self.params.max_joint_speed) * elapsed
        excess = float(np.max(np.abs(solution - joints) / reach))
        if excess > 1.0:
            acted.add(JOINT_SPEED)
        return excess

    def _beyond_margin(self, solution: Array, joints: Array) -> bool:
        """Whether a joint enters the margin at its limit, or goes deeper into it."""
        margin = self.params.joint_margin_rad
        bounds = zip(
            solution.tolist(),
            joints.tolist(),
            self._arm.lower.tolist(),
            self._arm.upper.tolist(),
            strict=True,
        )
        return any(
            angle < min(low + margin, before) - _ANGLE_SLACK
            or angle > max(high - margin, before) + _ANGLE_SLACK
            for angle, before, low, high in bounds
        )
