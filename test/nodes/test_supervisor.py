"""The supervisor runs a bring-up with real processes: start, death, wrong arguments, end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from xvla_ros import names
from xvla_ros.nodes.bringup import Arguments, BringUp, BringUpError, describe
from xvla_ros.nodes.child import Child
from xvla_ros.nodes.supervisor import Supervisor


def only(node: str, arguments: Arguments) -> BringUp:
    """The bring-up of one node of those that the arguments describe."""
    plan = describe(arguments)
    return BringUp((plan.process(node),), plan.transitions)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_scheduler_is_brought_up_again_after_its_death_without_actuation(ros, tmp_path) -> None:
    plan = only(names.SCHEDULER_NODE, Arguments(start_actuation=True))
    observer = ros.node()
    with Supervisor(plan, tmp_path, ros.environment) as supervisor:
        supervisor.wait_until_up(40.0)
        assert ros.state(observer, f"/{names.SCHEDULER_NODE}") == "active"
        assert ros.parameter(observer, f"/{names.SCHEDULER_NODE}", "start_actuation") is True
        first = supervisor.child(names.SCHEDULER_NODE).pid

        supervisor.child(names.SCHEDULER_NODE).send(signal.SIGKILL)
        ros.wait_for(lambda: supervisor.child(names.SCHEDULER_NODE).pid != first, 20.0, "respawn")
        supervisor.wait_until_up(40.0)
        assert ros.state(observer, f"/{names.SCHEDULER_NODE}") == "active"
        log = (tmp_path / f"{names.SCHEDULER_NODE}.log").read_text()
        assert log.count("commands at 50 Hz") == 2, "configured once by each process"
        assert [fault.split(":")[0] for fault in supervisor.faults] == [
            f"{names.SCHEDULER_NODE} ended with code {-signal.SIGKILL}"
        ]
        second = supervisor.child(names.SCHEDULER_NODE)
        arguments = Path(f"/proc/{second.pid}/cmdline").read_text().split("\0")
        assert "start_actuation:=false" in arguments
    assert second.code == 0, "an orderly end"
    assert not alive(second.pid)


def test_a_policy_without_a_model_says_what_is_missing_and_goes_on_living(ros, tmp_path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    plan = only(names.POLICY_NODE, Arguments(model=str(folder), device="cpu"))
    with Supervisor(plan, tmp_path / "logs", ros.environment) as supervisor:
        with pytest.raises(BringUpError) as caught:
            supervisor.wait_until_up(60.0)
        message = str(caught.value)
        assert message.startswith(f"{names.POLICY_NODE} is unconfigured, not active: ")
        assert f"{folder}/config.json" in message
        assert supervisor.child(names.POLICY_NODE).running


def test_without_autostart_the_nodes_wait_unconfigured(ros, tmp_path) -> None:
    plan = only(names.SCHEDULER_NODE, Arguments(autostart=False))
    with Supervisor(plan, tmp_path, ros.environment) as supervisor:
        supervisor.wait_until_up(40.0)
        assert supervisor.state(names.SCHEDULER_NODE) == "unconfigured"


def test_wrong_arguments_end_the_bring_up_instead_of_being_tried_for_ever(ros, tmp_path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("chunk_scheduler:\n  ros__parameters:\n    fade: 0.4\n")
    plan = only(names.SCHEDULER_NODE, Arguments(params_file=str(file)))
    with Supervisor(plan, tmp_path / "logs", ros.environment) as supervisor:
        with pytest.raises(BringUpError, match="ended with code 2") as caught:
            supervisor.wait_until_up(40.0)
        assert str(file) in str(caught.value)
        assert "fade_s" in str(caught.value), "the nearest right name"


def test_what_ignores_a_polite_request_is_ended_all_the_same(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        "xvla_ros.nodes.child._ENDING", ((signal.SIGINT, 0.2), (signal.SIGKILL, 10.0))
    )
    program = "trap '' INT; echo ready; while :; do sleep 0.05; done"
    child = Child(["bash", "-c", program], tmp_path / "log", os.environ)
    while child.last_line() != "ready":
        assert child.running
    assert child.end() == -signal.SIGKILL


OWNER = """
import os, sys, time
from pathlib import Path
from xvla_ros import names
from xvla_ros.nodes.bringup import Arguments, BringUp, describe
from xvla_ros.nodes.supervisor import Supervisor

plan = describe(Arguments())
plan = BringUp((plan.process(names.SCHEDULER_NODE),), plan.transitions)
with Supervisor(plan, Path(sys.argv[1])) as supervisor:
    supervisor.wait_until_up(60.0)
    print("pid", supervisor.child(names.SCHEDULER_NODE).pid, flush=True)
    time.sleep(60.0)
"""


def test_nodes_end_in_order_when_whoever_started_them_is_killed(ros, tmp_path) -> None:
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = ros.spawn_script(script, str(tmp_path / "logs"))
    ros.wait_for(lambda: "pid " in owner.output, 60.0, "the scheduler")
    pid = int(owner.output.split("pid ")[1].split()[0])
    assert alive(pid)
    owner.kill()
    ros.wait_for(lambda: not alive(pid), 20.0, "the scheduler's end")
    log = (tmp_path / "logs" / f"{names.SCHEDULER_NODE}.log").read_text()
    assert "Traceback" not in log
