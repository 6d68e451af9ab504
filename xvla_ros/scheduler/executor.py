"""The whole command tick of an arm: chunks in, joint commands out.

Node and lockstep evaluation run exactly this. Pure: the time is an argument, the arm's kinematics
is injected. One thread calls everything.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from xvla_ros import names
from xvla_ros.chunk import Chunk, Plan
from xvla_ros.scheduler.arm_io import (
    ArmCommand,
    ArmModel,
    ExecutorStatus,
    HeldCommand,
    JointMeasurement,
    Outcome,
    staleness,
)
from xvla_ros.scheduler.commander import NOTHING, ArmCommander
from xvla_ros.scheduler.limits import StepLimiter
from xvla_ros.scheduler.moves import JointMove
from xvla_ros.scheduler.params import ExecutorParams
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import SchedulerState, Setpoint
from xvla_ros.scheduler.tracking import TrackingMonitor

Array = NDArray[np.float64]


class ArmExecutor:
    """Runs a `ChunkScheduler` on an arm.

    Attributes:
        scheduler: executes the chunks.
    """

    def __init__(
        self,
        scheduler: ChunkScheduler,
        arm: ArmModel,
        params: ExecutorParams | None = None,
        last_command: HeldCommand | None = None,
    ) -> None:
        """An executor with actuation off.

        Args:
            scheduler: executes the chunks; nobody else may reset or sample it.
            arm: kinematics.
            params: see `ExecutorParams`.
            last_command: what the servos still hold, if known.
        """
        self.scheduler = scheduler
        self._arm = arm
        self._params = params or ExecutorParams()
        self._limiter = StepLimiter(arm, self._params.limits)
        scheduler.set_workspace(self._limiter.box())
        self._commander = ArmCommander(scheduler, arm, self._limiter, last_command)
        self._monitor = TrackingMonitor()
        self._measured: JointMeasurement | None = None
        self._actuating = False
        self._suspended = False
        self._move: JointMove | None = None
        self._frozen: float | None = None
        self._backing_off = False
        self._label = ""
        self._stop_reason = ": call ~/clear_stop"

    @property
    def params(self) -> ExecutorParams:
        """Parameters; replacing them takes effect at the next tick."""
        return self._params

    @params.setter
    def params(self, params: ExecutorParams) -> None:
        self._params = params
        self._limiter.params = params.limits
        self.scheduler.set_workspace(self._limiter.box())

    @property
    def actuating(self) -> bool:
        """Whether commands of chunks reach the arm."""
        return self._actuating

    @property
    def moving(self) -> bool:
        """Whether a joint move (`go_to`, backing off) is under way."""
        return self._move is not None

    @property
    def limits(self) -> Counter[str]:
        """How often each limit acted."""
        return self._commander.counts

    def status(self) -> ExecutorStatus:
        """State and tracking error."""
        error, limits = self._monitor.error, dict(self.limits)
        return ExecutorStatus(self._state(), self._message(), self._actuating, error, limits)

    def plan(self, now: float) -> Plan:
        """What will be commanded if no other chunk arrives."""
        return self.scheduler.plan(now, self._actuating)

    def submit(self, chunk: Chunk, now: float) -> None:
        """Takes a chunk over.

        With actuation off it is a dry run: the plan shows the chunk from the measured pose on.

        Raises:
            ChunkRefused: the chunk is not executed.
        """
        if not self._actuating and self._move is None and self._measured is not None:
            self._commander.follow(self._measured, now)
        self.scheduler.submit(chunk, now)

    def set_actuation(self, on: bool, now: float, measured: JointMeasurement | None) -> Outcome:
        """Switches commands to the arm on or off."""
        if not on:
            self._actuating = False
            self._release()
            return Outcome(True, "actuation is off")
        if self._actuating:
            return Outcome(True, "actuation is on")
        refusal = self._not_ready(now, measured)
        if refusal or measured is None:
            return Outcome(False, refusal)
        outside = self._limiter.outside_box(self._arm.fk(measured.positions))
        if outside:
            return Outcome(False, outside)
        self._start_from(measured, now)
        self._actuating = True
        self._label = ""
        return Outcome(True, "actuation is on")

    def stop(self, now: float, reason: str = "", mend: str = "call ~/clear_stop") -> None:
        """Latches: the arm comes to rest at once and no chunk in flight will ever run."""
        self.scheduler.stop(now)
        self._stop_reason = f" ({reason}): {mend}" if reason else f": {mend}"
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
            if not self._limiter.outside_box(self._arm.fk(measured.positions)):
                return Outcome(False, "actuation is off: call ~/enable_actuation first")
            self._start_from(measured, now)
        move = self._commander.plan_move(target, self._params.move, self._params.limits)
        if isinstance(move, str):
            return Outcome(False, f"no move to {name}: {move}")
        self._begin_move(move, now, f"moving to {name}")
        return Outcome(True, self._label)

    def hold(self, now: float) -> ArmCommand | None:
        """Stays at the last command without braking: the last thing to send before a shutdown."""
        if self._commander.joints is None:
            return None
        self._release()
        self.scheduler.reset(self.scheduler.pose, self.scheduler.gripper, now)
        self._commander.still()
        return self._command(self.scheduler.sample(now), NOTHING)

    def tick(self, now: float, measured: JointMeasurement | None) -> ArmCommand:
        """One command period.

        Args:
            now: seconds on the clock of the chunks' stamps.
            measured: the newest joint states, None if there are none.
        """
        elapsed = self.scheduler.elapsed(now)
        stale = staleness(measured, now, self._params.joint_states_max_age_s)
        self._measured = None if stale else measured
        if self._commander.joints is None:
            self._label = stale
            if self._measured is None:
                return ArmCommand.unknown(stale)
            self._start_from(self._measured, now)
            self._label = ""
        if self._measured is None:
            self._suspend(stale)
        else:
            self._resume(self._measured, now)
            self._watch(elapsed, self._measured)
            self._back_off(elapsed, self._measured, now)
        advance = self.scheduler.propose(now)
        if self._move is not None:
            command = self._command(self._commander.move(advance, self._move), NOTHING)
        else:
            command = self._command(*self._commander.step(advance))
        self._finish(now)
        return command

    def _finish(self, now: float) -> None:
        """Ends a move that is done; lets the idle command follow an arm that is not actuated."""
        if self._move is not None:
            if self._move.done:
                self._move, self._backing_off = None, False
                self._label = self._label if self._busy else ""
                self._refresh_busy()
                self._commander.still()
                self.scheduler.reset(self.scheduler.pose, self.scheduler.gripper, now)
        elif not self._actuating and not self.scheduler.executing and self._measured is not None:
            self._commander.follow(self._measured, now)

    def _watch(self, elapsed: float, measured: JointMeasurement) -> None:
        """Freezes an arm that does not follow or strains."""
        excused = self.scheduler.stopped or self._frozen is not None or self._backing_off
        if not self._actuating or excused:
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
        self._label = f"{names.BLOCKED} ({bound})"
        self.scheduler.rest(hard=True)
        self.scheduler.new_epoch()
        if self._move is not None:
            self._move.halt()
        self._refresh_busy()

    def _back_off(self, elapsed: float, measured: JointMeasurement, now: float) -> None:
        """Moves the command of a frozen arm to where the arm is."""
        if self._frozen is None:
            return
        self._frozen -= elapsed
        if self._frozen <= 0.0 and self._move is None and not self.scheduler.executing:
            self._frozen = None
            self._begin_move(
                self._commander.back_to(self._clip(measured.positions), self._params.move),
                now,
                f"{self._label}: backing off",
            )
            self._backing_off = True

    def _suspend(self, stale: str) -> None:
        """Rests until joint states are back."""
        self._label = stale
        if not self._suspended:
            self._suspended = True
            self._frozen = None
            self.scheduler.rest(hard=True)
            if self._move is not None:
                self._move.halt()
        self._refresh_busy()

    def _resume(self, measured: JointMeasurement, now: float) -> None:
        """Goes on after joint states are back, from where the arm is now.

        Where the command has not come to rest yet, the arm is on its way behind it: there the
        command goes on to its rest, and a chunk may take it from there.
        """
        if not self._suspended or self._move is not None:
            return
        self._suspended = False
        self._label = ""
        self._refresh_busy()
        if self._commander.velocities.any():
            return
        self._start_from(measured, now)
        outside = self._limiter.outside_box(self._arm.fk(measured.positions))
        if self._actuating and outside:
            self._actuating = False
            self._label = f"actuation was switched off: {outside}"

    def _start_from(self, measured: JointMeasurement, now: float) -> None:
        self._commander.start_from(measured, now, self._params.resume_tolerance_rad)
        self._monitor.reset()

    def _begin_move(self, move: JointMove, now: float, label: str) -> None:
        self._move, self._label = move, label
        self.scheduler.reset(self.scheduler.pose, self.scheduler.gripper, now)
        self._refresh_busy()

    def _release(self) -> None:
        """Drops a move or a freeze where it is."""
        if self._move is not None or self._frozen is not None:
            self._move = self._frozen = None
            self._backing_off = False
            self._label = self._label if self._suspended else ""
            self._commander.still()
            self._refresh_busy()

    @property
    def _busy(self) -> bool:
        return self._suspended or self._move is not None or self._frozen is not None

    def _refresh_busy(self) -> None:
        self.scheduler.set_busy(self._label if self._busy else "")

    def _not_ready(self, now: float, measured: JointMeasurement | None) -> str:
        """Why the arm cannot be set in motion, or empty."""
        if self.scheduler.stopped:
            return f"stopped{self._stop_reason} first"
        stale = staleness(measured, now, self._params.joint_states_max_age_s)
        if stale or self._busy:
            return stale or f"not now: {self._label}"
        return ""

    def _clip(self, joints: Array) -> Array:
        return np.clip(joints, self._arm.lower, self._arm.upper)

    def _state(self) -> SchedulerState:
        if self._suspended and not self.scheduler.stopped:
            return SchedulerState.SUSPENDED
        return self.scheduler.state

    def _message(self) -> str:
        if self.scheduler.stopped:
            return f"stopped{self._stop_reason} to go on"
        if not self._label and self._commander.barrier:
            return f"resting: the chunk leads beyond a limit ({self._commander.barrier})"
        return self._label

    def _command(self, setpoint: Setpoint, acted: frozenset[str]) -> ArmCommand:
        resting = self._suspended and not self._commander.velocities.any()
        publish = self._move is not None or (self._actuating and not resting)
        return self._commander.command(
            setpoint, publish, self._state(), tuple(sorted(acted)), self._message()
        )
