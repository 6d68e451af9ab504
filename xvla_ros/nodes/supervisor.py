"""Carries a bring-up out on a machine without the launch package.

Starts the processes, follows their lifecycle transitions, starts again what died, and ends all of
them in order.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from xvla_ros.nodes.bringup import BringUp, BringUpError, Process
from xvla_ros.nodes.child import Child
from xvla_ros.nodes.lifecycle_client import LifecycleClient, follow

_WATCH_PERIOD_S = 0.05
# Codes after which another start would end the same way: an orderly end, wrong arguments.
_FINAL_CODES = (0, 2)


class Supervisor:
    """Runs a bring-up; a context manager that ends every process on the way out.

    Has a ROS context of its own in the domain of `environment`, and spins it in a thread.
    """

    def __init__(
        self,
        bringup: BringUp,
        log_folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Prepares the run; nothing is started yet.

        Args:
            bringup: what to run.
            log_folder: one file per node is made in it.
            environment: of the processes; os.environ if None.
        """
        self._bringup = bringup
        self._logs = log_folder
        self._environment = dict(os.environ if environment is None else environment)
        self._children: dict[str, Child] = {}
        self._states: dict[str, str] = {}
        self._faults: list[str] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._context = Context()
        self._node: Node | None = None

    def __enter__(self) -> Supervisor:
        """Starts everything."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends everything."""
        self.stop()

    # ------------------------------------------------------------------ for the user

    @property
    def faults(self) -> tuple[str, ...]:
        """What went wrong so far, one line each: deaths and failed transitions."""
        with self._lock:
            return tuple(self._faults)

    def child(self, node: str) -> Child:
        """The present process of a node."""
        with self._lock:
            return self._children[node]

    def state(self, node: str) -> str | None:
        """Lifecycle state in which the bring-up left the node; None while it is under way."""
        with self._lock:
            return self._states.get(node)

    def start(self) -> None:
        """Starts every process and the thread that watches them."""
        self._logs.mkdir(parents=True, exist_ok=True)
        domain = int(self._environment.get("ROS_DOMAIN_ID") or 0)
        rclpy.init(
            args=[],
            context=self._context,
            domain_id=domain,
            signal_handler_options=SignalHandlerOptions.NO,
        )
        self._node = Node(
            f"bring_up_{os.getpid()}",
            context=self._context,
            use_global_arguments=False,
            start_parameter_services=False,
            enable_rosout=False,
        )
        self._run(self._spin, self._node)
        for process in self._bringup.processes:
            self._start(process, respawned=False)
        self._run(self._watch)

    def wait_until_up(self, timeout: float) -> None:
        """Waits until every lifecycle node has followed its transitions.

        Raises:
            BringUpError: a process ended for good, a node did not get active, or time ran out;
                one line that names the node and quotes its log.
        """
        waiting = [p.node for p in self._bringup.processes if p.lifecycle]
        goal = "active" if self._bringup.transitions else "unconfigured"
        end = time.monotonic() + timeout
        while True:
            essential = [p for p in self._bringup.processes if p.essential]
            dead = [fault for p in essential if (fault := self._ended(p))]
            if dead:
                raise BringUpError(dead[0])
            states = {node: self.state(node) for node in waiting}
            wrong = [node for node, state in states.items() if state not in (None, goal)]
            if wrong:
                child = self.child(wrong[0])
                raise BringUpError(
                    f"{wrong[0]} is {states[wrong[0]]}, not {goal}: "
                    f"{child.last_line()} (log: {child.log})"
                )
            if None not in states.values():
                return
            if time.monotonic() > end:
                late = [node for node, state in states.items() if state is None]
                raise BringUpError(
                    f"{', '.join(late)} not {goal} after {timeout:g} s "
                    f"(log: {self.child(late[0]).log})"
                )
            time.sleep(_WATCH_PERIOD_S)

    def stop(self) -> None:
        """Ends the processes, the last started first, so that the robot sees the hold command."""
        self._stopping.set()
        for process in reversed(self._bringup.processes):
            child = self._children.get(process.node)
            if child is not None:
                child.end()
        if self._node is not None:
            self._context.try_shutdown()
            for thread in self._threads:
                thread.join(10.0)
            self._node.destroy_node()
            self._node = None

    # ------------------------------------------------------------------ threads

    def _run(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _spin(self, node: Node) -> None:
        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(node)
        with contextlib.suppress(ExternalShutdownException):
            executor.spin()

    def _watch(self) -> None:
        """Starts again what died; one thread for all, so a delay is a time and not a sleep."""
        due: dict[str, float] = {}
        while not self._stopping.wait(_WATCH_PERIOD_S):
            for process in self._bringup.processes:
                if self.child(process.node).running:
                    continue
                now = time.monotonic()
                if process.node not in due:
                    if process.essential:
                        self._note(self._death(process))
                    due[process.node] = now + process.respawn_delay
                if now >= due[process.node] and self._ended(process) is None:
                    del due[process.node]
                    self._start(process, respawned=True)

    def _start(self, process: Process, *, respawned: bool) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            child = Child(
                process.command(respawned=respawned),
                self._logs / f"{process.node}.log",
                self._environment,
            )
            self._children[process.node] = child
            self._states.pop(process.node, None)
        if process.lifecycle:
            self._run(self._follow, process, child)

    def _follow(self, process: Process, child: Child) -> None:
        assert self._node is not None
        client = LifecycleClient(
            self._node,
            process.full_name,
            lambda: child.running and not self._stopping.is_set(),
        )
        try:
            state = follow(client, self._bringup.transitions)
        except Exception as error:
            # A context that ends while a request is under way.
            if not self._stopping.is_set():
                self._note(f"{process.node}: {error}")
            return
        with self._lock:
            if state is not None and self._children[process.node] is child:
                self._states[process.node] = state
        if not self._stopping.is_set():
            client.close()

    # ------------------------------------------------------------------ faults

    def _note(self, fault: str) -> None:
        with self._lock:
            self._faults.append(fault)

    def _death(self, process: Process) -> str:
        child = self.child(process.node)
        return (
            f"{process.node} ended with code {child.code}: {child.last_line()} (log: {child.log})"
        )

    def _ended(self, process: Process) -> str | None:
        """Why the process will not come back; None if it runs or will."""
        child = self.child(process.node)
        if child.running or (process.respawn and child.code not in _FINAL_CODES):
            return None
        return self._death(process)
