"""The node `xvla_policy`: images and joint states in, action chunks out.

Wiring only: callbacks store (`policy_inputs`), timers ask (`policy_loop`), one thread infers
(`inference_worker`). torch is imported by that thread during configure, so that a broken
installation is a failed transition and not a dead process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.parameter import Parameter as RosParameter
from std_msgs.msg import String

from xvla_ros import names
from xvla_ros.msg import ActionChunk, PolicyStatus, SchedulerStatus
from xvla_ros.nodes import conversions as convert
from xvla_ros.nodes import policy_report, process, qos
from xvla_ros.nodes.inference_worker import InferenceWorker
from xvla_ros.nodes.lifecycle import LifecycleNode
from xvla_ros.nodes.parameters.declaration import Values, declare, read
from xvla_ros.nodes.policy_inputs import PolicyInputs
from xvla_ros.nodes.policy_loop import PolicyLoop, Settings
from xvla_ros.nodes.policy_state import Announcer, Assessment, State
from xvla_ros.nodes.priority import giving_way
from xvla_ros.nodes.run_task import TaskServer, faults
from xvla_ros.nodes.task_monitor import End, Progress, TaskMonitor, TaskParams
from xvla_ros.parameters import policy as parameters
from xvla_ros.runtime.device import DeviceError
from xvla_ros.runtime.observer import Frames
from xvla_ros.runtime.stages import StageClock
from xvla_ros.runtime.threads import describe_times

if TYPE_CHECKING:
    from xvla_ros.runtime.policy import LocalPolicy

_WATCH_S = 0.05
_STATUS_S = 0.5
_DIAGNOSTICS_S = 1.0
_ABANDON_S = 2.0
# Callbacks, a transition, a running task, and get_state while all of them are busy.
_THREADS = 4
# Preparing images, the inference thread gives the interpreter up and takes it again a dozen times.
# Callbacks that are at work let it wait for so long each time; Python's default is 5 ms.
_SWITCH_S = 0.0005


class PolicyNode(LifecycleNode):
    """Lifecycle shell of the policy.

    Everything of ROS lives as long as the node; configure and cleanup make and free the model
    alone. rclpy cannot destroy a subscription safely while another thread waits for it.
    """

    expected_errors = (ValueError, OSError, DeviceError, CancelledError)

    def __init__(self, **options: Any) -> None:
        super().__init__(names.POLICY_NODE, **options)
        self._worker: InferenceWorker | None = None
        self._policy: LocalPolicy | None = None
        self._loop: PolicyLoop | None = None
        self._model_values: Values | None = None
        values = self._values = declare(
            self, parameters.POLICY_PARAMETERS, check=self._check, on_change=self._on_change
        )
        self._sequence = 0
        self._told = Assessment(State.IDLE)
        self._announcer = Announcer()
        self._status_time = self._diagnostics_time = -_DIAGNOSTICS_S
        self._chunks = self.create_lifecycle_publisher(ActionChunk, names.ACTION_CHUNK, qos.CHUNK)
        self._status = self.create_publisher(PolicyStatus, names.STATUS, qos.STATUS)
        self._diagnostics = self.create_publisher(
            DiagnosticArray, names.DIAGNOSTICS, qos.DIAGNOSTICS
        )
        self._inputs = PolicyInputs(self, values, self._start)
        self._report = policy_report.Diagnostics(self._inputs)
        self._stop = self._blocked = ""
        self.create_subscription(
            SchedulerStatus,
            names.of(names.SCHEDULER_NODE, names.STATUS),
            self._on_scheduler,
            qos.STATUS,
        )
        self.create_subscription(String, names.INSTRUCTION, self._on_instruction, qos.INSTRUCTION)
        self._tasks = TaskServer(self, self._task_refusal, self._begin_task, self._apply)
        period = 1.0 / parameters.number(values["policy_rate_hz"])
        self._timer = self.create_timer(period, self._tick)
        # On the steady clock: a simulation that pauses must not silence the status.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_WATCH_S, self._watch, clock=steady)

    # Lifecycle.

    def configure(self) -> None:
        """Loads the model and runs it once."""
        values = self._values = read(self, parameters.POLICY_PARAMETERS)
        self._model_values = {p.name: values[p.name] for p in parameters.MODEL_PARAMETERS}
        if not values["model_path"]:
            raise ValueError("'model_path' is empty: give the folder of a checkpoint")
        start = time.monotonic()
        worker = self._worker = InferenceWorker()
        policy = self._policy = worker.call(partial(_load, values))
        loaded = time.monotonic()
        warm_up = worker.call(policy.warm_up)
        threads = {} if values["threads"] else worker.call(policy.choose_threads)
        # The hash of gigabytes may still be being computed; nobody else shall wait for it.
        worker.call(lambda: policy.model_hash)
        robot = str(values["robot_name"])
        self._loop = PolicyLoop(
            policy,
            worker,
            self._inputs,
            Frames(names.base_frame(robot), names.ee_frame(robot)),
            self._settings(),
            self._now,
            self._chunks.publish,
            self.get_logger(),
            _network_clock(policy),
            self._sequence,
        )
        if threads:
            self.get_logger().info(f"threads: {describe_times(threads)}")
        # With device auto it also tells why this one was chosen.
        self.get_logger().info(f"device: {policy.device_description}")
        self.get_logger().info(f"checkpoint: {policy.conventions}")
        for doubt in policy.doubts:
            self.get_logger().warning(f"checkpoint: {doubt}")
        self.get_logger().info(
            f"model {values['model_path']} ({policy.model_hash[:12]}) on {policy.device}, "
            f"domain {policy.domain_id}, {len(policy.time_grid)} steps, {policy.approximation}: "
            f"loaded in {loaded - start:.1f} s, first run {warm_up:.1f} s; "
            f"views {list(self._inputs.slots)} of {policy.num_views}"
        )

    def activate(self) -> None:
        """Begins to act on the instruction."""
        assert self._loop is not None
        self._loop.activate()

    def deactivate(self) -> None:
        """Ends the task and the inferences; a running one is waited for, within a bound."""
        self._tasks.end(End.DEACTIVATED, "the node was deactivated")
        timeout = parameters.number(self._values["stop_timeout_s"])
        if self._loop is not None and not self._loop.deactivate(timeout):
            self.get_logger().error(
                f"the running inference has not ended within {timeout:g} s; its result is dropped"
            )

    def cleanup(self) -> None:
        """Frees the device and everything that configure made."""
        loop, self._loop = self._loop, None
        if loop is not None:
            self._sequence = loop.sequence
        worker, self._worker = self._worker, None
        policy, self._policy = self._policy, None
        self._model_values = None
        if worker is None:
            return
        if policy is not None:
            worker.submit(policy.close)
        timeout = parameters.number(self._values["stop_timeout_s"])
        if not worker.close(timeout) and not worker.abandoned:
            self.get_logger().error(
                f"the inference thread has not ended within {timeout:g} s and is left behind"
            )

    def shut_down(self) -> None:
        """Ends a configure in progress first: loading a model may take longer than one waits."""
        worker = self._worker
        if worker is not None and self._loop is None:
            worker.abandon()
            end = time.monotonic() + _ABANDON_S
            while self._worker is not None and time.monotonic() < end:
                time.sleep(_WATCH_S)
        super().shut_down()

    def destroy_node(self) -> None:
        """Ends the action server too."""
        self._tasks.destroy()
        super().destroy_node()

    # Parameters and instruction.

    def _check(self, values: Values) -> str | None:
        """Why the values cannot be so together, or not now."""
        loaded = self._model_values
        if loaded is not None:
            for name, value in loaded.items():
                if values[name] != value:
                    return f"'{name}' is read by configure: bring the node to unconfigured first"
        return parameters.check(values)

    def _on_change(self, values: Values) -> None:
        self._values = values
        self._apply()

    def _apply(self) -> None:
        """Hands changed values to the parts that run."""
        self._inputs.set_values(self._values)
        if self._loop is not None:
            self._loop.settings = self._settings()
        period = round(1e9 / parameters.number(self._values["policy_rate_hz"]))
        if self._timer.timer_period_ns != period:
            self._timer.timer_period_ns = period

    def _settings(self) -> Settings:
        instruction = self._tasks.instruction or str(self._values["instruction"])
        return Settings(
            instruction=instruction.strip(),
            seed=int(parameters.number(self._values["seed"])),
            inference_timeout_s=parameters.number(self._values["inference_timeout_s"]),
        )

    def _on_instruction(self, message: String) -> None:
        self.set_parameters([RosParameter("instruction", value=message.data)])

    # Tasks.

    def _on_scheduler(self, message: SchedulerStatus) -> None:
        stopped = message.state == SchedulerStatus.STOPPED
        self._stop = (message.message or "stopped") if stopped else ""
        self._blocked = message.message if message.message.startswith(names.BLOCKED) else ""

    def _task_refusal(self) -> str | None:
        return None if self.is_active else "the node is not active"

    def _begin_task(self, max_duration: float) -> tuple[TaskMonitor, int]:
        values, now, loop = self._values, self._now(), self._loop
        params = TaskParams(
            settle_s=parameters.number(values["task.settle_s"]),
            settle_m=parameters.number(values["task.settle_m"]),
            settle_rad=parameters.number(values["task.settle_rad"]),
            stall_s=parameters.number(values["task.stall_s"]),
        )
        monitor = TaskMonitor(params, max_duration, now)
        return monitor, (self._sequence if loop is None else loop.sequence) + 1

    # What timers do.

    def _now(self) -> float:
        return convert.now_seconds(self.get_clock())

    def _tick(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.tick()

    def _start(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.try_start()

    def _watch(self) -> None:
        """Starts what is overdue, and tells how things are."""
        now, loop = self._now(), self._loop
        for warning in self._inputs.buffer.take_warnings():
            self.get_logger().warning(warning)
        if loop is None:
            self._tell(Assessment(State.IDLE, "not configured"), None)
            return
        loop.try_start()
        assessment = loop.assess(now)
        stalled, failed = faults(assessment)
        plan = self._inputs.proprio.plan(now)
        progress = Progress(
            now, plan, 0, stalled, failed, assessment.message, self._stop, self._blocked
        )
        self._tasks.update(progress, loop.sequence)
        self._tell(assessment, loop)

    def _tell(self, assessment: Assessment, loop: PolicyLoop | None) -> None:
        """Publishes the state at 2 Hz and at each change, and logs what is news."""
        steady = time.monotonic()
        changed = assessment.differs(self._told)
        self._told = assessment
        if self._announcer.is_news(assessment, steady):
            text = f"{assessment.state.name}: {assessment.message}".rstrip(": ")
            # Two lines, because rclpy remembers a severity for each.
            if assessment.state in (State.STALLED, State.ERROR):
                self.get_logger().warning(text)
            else:
                self.get_logger().info(text)
        stamp = self.get_clock().now().to_msg()
        if steady - self._diagnostics_time >= _DIAGNOSTICS_S:
            self._diagnostics_time = steady
            self._diagnostics.publish(self._report.report(stamp, self._now(), assessment, loop))
        if changed or steady - self._status_time >= _STATUS_S:
            self._status_time = steady
            source = str(self._values["proprio_source"]) if loop is None else loop.proprio_source
            self._status.publish(policy_report.status(stamp, assessment, loop, source))
            self._tasks.feedback(assessment)


def _network_clock(policy: LocalPolicy) -> Callable[[], float] | None:
    """Tells the seconds spent in the network; a card would have to be waited for at every stage."""
    if policy.target.kind != "cpu":
        return None
    clock = StageClock(policy.target.synchronize)
    policy.time_stages(clock)
    return lambda: clock.network


def _load(values: Values) -> LocalPolicy:
    """Loads the model, and torch with it, in the calling thread."""
    from xvla_ros.runtime.policy import load_policy

    return load_policy(str(values["model_path"]), **parameters.load_options(values))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the node until it is asked to stop; returns the exit code."""
    sys.setswitchinterval(_SWITCH_S)
    make = partial(giving_way, PolicyNode)
    return process.run(
        make, names.POLICY_NODE, parameters.POLICY_PARAMETERS, argv, threads=_THREADS
    )


if __name__ == "__main__":
    raise SystemExit(main())
