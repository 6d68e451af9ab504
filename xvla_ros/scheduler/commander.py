"""The commanded state of an arm: where the servos are told to be, and how it moves on."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from xvla_ros.scheduler.arm_io import ArmCommand, ArmModel, HeldCommand, JointMeasurement
from xvla_ros.scheduler.limits import StepLimiter
from xvla_ros.scheduler.moves import JointMove, slowed
from xvla_ros.scheduler.params import LimitParams, MoveParams
from xvla_ros.scheduler.rate import stop_distance
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import Advance, SchedulerState, Setpoint

Array = NDArray[np.float64]
NOTHING: frozenset[str] = frozenset()

# A joint move is judged at so many points, and slowed so often to keep the linear speed.
_MOVE_SAMPLES = 50
_SLOWER_ATTEMPTS = 3
_FLOOR_SLACK = 0.005


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
        last_command: HeldCommand | None,
    ) -> None:
        self.joints: Array | None = None
        self.velocities = np.zeros(6)
        self.barrier = ""
        self.counts: Counter[str] = Counter()
        self._scheduler = scheduler
        self._arm = arm
        self._limiter = limiter
        self._held = last_command

    def start_from(self, measured: JointMeasurement, now: float, tolerance: float) -> None:
        """Holds the last command if the arm is within `tolerance` rad of it, else the arm.

        The gripper's too: told to stay where it is measured, it would let go of what it holds.
        """
        joints, gripper = measured.positions, measured.gripper_or(self._scheduler.gripper)
        held = self._held
        if held is not None and np.abs(held.joints - joints).max() <= tolerance:
            joints, gripper = held.joints, held.gripper_closed
        self._place(joints)
        self._scheduler.reset(self._arm.fk(joints), gripper, now)

    def follow(self, measured: JointMeasurement, now: float) -> None:
        """Is where the arm is: for an arm that is not commanded."""
        self._place(measured.positions)
        gripper = measured.gripper_or(self._scheduler.gripper)
        self._scheduler.follow(self._arm.fk(measured.positions), gripper, now)

    def step(self, advance: Advance) -> tuple[Setpoint, frozenset[str]]:
        """Executes what the limits leave of an advance; also returns the limits that acted."""
        step = self._limiter.limit(advance, self._known())
        setpoint = self._scheduler.commit(advance, step.fraction, step.pose)
        self._go(step.joints, advance.elapsed)
        acted = step.acted
        if step.blocked:
            self._rest_at(" and ".join(sorted(acted)))
        elif self._scheduler.executing:
            ahead = self._barrier_ahead(advance, step.joints)
            if ahead is not None:
                acted = acted | {ahead}
                self._rest_at(ahead)
            elif not advance.rate.resting:
                # While it comes to rest the reason for it remains.
                self.barrier = ""
        self.counts.update(acted)
        return setpoint, acted

    def move(self, advance: Advance, move: JointMove) -> Setpoint:
        """Follows a joint move instead of the scheduler."""
        joints = move.advance(advance.elapsed)
        self._go(joints, advance.elapsed)
        return self._scheduler.commit(advance, 0.0, self._arm.fk(joints))

    def plan_move(self, target: Array, params: MoveParams, limits: LimitParams) -> JointMove | str:
        """A joint move that keeps the linear speed and stays above the floor, or why there is none.

        The sides and the top of the workspace do not bind: the move may be the way back in.
        """
        start = self._known()
        move = JointMove(start, self.velocities, target, params)
        for _ in range(_SLOWER_ATTEMPTS):
            joints, interval = move.ahead(_MOVE_SAMPLES)
            points = np.array([self._arm.fk(q).position for q in joints])
            floor = min(limits.workspace_min[2], float(points[0][2])) - _FLOOR_SLACK
            if points[:, 2].min() < floor:
                return (
                    f"its way leads down to z = {points[:, 2].min():.3f} m: move the arm up first"
                )
            steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
            excess = float(steps.max()) / max(limits.max_linear_speed * interval, 1e-9)
            if excess <= 1.0:
                break
            params = slowed(params, 0.95 / excess)
            move = JointMove(start, self.velocities, target, params)
        return move

    def back_to(self, target: Array, params: MoveParams) -> JointMove:
        """The move to where the arm already is: nothing can be in its way."""
        return JointMove(self._known(), self.velocities, target, params)

    def still(self) -> None:
        """Has no velocity: the command stays where it is."""
        self.velocities = np.zeros(6)

    def command(
        self,
        setpoint: Setpoint,
        publish: bool,
        state: SchedulerState,
        limits: tuple[str, ...],
        message: str,
    ) -> ArmCommand:
        """The present command, remembered as what the servos hold if it is published."""
        if publish:
            self._held = HeldCommand(self._known(), setpoint.gripper)
        return ArmCommand(
            publish=publish,
            joints=self.joints,
            velocities=self.velocities,
            gripper_closed=setpoint.gripper,
            pose=setpoint.pose,
            state=state,
            sequence=setpoint.sequence,
            rate=setpoint.rate,
            remaining=setpoint.remaining,
            limits=limits,
            message=message,
        )

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
