"""Real processes over real DDS, each test in a ROS domain of its own.

The fixture `ros` gives nodes that spin in a thread, child processes and waiting for conditions.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
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

# Beyond these, ports of DDS lie among those that the system gives to anybody.
_DOMAINS = 100
# Ports of a domain (DDSI-RTPS 2.2, 9.6.1.1).
_FIRST_PORT = 7400
_PORTS_OF_A_DOMAIN = 250
_numbers = itertools.count(os.getpid())

TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "cleanup": Transition.TRANSITION_CLEANUP,
}


def wait_for(condition: Callable[[], Any], timeout: float = 30.0, what: str = "") -> Any:
    """The condition's first true value; fails the test if none comes in time."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"not within {timeout:g} s: {what or condition}")
        time.sleep(0.005)


class Pulse:
    """How long this machine kept a thread of the test waiting that should have run.

    Bounds of time hold for a machine that lets the processes run: a test adds to its bound what
    was lost meanwhile, so that it judges the node and not its neighbours.
    """

    _PERIOD_S = 0.01

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        before = time.monotonic()
        while not self._end.wait(self._PERIOD_S):
            now = time.monotonic()
            self._late.append((now, now - before - self._PERIOD_S))
            before = now

    def lost(self, since: float) -> float:
        """Seconds lost since a time of the monotonic clock."""
        return sum(late for moment, late in self._late if moment >= since)

    def close(self) -> None:
        self._end.set()
        self._thread.join(5.0)


class Process:
    """A child in a process group of its own, with its output kept in a file."""

    def __init__(self, name: str, command: tuple[str, ...], environment: dict[str, str]):
        descriptor, path = tempfile.mkstemp(suffix=f"-{name}.log")
        self._log = Path(path)
        self._popen = subprocess.Popen(
            [sys.executable, *command],
            cwd=REPOSITORY,
            env=environment,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(descriptor)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

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
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        self._popen.wait(10.0)

    def close(self) -> None:
        self.kill()
        self._log.unlink(missing_ok=True)


class Ros:
    """A context in the test's own domain: nodes that spin in a thread, and child processes."""

    wait_for = staticmethod(wait_for)

    def __init__(self, domain: int, folder: Path) -> None:
        self.domain = domain
        self.environment = {
            **os.environ,
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "OMP_NUM_THREADS": "1",
            # What a node remembers from start to start stays in the test.
            "TMPDIR": str(folder),
            "PYTHONUNBUFFERED": "1",
        }
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._pulse = Pulse()
        self._nodes: list[Node] = []
        self._processes: list[Process] = []
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def add(self, node: Node) -> Any:
        """Spins a node that was made with `context=ros.context`."""
        self._executor.add_node(node)
        self._nodes.append(node)
        return node

    def node(self, name: str = "observer") -> Node:
        return self.add(Node(name, context=self.context))

    def spawn(self, module: str, *arguments: str, **environment: str) -> Process:
        """Starts `python -m module arguments` in the test's domain; killed with the test."""
        return self._start(module, ("-m", module, *arguments), environment)

    def spawn_script(self, path: Path, *arguments: str, **environment: str) -> Process:
        """Starts `python path arguments` in the same way."""
        return self._start(path.stem, (str(path), *arguments), environment)

    def _start(self, name: str, command: tuple[str, ...], environment: dict[str, str]) -> Process:
        process = Process(name, command, {**self.environment, **environment})
        self._processes.append(process)
        return process

    def lost(self, since: float) -> float:
        """Seconds since `since` (monotonic clock) for which the machine let nothing run here."""
        return self._pulse.lost(since)

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

    def state(self, node: Node, target: str, timeout: float = 20.0) -> str:
        """Label of the lifecycle state.

        Asks again and again: a process that was killed stays discovered for a while, and what is
        asked before its successor is discovered too is never answered.
        """
        client = node.create_client(GetState, f"{target}/get_state")
        futures = []
        try:

            def answer() -> Any:
                futures.append(client.call_async(GetState.Request()))
                end = time.monotonic() + 0.5
                while time.monotonic() < end:
                    done = next((future for future in futures if future.done()), None)
                    if done is not None:
                        return done
                    time.sleep(0.005)
                return None

            response = wait_for(answer, timeout, f"state of {target}").result()
            return str(response.current_state.label)
        finally:
            node.destroy_client(client)

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
        self._pulse.close()
        self._executor.shutdown(timeout_sec=5.0)
        self._thread.join(5.0)
        for node in self._nodes:
            node.destroy_node()
        self.context.try_shutdown()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether nobody else held the lock, which lasts as long as the block."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


@pytest.fixture
def domain() -> Iterator[int]:
    """A ROS domain of this test's own, with one lock per number for all runs on this machine.

    Never the number of the test before: what that one killed stays discovered for a while.
    """
    for _ in range(_DOMAINS):
        number = 1 + next(_numbers) % _DOMAINS
        with locked(Path(tempfile.gettempdir()) / f"ros_domain_{number}.lock") as mine:
            if mine:
                _remove_ports(number)
                yield number
                return
    pytest.fail(f"all ROS domains from 1 to {_DOMAINS} are in use")


def _remove_ports(domain: int) -> None:
    """Removes what killed processes have left in shared memory: Fast DDS may wait for them."""
    first = _FIRST_PORT + _PORTS_OF_A_DOMAIN * domain
    for file in Path("/dev/shm").glob("*fastrtps_port*"):
        port = int("".join(filter(str.isdigit, file.name)) or 0)
        if first <= port < first + _PORTS_OF_A_DOMAIN:
            file.unlink(missing_ok=True)


@pytest.fixture
def ros(domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ros]:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    session = Ros(domain, tmp_path)
    yield session
    session.close()


@pytest.fixture(scope="session")
def bags(load: Callable[[Path], Any]) -> Any:
    """The makers of bags with known content, which the tests of the evaluation use too."""
    return load(REPOSITORY / "test" / "evaluation" / "bags.py")
