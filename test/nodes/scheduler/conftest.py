"""chunk_scheduler as a real process over real DDS, between a test robot and a test policy."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from std_srvs.srv import SetBool, Trigger

from xvla_ros import names
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes import qos

MODULE = "xvla_ros.nodes.scheduler_node"
NODE = names.SCHEDULER_NODE
PLAYERS = Path(__file__).with_name("players.py")
# Two periods of 20 ms at the joint speed that 0.05 m/s takes, with a margin.
CONTINUOUS_RAD = 0.03
AT_REST_RAD = 1e-6


def load_players():
    spec = importlib.util.spec_from_file_location("players", PLAYERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["players"] = module
    spec.loader.exec_module(module)
    return module


players = load_players()


class Rig:
    """The scheduler process with a robot; a policy on request."""

    def __init__(self, ros, robot: Any = None, **options: Any) -> None:
        self.ros = ros
        self.options = options
        self.observer = ros.node()
        self.robot = ros.add(robot or players.Robot(ros.context, **options))
        self.statuses: list[SchedulerStatus] = []
        self.observer.create_subscription(
            SchedulerStatus, names.of(NODE, names.STATUS), self.statuses.append, qos.STATUS
        )
        self.policy: Any = None
        self.process: Any = None

    def start(self, *parameters: str, active: bool = True):
        arguments = ["--ros-args"]
        for parameter in parameters:
            arguments += ["-p", parameter]
        self.process = self.ros.spawn(MODULE, *(arguments if parameters else ()))
        assert self.ros.state(self.observer, NODE) == "unconfigured"
        if active:
            assert self.ros.transition(self.observer, NODE, "configure"), self.process.output
            assert self.ros.transition(self.observer, NODE, "activate"), self.process.output
        return self.process

    def add_policy(self, **options):
        self.policy = self.ros.add(players.Policy(self.ros.context, **options, **self.options))
        self.wait_for(lambda: self.policy.connected and self.policy.plans, what="a plan")
        return self.policy

    def trigger(self, service: str):
        return self.ros.call(self.observer, Trigger, names.of(NODE, service), Trigger.Request())

    def enable(self, on: bool = True):
        return self.ros.call(
            self.observer, SetBool, names.of(NODE, names.ENABLE_ACTUATION), SetBool.Request(data=on)
        )

    def actuate(self) -> None:
        """Switches actuation on as soon as robot and scheduler know one another."""
        self.wait_for(lambda: self.enable().success, what="actuation")

    @property
    def status(self) -> SchedulerStatus:
        return self.wait_for(lambda: self.statuses and self.statuses[-1], what="a status")

    def wait_status(self, condition, what: str, timeout: float = 30.0) -> SchedulerStatus:
        def newest():
            return self.statuses and condition(self.statuses[-1]) and self.statuses[-1]

        return self.wait_for(newest, timeout, what)

    def wait_for(self, condition, timeout: float = 30.0, what: str = ""):
        """As `ros.wait_for`; a failure shows what the process said."""
        try:
            return self.ros.wait_for(condition, timeout, what)
        except pytest.fail.Exception:
            print(self.process.output[-3000:])
            print(self.statuses[-1:])
            raise

    def run_until_moving(self) -> None:
        """Actuates and waits until the arm has been led for a while."""
        self.actuate()
        self.wait_for(lambda: self.policy is None or self.status.chunks_accepted >= 3)
        self.wait_moving()

    def wait_moving(self) -> None:
        def moving():
            recent = self.robot.commands[-5:]
            return len(recent) == 5 and np.abs(recent[0][1] - recent[-1][1]).max() > 1e-3

        self.wait_for(moving, what="motion")

    def wait_rest(self, timeout: float = 10.0) -> None:
        """Until ten commands in a row have been the same."""

        def resting():
            recent = np.array([command[1] for command in self.robot.commands[-10:]])
            return len(recent) == 10 and np.ptp(recent, axis=0).max() < AT_REST_RAD

        self.wait_for(resting, timeout, "rest")

    def assert_continuous(self, since: int = 0) -> None:
        """No command from the `since`-th on is further from the one before than the arm may go."""
        assert self.robot.steps(max(since, 0)).max() < CONTINUOUS_RAD

    def came_to_rest(self, since: int) -> float:
        """Monotonic time from which the commands after the `since`-th are all the same."""
        last = self.robot.commands[-1][1]
        return next(
            arrival
            for arrival, joints, _ in self.robot.commands[since:]
            if np.abs(joints - last).max() < AT_REST_RAD
        )

    def start_policy_process(self):
        """A policy in a process of its own, which can be killed."""
        return self.ros.spawn_script(PLAYERS)

    def refusals(self) -> dict[str, int]:
        status = self.status
        return dict(zip(status.refusal_reasons, status.refusal_counts, strict=True))


@pytest.fixture
def rig(ros):
    return Rig(ros)


@pytest.fixture
def make_rig(ros):
    """A rig with options of its own for robot and policy."""

    def make(**options: Any) -> Rig:
        return Rig(ros, **options)

    return make
