"""What the tests of the nodes share: nodes that spin, child processes, waiting for conditions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter

REPOSITORY = Path(__file__).resolve().parents[2]

TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "cleanup": Transition.TRANSITION_CLEANUP,
}


def wait_for(condition: Callable[[], Any], timeout: float = 15.0, what: str = "") -> Any:
    """The condition's first true value; fails the test if none comes in time."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"not within {timeout:g} s: {what or condition}")
        time.sleep(0.005)


class Process:
    """A child in a process group of its own, with its output kept in a file."""

    def __init__(self, module: str, arguments: tuple[str, ...], environment: dict[str, str]):
        self._log = tempfile.NamedTemporaryFile(mode="w+", suffix=f"-{module}.log", delete=False)
        self._popen = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=REPOSITORY,
            env=environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def output(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def send(self, number: signal.Signals) -> None:
        os.killpg(self._popen.pid, number)

    def wait(self, timeout: float = 15.0) -> int:
        """Exit code; fails the test if the process does not end in time."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"process still runs after {timeout:g} s:\n{self.output[-3000:]}")

    def kill(self) -> None:
        """Kills the whole group at once (SIGKILL) and reaps it."""
        try:
            self.send(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._popen.wait(10.0)

    def close(self) -> None:
        self.kill()
        self._log.close()
        Path(self._log.name).unlink(missing_ok=True)


class Ros:
    """A context in the test's own domain: nodes that spin in a thread, and child processes."""

    def __init__(self, domain: int) -> None:
        self.domain = domain
        self.environment = {
            **os.environ,
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._nodes: list[Node] = []
        self._processes: list[Process] = []
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            pass

    def add(self, node: Node) -> Any:
        """Spins a node that was made with `context=ros.context`."""
        self._executor.add_node(node)
        self._nodes.append(node)
        return node

    def node(self, name: str = "observer") -> Node:
        return self.add(Node(name, context=self.context))

    def spawn(self, module: str, *arguments: str, **environment: str) -> Process:
        """Starts `python -m module arguments` in the test's domain; killed with the test."""
        process = Process(module, arguments, {**self.environment, **environment})
        self._processes.append(process)
        return process

    def call(self, node: Node, kind: Any, name: str, request: Any, timeout: float = 20.0) -> Any:
        """Response of a service, once it is there."""
        client = node.create_client(kind, name)
        try:
            wait_for(client.service_is_ready, timeout, f"service {name}")
            future = client.call_async(request)
            wait_for(future.done, timeout, f"response of {name}")
            return future.result()
        finally:
            node.destroy_client(client)

    def transition(self, node: Node, target: str, name: str, timeout: float = 30.0) -> bool:
        """Whether the lifecycle transition `name` of the node `target` succeeded."""
        request = ChangeState.Request(transition=Transition(id=TRANSITIONS[name]))
        response = self.call(node, ChangeState, f"{target}/change_state", request, timeout)
        return bool(response.success)

    def state(self, node: Node, target: str) -> str:
        """Label of the lifecycle state."""
        response = self.call(node, GetState, f"{target}/get_state", GetState.Request())
        return str(response.current_state.label)

    def set_parameter(self, node: Node, target: str, name: str, value: Any) -> tuple[bool, str]:
        """Whether the value was taken, and the reason if not."""
        message = Parameter(name, value=value).to_parameter_msg()
        request = SetParameters.Request(parameters=[message])
        result = self.call(node, SetParameters, f"{target}/set_parameters", request).results[0]
        return bool(result.successful), str(result.reason)

    def parameter(self, node: Node, target: str, name: str) -> Any:
        request = GetParameters.Request(names=[name])
        response = self.call(node, GetParameters, f"{target}/get_parameters", request)
        return rclpy.parameter.parameter_value_to_python(response.values[0])

    def close(self) -> None:
        for process in self._processes:
            process.close()
        self._executor.shutdown(timeout_sec=5.0)
        self._thread.join(5.0)
        for node in self._nodes:
            node.destroy_node()
        rclpy.try_shutdown(context=self.context)
