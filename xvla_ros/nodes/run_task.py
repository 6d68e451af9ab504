"""The action RunTask: one instruction at a time, until it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from xvla_ros import names
from xvla_ros.action import RunTask
from xvla_ros.nodes.policy_state import Assessment, State
from xvla_ros.nodes.task_monitor import End, Outcome, Progress, TaskMonitor


@dataclass(eq=False)
class _Running:
    goal: RunTask.Goal
    handle: ServerGoalHandle
    monitor: TaskMonitor
    first_sequence: int
    """Sequence that the first chunk of the task has or will have."""
    chunks: int = 0
    now: float = 0.0
    outcome: Outcome | None = None
    over: threading.Event = field(default_factory=threading.Event)


class TaskServer:
    """Hosts the action. A goal's thread waits; `update`, from a timer, decides.

    rclpy polls an awaiting coroutine without pause, so the goal blocks a thread of the executor
    instead, which therefore needs one more than it would otherwise.

    Args:
        node: the policy node.
        refusal: why a goal cannot be taken now; None = it can.
        begin: makes the monitor of a goal of so many seconds, and tells the sequence of the first
            chunk that can belong to it.
        changed: called when the running task's instruction has begun or ended.
    """

    def __init__(
        self,
        node: Node,
        refusal: Callable[[], str | None],
        begin: Callable[[float], tuple[TaskMonitor, int]],
        changed: Callable[[], None],
    ) -> None:
        self._logger = node.get_logger()
        self._refusal = refusal
        self._begin = begin
        self._changed = changed
        self._lock = threading.Lock()
        self._taken = False
        self._running: _Running | None = None
        self._server = ActionServer(
            node,
            RunTask,
            names.RUN_TASK,
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=lambda _handle: CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup(),
        )

    @property
    def instruction(self) -> str:
        """Of the running task; empty if there is none."""
        running = self._running
        return "" if running is None else str(running.goal.instruction)

    def update(self, progress: Progress, sequence: int) -> None:
        """Ends the task if its time has come.

        Args:
            progress: with `first_sequence` left at 0; it is filled in here.
            sequence: of the newest chunk.
        """
        running = self._running
        if running is None or running.over.is_set():
            return
        running.now = progress.now
        running.chunks = max(0, sequence - running.first_sequence + 1)
        first = running.first_sequence if running.chunks else 0
        outcome = running.monitor.update(replace(progress, first_sequence=first))
        if running.handle.is_cancel_requested:
            outcome = Outcome(End.CANCELLED, "by the client")
        if outcome is not None:
            self._finish(running, outcome)

    def feedback(self, assessment: Assessment) -> None:
        """Tells the client how the task is doing."""
        running = self._running
        if running is None or running.over.is_set() or not running.handle.is_active:
            return
        running.handle.publish_feedback(
            RunTask.Feedback(
                elapsed=running.monitor.elapsed(running.now),
                chunks=running.chunks,
                state=int(assessment.state),
                message=assessment.message,
            )
        )

    def end(self, end: End, message: str) -> None:
        """Ends the task from outside."""
        if self._running is not None:
            self._finish(self._running, Outcome(end, message))

    def destroy(self) -> None:
        """Ends the action server."""
        self.end(End.DEACTIVATED, "the node has ended")
        self._server.destroy()

    def _on_goal(self, goal: RunTask.Goal) -> GoalResponse:
        reason = self._refusal()
        with self._lock:
            if not goal.instruction.strip():
                reason = "the instruction is empty"
            elif not 0.0 <= goal.max_duration < float("inf"):
                reason = f"max_duration {goal.max_duration} is not a duration"
            elif self._taken:
                reason = "another task is running; cancel it first"
            if reason is None:
                self._taken = True
                return GoalResponse.ACCEPT
        self._logger.warning(f"task '{goal.instruction}' rejected: {reason}")
        return GoalResponse.REJECT

    def _execute(self, handle: ServerGoalHandle) -> RunTask.Result:
        monitor, first_sequence = self._begin(handle.request.max_duration)
        running = _Running(handle.request, handle, monitor, first_sequence)
        self._logger.info(f"task '{running.goal.instruction}' begins")
        self._running = running
        self._changed()
        # The node may have been deactivated between acceptance and now.
        reason = self._refusal()
        if reason is not None:
            self._finish(running, Outcome(End.DEACTIVATED, reason))
        running.over.wait()
        self._running = None
        self._changed()
        with self._lock:
            self._taken = False
        return self._result(running)

    def _result(self, running: _Running) -> RunTask.Result:
        outcome = running.outcome
        assert outcome is not None
        ending = {
            End.SETTLED: running.handle.succeed,
            End.CANCELLED: running.handle.canceled,
        }.get(outcome.end, running.handle.abort)
        ending()
        return RunTask.Result(
            reason=int(outcome.end),
            message=outcome.message,
            chunks=running.chunks,
            elapsed=running.monitor.elapsed(running.now),
        )

    def _finish(self, running: _Running, outcome: Outcome) -> None:
        with self._lock:
            if running.over.is_set():
                return
            running.outcome = outcome
            running.over.set()
        self._logger.info(
            f"task '{running.goal.instruction}' ended: {outcome.end.name}: {outcome.message}"
        )


def faults(assessment: Assessment) -> tuple[bool, bool]:
    """Whether a task counts as stalled in this state, and whether as failed."""
    stalled = assessment.state in (State.STALLED, State.WAITING)
    return stalled, assessment.state is State.ERROR
