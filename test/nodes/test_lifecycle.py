"""Transitions of our lifecycle nodes: failures are told, and can be tried again."""

from __future__ import annotations

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from std_msgs.msg import String

from xvla_ros.nodes.lifecycle import LifecycleNode


class Worker(LifecycleNode):
    """Raises in the steps named in `failing`, and notes what is called."""

    def __init__(self, ros):
        super().__init__("worker", context=ros.context)
        self.failing: dict[str, Exception] = {}
        self.calls: list[str] = []
        self.publisher_active: dict[str, bool] = {}
        self.output = self.create_lifecycle_publisher(String, "output", 1)

    def step(self, name: str) -> None:
        self.calls.append(name)
        self.publisher_active[name] = self.output.is_activated
        if name in self.failing:
            raise self.failing[name]

    def configure(self) -> None:
        self.step("configure")

    def activate(self) -> None:
        self.step("activate")

    def deactivate(self) -> None:
        self.step("deactivate")

    def cleanup(self) -> None:
        self.step("cleanup")


@pytest.fixture
def worker(ros):
    return ros.add(Worker(ros))


@pytest.fixture
def outside(ros):
    return ros.node()


def test_a_failed_configure_says_why_in_one_line_and_works_once_the_fault_is_mended(
    ros, worker, outside, capfd
):
    worker.failing["configure"] = ValueError("models/x/config.json: no key 'hidden_size'")
    assert not ros.transition(outside, "worker", "configure")
    assert ros.state(outside, "worker") == "unconfigured"
    assert worker.calls == ["configure", "cleanup"]
    logged = capfd.readouterr().err
    assert "configure failed: models/x/config.json: no key 'hidden_size'" in logged
    assert "Traceback" not in logged
    worker.failing.clear()
    assert ros.transition(outside, "worker", "configure")
    assert ros.state(outside, "worker") == "inactive"


def test_an_unexpected_error_is_logged_with_its_traceback(ros, worker, outside, capfd):
    worker.failing["configure"] = ZeroDivisionError("surprise")
    assert not ros.transition(outside, "worker", "configure")
    logged = capfd.readouterr().err
    assert "Traceback" in logged
    assert "surprise" in logged
    assert ros.state(outside, "worker") == "unconfigured"


def test_a_failed_activation_leaves_the_node_inactive_and_its_publishers_silent(
    ros, worker, outside
):
    ros.transition(outside, "worker", "configure")
    worker.failing["activate"] = ValueError("no joint states")
    assert not ros.transition(outside, "worker", "activate")
    assert ros.state(outside, "worker") == "inactive"
    assert not worker.output.is_activated


def test_deactivation_runs_while_publishers_still_work(ros, worker, outside):
    ros.transition(outside, "worker", "configure")
    ros.transition(outside, "worker", "activate")
    assert ros.transition(outside, "worker", "deactivate")
    assert worker.publisher_active == {"configure": False, "activate": True, "deactivate": True}
    assert not worker.output.is_activated


def test_a_failed_deactivation_frees_everything_and_can_start_anew(ros, worker, outside):
    ros.transition(outside, "worker", "configure")
    ros.transition(outside, "worker", "activate")
    worker.failing["deactivate"] = RuntimeError("stuck")
    assert not ros.transition(outside, "worker", "deactivate")
    assert worker.calls[-1] == "cleanup"
    assert ros.state(outside, "worker") == "unconfigured"
    assert not worker.output.is_activated
    assert ros.transition(outside, "worker", "configure")


def test_an_impossible_transition_is_refused_and_the_node_lives_on(ros, worker, outside):
    assert not ros.transition(outside, "worker", "activate")
    request = ChangeState.Request(transition=Transition(label="no such transition"))
    assert not ros.call(outside, ChangeState, "worker/change_state", request).success
    assert ros.state(outside, "worker") == "unconfigured"


def test_shutdown_of_an_active_node_deactivates_and_cleans_up_whatever_fails(ros, worker, outside):
    ros.transition(outside, "worker", "configure")
    ros.transition(outside, "worker", "activate")
    worker.failing["deactivate"] = RuntimeError("stuck")
    worker.shut_down()
    assert worker.calls[-2:] == ["deactivate", "cleanup"]
    assert ros.state(outside, "worker") == "finalized"
