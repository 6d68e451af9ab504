"""From joint states and chunks to sent commands: the executor with its inputs and its back end.

Free of topics and services; the node wires it. One thread calls everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from xvla_ros.chunk import ChunkRefused
from xvla_ros.msg import ActionChunk
from xvla_ros.nodes.backends.base import Backend, Send
from xvla_ros.nodes.conversions import chunk_from_msg
from xvla_ros.nodes.deadman import DeadMan
from xvla_ros.nodes.joint_input import JointInput
from xvla_ros.nodes.last_command import LastCommand
from xvla_ros.scheduler.arm_io import ArmCommand, HeldCommand, JointMeasurement, Outcome
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.setpoint import SchedulerState

_REST_S = 1.0
_DRAIN_S = 0.3


class CommandLoop:
    """Everything that concerns the arm.

    Args:
        executor: decides.
        backend: sends.
        last_command: remembers what was sent last.
        clock: seconds on the ROS clock.
        deadman: while it is released the arm is stopped; None = there is none.

    Attributes:
        joints: the joint states that have come.
        point_periods: how far ahead a point is sent, in command periods.
    """

    def __init__(
        self,
        executor: ArmExecutor,
        backend: Backend,
        last_command: LastCommand,
        clock: Callable[[], float],
        deadman: DeadMan | None = None,
    ) -> None:
        self.executor = executor
        self.backend = backend
        self.joints = JointInput()
        self.point_periods = 1.0
        self._last_command = last_command
        self._clock = clock
        self._failed = False
        self._measured: JointMeasurement | None = None
        self._ready: Send | None = None
        self._deadman = deadman
        # The present stop is the dead-man's alone, and ends with it.
        self._let_go = False

    @property
    def period(self) -> float:
        """Seconds between two commands."""
        return self.executor.scheduler.params.period

    def measurement(self) -> JointMeasurement | None:
        """The newest joint states, with their true age."""
        return self.joints.measurement(self._clock(), time.monotonic())

    def tick(self) -> ArmCommand:
        """One command period: decides and, where it may reach the arm, sends."""
        command = self.decide()
        self.send(command)
        return command

    def decide(self, ahead: float = 0.0) -> ArmCommand:
        """The command that is to be sent in `ahead` seconds."""
        fault = self.hardware_fault()
        if fault and (self._let_go or not self.executor.scheduler.stopped):
            self.stop(fault)
        # A fault may pass before the arm has come to rest.
        self._failed = self._failed or bool(fault)
        self._obey_deadman()
        now, steady = self._clock() + ahead, time.monotonic() + ahead
        self._measured = self.joints.measurement(now, steady)
        command = self.executor.tick(now, self._measured)
        self._make_ready(command)
        if command.state is SchedulerState.SUSPENDED and self.joints.rejection:
            return replace(command, message=f"{command.message}: {self.joints.rejection}")
        return command

    def send(self, command: ArmCommand) -> None:
        """Sends what was decided, where it may reach the arm, and looks after the hardware."""
        sent = self._send(command)
        if self._failed:
            self._end_actuation()
        suspended = command.state is SchedulerState.SUSPENDED
        self.backend.watch(None if suspended else self._measured, sent)

    def _end_actuation(self) -> None:
        """Once the arm rests: a motor that is mended must not find a command waiting for it."""
        resting = not self.executor.moving and not self.executor.scheduler.executing
        if self.executor.actuating and resting:
            self.executor.set_actuation(False, self._clock(), None)

    def submit(self, message: ActionChunk) -> None:
        """Takes a chunk over.

        Raises:
            ChunkRefused: nothing but a counter has changed.
        """
        try:
            chunk = chunk_from_msg(message)
        except ChunkRefused as refused:
            self.executor.scheduler.refusals[refused.reason] += 1
            raise
        self.executor.submit(chunk, self._clock())

    def set_actuation(self, on: bool) -> Outcome:
        """Switches commands to the arm on or off."""
        if on and (reason := self.backend.missing()):
            return Outcome(False, reason)
        return self.executor.set_actuation(on, self._clock(), self.measurement())

    def go_to(self, joints: Sequence[float], name: str) -> Outcome:
        """Moves to joint angles (6,), slowly."""
        if reason := self.backend.missing():
            return Outcome(False, reason)
        target = np.array(joints, dtype=np.float64)
        return self.executor.go_to(target, self._clock(), self.measurement(), name)

    def stop(self, reason: str = "") -> None:
        """Latches; the next tick brakes."""
        self._let_go = False
        self.executor.stop(self._clock(), reason)

    def clear_stop(self) -> Outcome:
        """Releases a stop unless the hardware has a fault."""
        fault = self.hardware_fault()
        if fault:
            return Outcome(False, f"the stop remains: {fault}")
        self._failed = False
        self.executor.clear_stop(self._clock())
        return Outcome(True, "the stop is released")

    @property
    def may_start(self) -> bool:
        """Whether there is no button that somebody would have to hold first."""
        return not self._let_go

    def _obey_deadman(self) -> None:
        """Stops while the button is released; what had been stopped before remains stopped."""
        if self._deadman is None:
            return
        reason = self._deadman.released(time.monotonic())
        if reason and not self.executor.scheduler.stopped:
            self._let_go = True
            self.executor.stop(self._clock(), reason, "hold it")
        elif not reason and self._let_go:
            self._let_go = False
            self.executor.clear_stop(self._clock())

    def hardware_fault(self) -> str:
        """Why the hardware must not move, or empty."""
        health = self.backend.health()
        return "" if health is None else health.fault

    def policy_lost(self) -> None:
        """Brings the arm to rest; the next valid chunk goes on."""
        self.executor.policy_lost(self._clock())

    def rest_and_hold(self) -> bool:
        """Brakes within a bounded time, sends the hold command and switches actuation off.

        Returns:
            Whether the driver has acknowledged what was sent.
        """
        latched = self.executor.scheduler.stopped and not self._let_go
        self.stop()
        end = time.monotonic() + _REST_S
        while self.executor.moving or self.executor.scheduler.executing:
            self.tick()
            if time.monotonic() > end:
                break
            time.sleep(self.period)
        hold = self.executor.hold(self._clock())
        sent = False
        if hold is not None:
            self._make_ready(hold)
            sent = self._send(hold)
        self.executor.set_actuation(False, self._clock(), None)
        if not latched:
            self.clear_stop()
        return not sent or self.backend.drain(_DRAIN_S)

    def close(self) -> None:
        """Frees the publishers."""
        self.backend.close()

    def _send(self, command: ArmCommand) -> bool:
        if self._ready is None or command.joints is None:
            return False
        self._ready()
        held = HeldCommand(command.joints, command.gripper_closed)
        self._last_command.write(held, time.time())
        return True

    def _make_ready(self, command: ArmCommand) -> None:
        self._ready = None
        if command.publish and command.joints is not None and command.velocities is not None:
            ahead = self.point_periods * self.period
            self._ready = self.backend.ready(
                command.joints, command.velocities, command.gripper_closed, ahead
            )
