"""The bring-up as a user starts it: simulated arm, scheduler and policy with the shipped model."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from trajectory_msgs.msg import JointTrajectory

from xvla_ros import names
from xvla_ros.evaluation.metrics import frames_lost
from xvla_ros.msg import SchedulerStatus, WorldState
from xvla_ros.nodes import qos
from xvla_ros.nodes.bringup import Arguments, describe
from xvla_ros.nodes.supervisor import Supervisor

CAMERAS = ("front", "wrist")
# A joint may move at 2 rad/s for at most two periods of 20 ms between two commands.
LARGEST_STEP = 2.0 * 0.04 + 1e-3
# Less than this between two commands is rest: a quarter of an encoder step.
STILL = 4e-4


@dataclass(eq=False)
class Heard:
    """What an observer has heard; appended to by the thread that spins."""

    commands: list[tuple[float, np.ndarray]] = field(default_factory=list)
    statuses: list[SchedulerStatus] = field(default_factory=list)
    worlds: list[WorldState] = field(default_factory=list)
    published: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    received: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def command(self, message: JointTrajectory) -> None:
        with self.lock:
            self.commands.append((time.monotonic(), np.array(message.points[0].positions)))

    def world(self, message: WorldState) -> None:
        stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        with self.lock:
            self.worlds.append(message)
            for camera, count in zip(message.camera_names, message.frames_published, strict=True):
                self.published.setdefault(camera, []).append((stamp, count))

    def diagnostics(self, message: DiagnosticArray) -> None:
        stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        with self.lock:
            for status in message.status:
                for camera in CAMERAS:
                    if status.name.endswith(names.sim_camera(camera)):
                        values = {pair.key: pair.value for pair in status.values}
                        count = int(values["received"])
                        self.received.setdefault(camera, []).append((stamp, count))

    def frames(self, camera: str) -> int:
        """How many frames the policy has received since the first report."""
        with self.lock:
            counts = self.received.get(camera, [])
            return counts[-1][1] - counts[0][1] if counts else 0

    def moving(self, since: float) -> list[float]:
        """Times after `since` at which the command changed."""
        with self.lock:
            commands = [c for c in self.commands if c[0] >= since]
        steps = itertools.pairwise(commands)
        return [b[0] for a, b in steps if np.abs(b[1] - a[1]).max() > STILL]


@pytest.fixture
def loop(ros, tmp_path: Path) -> Iterator[tuple[Supervisor, Heard]]:
    node, heard = ros.node("observer"), Heard()
    scheduler = names.of(names.SCHEDULER_NODE, names.STATUS)
    world = names.of(names.SIM_NODE, names.WORLD_STATE)
    node.create_subscription(JointTrajectory, names.arm_trajectory(), heard.command, qos.COMMAND)
    node.create_subscription(SchedulerStatus, scheduler, heard.statuses.append, qos.STATUS)
    node.create_subscription(WorldState, world, heard.world, qos.STATUS)
    node.create_subscription(DiagnosticArray, names.DIAGNOSTICS, heard.diagnostics, qos.DIAGNOSTICS)
    plan = describe(Arguments(sim=True, start_actuation=True, device="cpu"))
    with Supervisor(plan, tmp_path / "log", ros.environment) as supervisor:
        supervisor.wait_until_up(150.0)
        yield supervisor, heard


def test_of_a_minute_of_frames_at_most_two_in_a_hundred_are_lost(ros, loop) -> None:
    _, heard = loop
    minute = 15 * 60
    ros.wait_for(
        lambda: all(heard.frames(camera) >= minute for camera in CAMERAS), 240.0, "a minute"
    )
    with heard.lock:
        lost = {c: frames_lost(heard.published[c], heard.received[c]) for c in CAMERAS}
    for camera, figure in lost.items():
        assert figure.published >= 0.9 * minute, camera
        assert figure.fraction <= 0.02, f"{camera}: {figure}"


def test_the_policy_is_killed_in_mid_episode_and_the_loop_goes_on(ros, loop) -> None:
    supervisor, heard = loop
    executing = SchedulerStatus.EXECUTING
    ros.wait_for(
        lambda: heard.statuses[-1:] and heard.statuses[-1].chunk_sequence >= 2, 60.0, "chunks"
    )
    assert heard.statuses[-1].state == executing
    before = heard.statuses[-1].chunks_accepted

    supervisor.child(names.POLICY_NODE).send(signal.SIGKILL)
    killed = time.monotonic()
    ros.wait_for(lambda: heard.statuses[-1].state != executing, 20.0, "rest")

    with heard.lock:
        last = heard.commands[-1][0]
    ros.wait_for(lambda: heard.commands[-1][0] > last, 5.0, "commands go on at rest")
    # Liveliness is lost within 1 s, then the arm comes to rest along its path; the chunk itself
    # would go on for 5 s.
    moved = max(heard.moving(killed), default=killed) - killed
    assert moved < 2.5 + 2.0 * ros.lost(killed)
    ros.wait_for(lambda: heard.statuses[-1].chunks_accepted > before, 120.0, "chunks again")
    ros.wait_for(lambda: heard.statuses[-1].state == executing, 20.0, "motion again")
    ros.wait_for(lambda: heard.worlds[-1].success, 60.0, "the cube is picked up")

    with heard.lock:
        joints = np.array([joints for _, joints in heard.commands])
    assert np.abs(np.diff(joints, axis=0)).max() < LARGEST_STEP
    assert [fault.split(" ended")[0] for fault in supervisor.faults] == [names.POLICY_NODE]
