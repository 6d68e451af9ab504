"""Runs episodes on a simulated robot in real time, through the same interfaces as an operator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.task import Future
from std_srvs.srv import SetBool

from xvla_ros import names
from xvla_ros.action import RunTask
from xvla_ros.evaluation.episode import Episode
from xvla_ros.msg import WorldState
from xvla_ros.nodes import qos
from xvla_ros.nodes.task_monitor import End
from xvla_ros.srv import ResetWorld

# An image of the time before the reset is no longer the newest of its camera after this.
_FRESH_S = 0.2
_REPLY_S = 10.0
_RETRY_S = 0.1
# The episode goes on for so long after success, for whoever watches.
_LINGER_S = 0.5
# What the world may take to publish its state, or to go on, before it counts as dead.
_SILENCE_S = 10.0


class NotRunning(RuntimeError):
    """A node does not answer; the message names it."""


@dataclass(frozen=True)
class Truth:
    """What the world last said."""

    seed: int
    elapsed: float
    success: bool


class LiveConductor:
    """Starts episodes and waits for their end. Needs an executor that spins in another thread.

    Args:
        node: gets clients and a subscription.
        alive: raises when one of the nodes has died; asked while waiting.
    """

    def __init__(self, node: Node, alive: Callable[[], None]) -> None:
        self._node = node
        self._alive = alive
        self._changed = threading.Condition()
        self._truth: Truth | None = None
        self._goal: Any = None
        self._reset = node.create_client(ResetWorld, names.of(names.SIM_NODE, names.RESET_WORLD))
        self._actuation = node.create_client(
            SetBool, names.of(names.SCHEDULER_NODE, names.ENABLE_ACTUATION)
        )
        self._run_task = ActionClient(node, RunTask, names.of(names.POLICY_NODE, names.RUN_TASK))
        self._subscription = node.create_subscription(
            WorldState, names.of(names.SIM_NODE, names.WORLD_STATE), self._on_world, qos.STATUS
        )

    def wait_until_ready(self, timeout: float) -> None:
        """Waits for the interfaces of all three nodes.

        Raises:
            NotRunning: one of them is not there in time.
        """
        wanted = {
            names.SIM_NODE: lambda: self._reset.service_is_ready() and self._truth is not None,
            names.SCHEDULER_NODE: self._actuation.service_is_ready,
            names.POLICY_NODE: self._run_task.server_is_ready,
        }
        for name, ready in wanted.items():
            self._wait(ready, timeout, f"{name} does not answer within {timeout:.0f} s")

    def parameters(self, target: str, wanted: Sequence[str]) -> list[Any]:
        """Values of another node's parameters."""
        client = self._node.create_client(GetParameters, f"{target}/get_parameters")
        try:
            self._wait(client.service_is_ready, _REPLY_S, f"{target} has no parameters")
            request = GetParameters.Request(names=list(wanted))
            reply = self._call(client.call_async(request), target)
            return [parameter_value_to_python(value) for value in reply.values]
        finally:
            self._node.destroy_client(client)

    def run(self, seed: int, task: str, limit: float) -> Episode:
        """One episode: start state of the seed, then the policy until success or time is up.

        Args:
            seed: of the start state.
            task: of the simulator.
            limit: seconds from the goal until the episode counts as failed.

        Raises:
            NotRunning: a node does not answer.
        """
        self._set_actuation(False)
        instruction = self._start_world(seed, task)
        self._set_actuation(True)
        start = time.time()
        ending = self._attempt(instruction, seed, limit)
        success = time.time() - start if self._succeeded(seed) else None
        if success is not None:
            self._wait_for(lambda: False, _LINGER_S)
        end = time.time()
        self._end_task()
        self._set_actuation(False)
        return Episode(seed, instruction, start, end, success, ending)

    def _attempt(self, instruction: str, seed: int, limit: float) -> str:
        """Gives the policy its task and waits; returns why the waiting ended."""
        deadline = time.monotonic() + limit
        request = RunTask.Goal(instruction=instruction)
        self._goal = self._call(self._run_task.send_goal_async(request), names.POLICY_NODE)
        if not self._goal.accepted:
            self._goal = None
            return "the goal was refused"
        over = self._goal.get_result_async()
        self._wait_for(partial(self._decided, seed, over), deadline - time.monotonic())
        if self._succeeded(seed):
            return "success"
        if not over.done():
            return "time is up"
        self._goal = None
        return _reason(over.result().result)

    def _end_task(self) -> None:
        """Cancels the running task and waits for its end."""
        if self._goal is not None:
            self._call(self._goal.cancel_goal_async(), names.POLICY_NODE)
            self._call(self._goal.get_result_async(), names.POLICY_NODE)
            self._goal = None

    def _start_world(self, seed: int, task: str) -> str:
        """Resets the world and waits until every sensor has seen the new state."""
        request = ResetWorld.Request(seed=seed, task=task)
        reply = self._call(self._reset.call_async(request), names.SIM_NODE)
        if not reply.success:
            raise NotRunning(f"{names.SIM_NODE}: {reply.message}")
        self._wait(
            lambda: (
                self._truth is not None
                and self._truth.seed == seed
                and self._truth.elapsed >= _FRESH_S
            ),
            _SILENCE_S,
            f"{names.SIM_NODE} does not go on after a reset",
        )
        return str(reply.instruction)

    def _set_actuation(self, on: bool) -> None:
        """Switches actuation; asks again while the scheduler waits for its first joint states."""
        request = SetBool.Request(data=on)
        deadline = time.monotonic() + _SILENCE_S
        while True:
            reply = self._call(self._actuation.call_async(request), names.SCHEDULER_NODE)
            if reply.success:
                return
            if time.monotonic() > deadline:
                raise NotRunning(f"{names.SCHEDULER_NODE}: {reply.message}")
            self._wait_for(lambda: False, _RETRY_S)

    def _succeeded(self, seed: int) -> bool:
        truth = self._truth
        return truth is not None and truth.seed == seed and truth.success

    def _decided(self, seed: int, over: Future) -> bool:
        return self._succeeded(seed) or over.done()

    def _on_world(self, message: WorldState) -> None:
        with self._changed:
            self._truth = Truth(message.seed, message.elapsed, message.success)
            self._changed.notify_all()

    def _call(self, future: Future, name: str) -> Any:
        """The result of a future."""
        self._wait(future.done, _REPLY_S, f"{name} gives no reply")
        return future.result()

    def _wait(self, condition: Callable[[], bool], timeout: float, complaint: str) -> None:
        if not self._wait_for(condition, timeout):
            raise NotRunning(complaint)

    def _wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Whether the condition holds in time; the world's messages and futures are looked at."""
        deadline = time.monotonic() + timeout
        while not condition():
            self._alive()
            left = deadline - time.monotonic()
            if left <= 0.0:
                return False
            with self._changed:
                self._changed.wait(min(left, 0.02))
        return True


def _reason(result: RunTask.Result) -> str:
    word = End(result.reason).name.lower()
    return f"{word}: {result.message}" if result.message else word
