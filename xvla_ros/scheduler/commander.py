"""The commanded state of an arm: where the servos are told to be, and how it moves on."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from xvla_ros.scheduler.arm_io import ArmModel, JointMeasurement
from xvla_ros.scheduler.limits import StepLimiter
from xvla_ros.scheduler.moves import JointMove
from xvla_ros.scheduler.rate import stop_distance
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import Advance, Setpoint

Array = NDArray[np.float64]
NOTHING: frozenset[str] = frozenset()


class ArmCommander:
    """Joint command and scheduler kept in step.

    Attributes:
        joints: (6,) last command, rad; None before the first measurement.
        velocities: (6,) of the last command, rad/s.
        barrier: the limit at which the arm rests, or empty.
        counts: how often each limit acted.
    """

    def __init__(
        self,
        scheduler: ChunkScheduler,
        arm: ArmModel,
        limiter: StepLimiter,
        last_command: Array | None,
    ) -> None:
        self.joints: Array | None = None
        self.velocities = np.zeros(6)
        self.barrier = ""
        self.counts: Counter[str] = Counter()
        self._scheduler = scheduler
        self._arm = arm
        self._limiter = limiter
        self._published = last_command
        self._published_gripper: float | None = None

    def start_from(self, measured: JointMeasurement, now: float, tolerance: float) -> None:
        """Holds the last command if the arm is within `tolerance` rad of it, else the arm."""
        joints, gripper = measured.positions, measured.gripper_closed
        last = self._published
        if last is not None and np.abs(last - joints).max() <= tolerance:
            joints = last
            gripper = gripper if self._published_gripper is None else self._published_gripper
        self._place(joints)
        held = self._scheduler.gripper if gripper is None else gripper
        self._scheduler.reset(self._arm.fk(joints), held, now)

    def follow(self, measured: JointMeasurement, now: float) -> None:
        """Is where the arm is: for an arm that is not commanded."""
        self._place(measured.positions)
        gripper = measured.gripper_closed
        self._scheduler.follow(
            self._arm.fk(measured.positions),
            self._scheduler.gripper if gripper is None else gripper,
            now,
        )

    def step(self, advance: Advance) -> tuple[Setpoint, frozenset[str]]:
        """Executes what the limits leave of an advance; also returns the limits that acted."""
        step = self._limiter.limit(advance, self._known())
        setpoint = self._scheduler.commit(advance, step.fraction, step.pose)
        self._go(step.joints, advance.elapsed)
        acted = step.acted
        if step.blocked:
            self._rest_at(" and ".join(sorted(acted)))
        elif self._scheduler.executing:
            self.barrier = ""
            ahead = self._barrier_ahead(advance, step.joints)
            if ahead is not None:
                acted = acted | {ahead}
                self._rest_at(ahead)
        self.counts.update(acted)
        return setpoint, acted

    def move(self, advance: Advance, move: JointMove) -> Setpoint:
        """Follows a joint move instead of the scheduler."""
        joints = move.advance(advance.elapsed)
        self._go(joints, advance.elapsed)
        return self._scheduler.commit(advance, 0.0, self._arm.fk(joints))

    def still(self) -> None:
        """Has no velocity: the command stays where it is."""
        self.velocities = np.zeros(6)

    def published(self, gripper: float) -> None:
        """The present command has reached the servos."""
        self._published = self.joints
        self._published_gripper = gripper

    def _barrier_ahead(self, advance: Advance, joints: Array) -> str | None:
        """The limit beyond which the arm could not stop if it went on; None while it can."""
        distance = stop_distance(advance.rate, self._scheduler.params.rate) + advance.elapsed
        pose = advance.pose_ahead(distance)
        return None if pose is None else self._limiter.reachable(pose, joints)

    def _rest_at(self, barrier: str) -> None:
        self.barrier = barrier
        self._scheduler.rest()

    def _known(self) -> Array:
        if self.joints is None:
            raise RuntimeError("the arm's joint angles are not known yet")
        return self.joints

    def _place(self, joints: Array) -> None:
        self.joints = joints
        self.velocities = np.zeros(6)
        self.barrier = ""

    def _go(self, joints: Array, elapsed: float) -> None:
        if elapsed > 0.0:
            self.velocities = (joints - self._known()) / elapsed
        self.joints = joints
