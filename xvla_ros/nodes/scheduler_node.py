"""The node `chunk_scheduler`: chunks and joint states in, arm commands out.

Everything runs in one thread. Commands are due at absolute times of the steady clock; callbacks
run between them (`cycle`). What is slower than a command (plan, status, diagnostics, display) is
done after a command has been sent, one thing per period, so that it never delays one.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import ChunkRefused
from xvla_ros.msg import ActionChunk
from xvla_ros.nodes import process, qos
from xvla_ros.nodes.backends.base import BackendError, make_backend
from xvla_ros.nodes.command_loop import CommandLoop
from xvla_ros.nodes.conversions import now_seconds
from xvla_ros.nodes.cycle import Cycle, spin
from xvla_ros.nodes.deadman import DeadMan, DeadManInput
from xvla_ros.nodes.last_command import LastCommand
from xvla_ros.nodes.lifecycle import LifecycleNode
from xvla_ros.nodes.parameters.declaration import Values, declare, read
from xvla_ros.nodes.priority import raise_priority
from xvla_ros.nodes.scheduler_publishers import SchedulerPublishers
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS, build, check
from xvla_ros.scheduler.arm_io import ArmCommand, Outcome
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import SchedulerState

_LOG_EVERY_S = 2.0


@dataclass
class _Parts:
    """What exists between configure and cleanup."""

    loop: CommandLoop
    publishers: SchedulerPublishers
    subscriptions: list[Subscription]
    cycle: Cycle
    deadman: DeadManInput | None


class SchedulerNode(LifecycleNode):
    """Wires a `CommandLoop` to topics, services and a timer."""

    expected_errors = (ValueError, OSError, BackendError)

    def __init__(self, priority: str = "normal", **options: Any) -> None:
        super().__init__(names.SCHEDULER_NODE, **options)
        self._values = declare(
            self, SCHEDULER_PARAMETERS, check=check, on_change=self._on_parameters
        )
        self._priority = priority
        self._arm = WidowX250s()
        self._parts: _Parts | None = None
        self._active = False
        self._command: ArmCommand | None = None
        # A stop holds whatever state the node is in, and through cleanup and configure.
        self._stopped = False
        self._may_start = bool(self._values["start_actuation"])
        self._start_pending = False
        self._policy_alive = False
        self._told: tuple[object, ...] = ()
        self._refusals_logged: dict[str, float] = {}
        self.create_service(SetBool, names.ENABLE_ACTUATION, self._on_enable)
        self.create_service(Trigger, names.STOP, self._on_stop)
        self.create_service(Trigger, names.CLEAR_STOP, self._on_clear_stop)
        for service, joints, name in (
            (names.GO_READY, constants.READY, "the ready pose"),
            (names.GO_SLEEP, constants.SLEEP, "the sleep pose"),
        ):
            self.create_service(Trigger, service, partial(self._on_go, joints, name))

    # ------------------------------------------------------------------ transitions

    def configure(self) -> None:
        """Makes the executor, its topics and the command timer; nothing moves yet."""
        self._values = read(self, SCHEDULER_PARAMETERS)
        robot = str(self._values["robot_name"])
        scheduler_params, executor_params = build(self._values)
        backend = make_backend(str(self._values["backend"]), self, self._values)
        last_command = LastCommand(_state_folder() / f"last_command{self._identity()}")
        # Milliseconds since 1970: no earlier process can have used the epoch.
        scheduler = ChunkScheduler(scheduler_params, epoch=time.time_ns() // 1_000_000)
        executor = ArmExecutor(
            scheduler, self._arm, executor_params, last_command.read(time.time())
        )
        deadman = inputs = None
        if self._values["deadman.enabled"]:
            deadman = DeadMan(float(self._values["deadman.timeout_s"]))  # type: ignore[arg-type]
            inputs = DeadManInput(self, int(self._values["deadman.button"]), deadman)  # type: ignore[arg-type]
        loop = CommandLoop(executor, backend, last_command, self._now, deadman)
        base = names.base_frame(robot)
        publishers = SchedulerPublishers(self, loop, self._arm, base, self._priority)
        subscriptions = [
            self.create_subscription(
                JointState, names.joint_states(robot), self._on_joint_states, qos.JOINT_STATES
            ),
            self.create_subscription(
                ActionChunk,
                names.ACTION_CHUNK,
                self._on_chunk,
                qos.CHUNK,
                event_callbacks=SubscriptionEventCallbacks(liveliness=self._on_liveliness),
            ),
        ]
        cycle = Cycle(scheduler_params.period, time.monotonic())
        self._parts = _Parts(loop, publishers, subscriptions, cycle, inputs)
        self._apply(self._values)
        if self._stopped:
            loop.stop()
        self.get_logger().info(
            f"commands at {scheduler_params.command_rate_hz:g} Hz, priority: {self._priority}"
        )

    def activate(self) -> None:
        """Chunks are taken from now on; actuation is off unless this is a start with it on."""
        assert self._parts is not None
        self._start_pending, self._may_start = self._may_start, False
        self._active = True
        # What lives for long is kept out of garbage collections; housekeeping collects the rest.
        gc.collect()
        gc.freeze()
        gc.disable()
        self._parts.publishers.meter.restart()

    def deactivate(self) -> None:
        """Brings the arm to rest and sends the hold command while publishers still work."""
        self._active = self._start_pending = False
        if self._parts is not None and not self._parts.loop.rest_and_hold():
            self.get_logger().warning("the driver did not acknowledge the hold command")

    def cleanup(self) -> None:
        """Frees what `configure` made."""
        parts, self._parts = self._parts, None
        if parts is None:
            return
        gc.enable()
        for subscription in parts.subscriptions:
            self.destroy_subscription(subscription)
        if parts.deadman is not None:
            parts.deadman.close()
        parts.publishers.close()
        parts.loop.close()

    # ------------------------------------------------------------------ commands

    @property
    def cycle(self) -> Cycle | None:
        """When commands are due; None while the node is not configured."""
        return None if self._parts is None else self._parts.cycle

    def prepare(self, ahead: float) -> None:
        """Decides the command that is due in `ahead` seconds."""
        if self._parts is not None:
            self._command = self._parts.loop.decide(ahead) if self._active else None

    def carry_out(self, late: float) -> None:
        """Sends the command; anything else comes after that."""
        if self._parts is None:
            return
        loop, publishers, command = self._parts.loop, self._parts.publishers, self._command
        if command is not None:
            loop.send(command)
        publishers.meter.tick(time.monotonic(), late)
        publishers.meter.missed = self._parts.cycle.missed
        if command is not None:
            publishers.poses(command)
            pending = self._start_pending and loop.may_start and command.joints is not None
            if pending and loop.backend.listeners():
                self._start_pending = False
                outcome = loop.set_actuation(True)
                if not outcome.accepted:
                    self.get_logger().error(f"start_actuation refused: {outcome.message}")
            self._tell(command, loop.executor.actuating)
        publishers.housekeeping(time.monotonic(), command)

    def _tell(self, command: ArmCommand, actuating: bool) -> None:
        """Logs a change of state, once."""
        told = (command.state, actuating)
        if told == self._told:
            return
        self._told = told
        text = f"{command.state.name}, actuation {'on' if actuating else 'off'}"
        if command.message:
            text += f": {command.message}"
        if command.state in (SchedulerState.STOPPED, SchedulerState.SUSPENDED):
            self.get_logger().warning(text)
        else:
            self.get_logger().info(text)

    # ------------------------------------------------------------------ inputs

    def _on_joint_states(self, message: JointState) -> None:
        if self._parts is None:
            return
        try:
            self._parts.loop.joints.take(message, self._now(), time.monotonic())
        except ValueError as error:
            self.get_logger().error(f"joint states: {error}", throttle_duration_sec=_LOG_EVERY_S)

    def _on_chunk(self, message: ActionChunk) -> None:
        if self._parts is None or not self._active:
            return
        try:
            self._parts.loop.submit(message)
        except ChunkRefused as refused:
            self._log_refusal(message.sequence, refused)

    def _log_refusal(self, sequence: int, refused: ChunkRefused) -> None:
        """Logs each reason at most every few seconds; the counters hold them all."""
        steady = time.monotonic()
        last = self._refusals_logged.get(refused.reason.value)
        if last is None or steady - last >= _LOG_EVERY_S:
            self._refusals_logged[refused.reason.value] = steady
            self.get_logger().warning(f"chunk {sequence} refused: {refused}")

    def _on_liveliness(self, event: Any) -> None:
        """Brings the arm to rest when no policy shows signs of life any more."""
        alive = event.alive_count > 0
        lost = self._policy_alive and not alive
        self._policy_alive = alive
        if lost and self._parts is not None:
            self.get_logger().warning("the policy is gone: resting until it is back")
            self._parts.loop.policy_lost()

    def _on_parameters(self, values: Values) -> None:
        self._values = values
        self._apply(values)

    def _apply(self, values: Values) -> None:
        if self._parts is None:
            return
        loop = self._parts.loop
        loop.executor.scheduler.params, loop.executor.params = build(values)
        loop.point_periods = float(values["point_periods"])  # type: ignore[arg-type]
        self._parts.publishers.path_rate = float(values["path_rate_hz"])  # type: ignore[arg-type]

    # ------------------------------------------------------------------ services

    def _on_enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._start_pending = self._start_pending and request.data
        if self._parts is not None and self._active:
            return _answer(response, self._parts.loop.set_actuation(request.data))
        if request.data:
            return _answer(response, Outcome(False, "the node is not active"))
        return _answer(response, Outcome(True, "actuation is off"))

    def _on_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._stopped = True
        self._start_pending = False
        if self._parts is not None:
            self._parts.loop.stop()
        return _answer(response, Outcome(True, "stopped: call ~/clear_stop to go on"))

    def _on_clear_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        outcome = Outcome(True, "the stop is released")
        if self._parts is not None:
            outcome = self._parts.loop.clear_stop()
        self._stopped = not outcome.accepted
        return _answer(response, outcome)

    def _on_go(
        self, joints: Sequence[float], name: str, _: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        if self._parts is None or not self._active:
            return _answer(response, Outcome(False, "the node is not active"))
        return _answer(response, self._parts.loop.go_to(joints, name))

    # ------------------------------------------------------------------ small things

    def _now(self) -> float:
        return now_seconds(self.get_clock())

    def _identity(self) -> str:
        """The node's full name, with its ROS domain, as part of a file name."""
        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        return self.get_fully_qualified_name().replace("/", ".") + f".{domain}"


def _answer(response: Any, outcome: Outcome) -> Any:
    response.success, response.message = outcome.accepted, outcome.message
    return response


def _state_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"xvla_ros-{os.getuid()}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the node until it is asked to stop; returns the exit code."""
    make = partial(SchedulerNode, raise_priority())
    return process.run(make, names.SCHEDULER_NODE, SCHEDULER_PARAMETERS, argv, spin=spin)


if __name__ == "__main__":
    sys.exit(main())
