"""The whole command tick of an arm: chunks in, joint commands out.

Node and lockstep evaluation run exactly this. Pure: the time is an argument, the arm's kinematics
is injected. One thread calls everything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xvla_ros.chunk import Chunk, Plan
from xvla_ros.scheduler.arm_io import ArmCommand, ArmModel, JointMeasurement, Outcome
from xvla_ros.scheduler.limits import StepLimiter
from xvla_ros.scheduler.moves import JointMove
from xvla_ros.scheduler.params import ExecutorParams
from xvla_ros.scheduler.rate import stop_distance
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import Advance, SchedulerState, Setpoint
from xvla_ros.scheduler.tracking import TrackingMonitor

Array = NDArray[np.float64]

# An arm that sags or leans on the edge of its box by this much may still be started, metres.
_BOX_SLACK = 0.005


@dataclass(frozen=True)
class ExecutorStatus:
    """State and counters, as far as they are not in `ArmCommand`."""

    state: SchedulerState
    message: str
    actuating: bool
    tracking_error: tuple[float, float]
    """Between command and measurement: metres, radians."""
    limits: dict[str, int]
    """How often each limit acted."""


class ArmExecutor:
    """Runs a `ChunkScheduler` on an arm.

    Attributes:
        scheduler: executes the chunks.
        limits: how often each limit acted.
    """

    def __init__(
        self,
        scheduler: ChunkScheduler,
        arm: ArmModel,
        params: ExecutorParams | None = None,
        last_command: Array | None = None,
    ) -> None:
        """An executor with actuation off.

        Args:
            scheduler: executes the chunks; nobody else may reset or sample it.
            arm: kinematics.
            params: see `ExecutorParams`.
            last_command: (6,) joint angles that the servos still hold, if known.
        """
        self.scheduler = scheduler
        self.limits: Counter[str] = Counter()
        self._arm = arm
        self._params = params or ExecutorParams()
        self._limiter = StepLimiter(arm, self._params.limits)
        self._monitor = TrackingMonitor()
        self._actuating = False
        self._suspended = False
        self._joints: Array | None = None
        self._velocities = np.zeros(6)
        self._measured: JointMeasurement | None = None
        self._published: tuple[Array, float | None] | None = (
            None if last_command is None else (last_command, None)
        )
        self._move: JointMove | None = None
        self._frozen: float | None = None
        self._now: float | None = None
        self._label = ""

    @property
    def params(self) -> ExecutorParams:
        """Parameters; replacing them takes effect at the next tick."""
        return self._params

    @params.setter
    def params(self, params: ExecutorParams) -> None:
        self._params = params
        self._limiter.params = params.limits

    @property
    def actuating(self) -> bool:
        """Whether commands of chunks reach the arm."""
        return self._actuating

    @property
    def moving(self) -> bool:
        """Whether a joint move (`go_to`, backing off) is under way."""
        return self._move is not None

    def status(self) -> ExecutorStatus:
        """State and counters."""
        return ExecutorStatus(
            self._state(), self._message(), self._actuating, self._monitor.error, dict(self.limits)
        )

    def plan(self, now: float) -> Plan:
        """What will be commanded if no other chunk arrives."""
        return self.scheduler.plan(now, self._actuating)

    def submit(self, chunk: Chunk, now: float) -> None:
        """Takes a chunk over.

        With actuation off it is a dry run: the plan shows the chunk from the measured pose on.

        Raises:
            ChunkRefused: the chunk is not executed.
        """
        if not self._actuating and self._move is None:
            self._follow(now)
        self.scheduler.submit(chunk, now)

    def set_actuation(self, on: bool, now: float, measured: JointMeasurement | None) -> Outcome:
        """Switches commands to the arm on or off."""
        if not on:
            self._actuating = False
            self._cancel_move()
            return Outcome(True, "actuation is off")
        if self._actuating:
            return Outcome(True, "actuation is on")
        refusal = self._not_ready(now, measured)
        if refusal or measured is None:
            return Outcome(False, refusal)
        outside = self._outside(measured)
        if outside:
            return Outcome(False, outside)
        self._start_from(measured, now)
        self._actuating = True
        self._label = ""
        return Outcome(True, "actuation is on")

    def stop(self, now: float) -> None:
        """Latches: the arm comes to rest at once and no chunk in flight will ever run."""
        self.scheduler.stop(now)
        self._frozen = None
        if self._move is not None:
            self._move.halt()
        self._refresh_busy()

    def clear_stop(self, now: float) -> None:
        """Releases a stop; the arm stays where it is."""
        self.scheduler.clear_stop(now)

    def policy_lost(self, now: float) -> None:
        """The policy's liveliness is lost: the arm comes to rest."""
        self.scheduler.policy_lost(now)

    def go_to(
        self, joints: Array, now: float, measured: JointMeasurement | None, name: str = "a pose"
    ) -> Outcome:
        """Moves to joint angles (6,), slowly; chunks are refused meanwhile.

        With actuation off this is possible only from outside the workspace, where actuation
        cannot be switched on: it is the way back in.
        """
        refusal = self._not_ready(now, measured)
        if refusal or measured is None:
            return Outcome(False, refusal)
        target = np.asarray(joints, dtype=np.float64)
        if target.shape != (6,) or not (self._clip(target) == target).all():
            return Outcome(False, f"{name} lies outside the joint limits")
        if not self._actuating:
            if not self._outside(measured):
                return Outcome(False, "actuation is off: call ~/enable_actuation first")
            self._start_from(measured, now)
        self._begin_move(target, now, f"moving to {name}")
        return Outcome(True, f"moving to {name}")

    def hold(self, now: float) -> ArmCommand | None:
        """Stays at the last command without braking: the last thing to send before a shutdown."""
        if self._joints is None:
            return None
        self._cancel_move()
        self.scheduler.reset(self.scheduler.pose, self.scheduler.gripper, now)
        self._velocities = np.zeros(6)
        return self._command(self.scheduler.sample(now), frozenset())

    def tick(self, now: float, measured: JointMeasurement | None) -> ArmCommand:
        """One command period.

        Args:
            now: seconds on the clock of the chunks' stamps.
            measured: the newest joint states, None if there are none.
        """
        elapsed = self._elapsed(now)
        fresh = measured if self._staleness(now, measured) == "" else None
        self._measured = fresh
        if self._joints is None:
            if fresh is None:
                return self._silence(self._staleness(now, measured))
            self._start_from(fresh, now)
        self._suspend_or_resume(now, measured, fresh)
        if fresh is not None:
            self._watch(elapsed, fresh)
            self._back_off(elapsed, now, fresh)
        advance = self.scheduler.propose(now)
        if self._move is not None:
            setpoint, acted = self._move_step(advance, self._move), frozenset[str]()
        else:
            setpoint, acted = self._limited_step(advance)
        command = self._command(setpoint, acted)
        self._after(now)
        return command

    def _limited_step(self, advance: Advance) -> tuple[Setpoint, frozenset[str]]:
        assert self._joints is not None
        step = self._limiter.limit(advance, self._joints)
        setpoint = self.scheduler.commit(advance, step.fraction, step.pose)
        self._set_joints(step.joints, advance.elapsed)
        acted = step.acted
        if step.blocked:
            self.scheduler.rest()
        elif self.scheduler.executing:
            # The arm must be able to stop before the path leaves its reach.
            ahead = stop_distance(advance.rate, self.scheduler.params.rate) + advance.elapsed
            pose = advance.pose_ahead(ahead)
            barrier = None if pose is None else self._limiter.reachable(pose, step.joints)
            if barrier is not None:
                acted = acted | {barrier}
                self.scheduler.rest()
        self.limits.update(acted)
        return setpoint, acted

    def _move_step(self, advance: Advance, move: JointMove) -> Setpoint:
        joints = move.advance(advance.elapsed)
        self._set_joints(joints, advance.elapsed)
        return self.scheduler.commit(advance, 0.0, self._arm.fk(joints))

    def _after(self, now: float) -> None:
        """Ends a move that is done; lets the idle command follow an arm that is not actuated."""
        if self._move is not None:
            if self._move.done:
                self._cancel_move()
                self.scheduler.reset(self.scheduler.pose, self.scheduler.gripper, now)
        elif not self._actuating and not self.scheduler.executing:
            self._follow(now)

    def _watch(self, elapsed: float, measured: JointMeasurement) -> None:
        """Freezes an arm that does not follow or strains."""
        if not self._actuating or self.scheduler.stopped or self._frozen is not None:
            self._monitor.reset()
            return
        bound = self._monitor.update(
            elapsed,
            self.scheduler.pose,
            self._arm.fk(measured.positions),
            measured.efforts,
            self._params.tracking,
            self._params.limits,
        )
        if bound is None:
            return
        self.limits[bound] += 1
        self._frozen = self._params.tracking.freeze_s
        self._label = f"the arm is blocked ({bound})"
        self.scheduler.rest(hard=True)
        self.scheduler.new_epoch()
        if self._move is not None:
            self._move.halt()
        self._refresh_busy()

    def _back_off(self, elapsed: float, now: float, measured: JointMeasurement) -> None:
        """Moves the command of a frozen arm to where the arm is."""
        if self._frozen is None:
            return
        self._frozen -= elapsed
        if self._frozen <= 0.0 and self._move is None and not self.scheduler.executing:
            self._frozen = None
            self._begin_move(self._clip(measured.positions), now, f"{self._label}: backing off")

    def _suspend_or_resume(
        self, now: float, measured: JointMeasurement | None, fresh: JointMeasurement | None
    ) -> None:
        if fresh is None:
            self._label = self._staleness(now, measured)
            if not self._suspended:
                self._suspended = True
                self._frozen = None
                self.scheduler.rest(hard=True)
                if self._move is not None:
                    self._move.halt()
            self._refresh_busy()
        elif self._suspended and self._move is None:
            self._suspended = False
            self._label = ""
            self._refresh_busy()
            self._start_from(fresh, now)
            outside = self._outside(fresh)
            if self._actuating and outside:
                self._actuating = False
                self._label = f"actuation was switched off: {outside}"

    def _begin_move(self, target: Array, now: float, label: str) -> None:
        assert self._joints is not None
        self._move = JointMove(self._joints, self._velocities, target, self._params.move)
        self._label = label
        self.scheduler.reset(self.scheduler.pose, self.scheduler.gripper, now)
        self._refresh_busy()

    def _cancel_move(self) -> None:
        if self._move is not None or self._frozen is not None:
            self._move = self._frozen = None
            self._label = self._label if self._suspended else ""
            self._refresh_busy()

    def _refresh_busy(self) -> None:
        busy = self._suspended or self._move is not None or self._frozen is not None
        self.scheduler.set_busy(self._label if busy else "")

    def _start_from(self, measured: JointMeasurement, now: float) -> None:
        """Holds the last command if the arm is still there, else where the arm is."""
        joints, gripper = measured.positions, measured.gripper_closed
        if self._published is not None:
            last, last_gripper = self._published
            if np.abs(last - joints).max() <= self._params.resume_tolerance_rad:
                joints, gripper = last, last_gripper if last_gripper is not None else gripper
        self._joints = joints
        self._velocities = np.zeros(6)
        self._monitor.reset()
        self.scheduler.reset(
            self._arm.fk(joints), self.scheduler.gripper if gripper is None else gripper, now
        )

    def _follow(self, now: float) -> None:
        """The command of an arm that is not actuated is where the arm is."""
        if self._measured is None:
            return
        self._joints = self._measured.positions
        self._velocities = np.zeros(6)
        gripper = self._measured.gripper_closed
        self.scheduler.follow(
            self._arm.fk(self._joints), self.scheduler.gripper if gripper is None else gripper, now
        )

    def _elapsed(self, now: float) -> float:
        """Seconds since the last tick, as bounded as plan time is."""
        elapsed = 0.0 if self._now is None else now - self._now
        self._now = now
        return min(max(elapsed, 0.0), 2.0 * self.scheduler.params.period)

    def _staleness(self, now: float, measured: JointMeasurement | None) -> str:
        """Why joint states cannot be used, or empty."""
        if measured is None:
            return "no joint states have come"
        if not measured.is_finite():
            return "the joint states are not six finite numbers"
        age = now - measured.stamp
        if age > self._params.joint_states_max_age_s:
            return f"joint states are {age:.2f} s old"
        if age < -self._params.joint_states_max_age_s:
            return f"clocks differ: joint states are {-age:.2f} s in the future"
        return ""

    def _not_ready(self, now: float, measured: JointMeasurement | None) -> str:
        """Why the arm cannot be set in motion, or empty."""
        if self.scheduler.stopped:
            return "stopped: call ~/clear_stop first"
        if self._suspended or self._staleness(now, measured):
            return self._staleness(now, measured) or "joint states have only just come back"
        if self._move is not None or self._frozen is not None:
            return f"not now: {self._label}"
        return ""

    def _outside(self, measured: JointMeasurement) -> str:
        """How the arm is outside its workspace and what to do about it, or empty."""
        position = self._arm.fk(measured.positions).position
        beyond = self._limiter.outside(position)
        if np.abs(beyond).max() <= _BOX_SLACK:
            return ""
        parts = [f"{d:+.3f} m in {axis}" for axis, d in zip("xyz", beyond, strict=True) if d != 0]
        return (
            f"the end effector is outside the workspace by {', '.join(parts)}: call ~/go_ready, "
            "move the arm by hand, or change limits.workspace_min and limits.workspace_max"
        )

    def _clip(self, joints: Array) -> Array:
        return np.clip(joints, self._arm.lower, self._arm.upper)

    def _set_joints(self, joints: Array, elapsed: float) -> None:
        assert self._joints is not None
        if elapsed > 0.0:
            self._velocities = (joints - self._joints) / elapsed
        self._joints = joints

    def _state(self) -> SchedulerState:
        if self._suspended and not self.scheduler.stopped:
            return SchedulerState.SUSPENDED
        return self.scheduler.state

    def _message(self) -> str:
        if self.scheduler.stopped:
            return "stopped: call ~/clear_stop to go on"
        return self._label

    def _silence(self, reason: str) -> ArmCommand:
        """The command of an arm whose pose is not known."""
        self._label = reason
        return ArmCommand(
            False, None, None, 0.0, None, SchedulerState.SUSPENDED, 0, 0.0, 0.0, (), reason
        )

    def _command(self, setpoint: Setpoint, acted: frozenset[str]) -> ArmCommand:
        assert self._joints is not None
        in_motion = self._move is not None or self.scheduler.executing
        publish = self._move is not None or (self._actuating and (in_motion or not self._suspended))
        if publish:
            self._published = (self._joints, setpoint.gripper)
        return ArmCommand(
            publish,
            self._joints,
            self._velocities,
            setpoint.gripper,
            setpoint.pose,
            self._state(),
            setpoint.sequence,
            setpoint.rate,
            setpoint.remaining,
            tuple(sorted(acted)),
            self._message(),
        )
