"""What a replay and a recording consist of, without starting anything."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from xvla_ros.evaluation import live_cameras
from xvla_ros.evaluation.bag_settings import SECTIONS
from xvla_ros.nodes.bringup import Arguments, BringUpError, describe
from xvla_ros.nodes.bringup_replay import describe_replay
from xvla_ros.parameters.files import read_file
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS


def test_in_a_replay_nothing_can_move_whatever_was_asked_for() -> None:
    plan = describe_replay(Arguments(sim=True, backend="jtc", start_actuation=True, record=True))
    assert [p.node for p in plan.processes] == ["xvla_policy", "chunk_scheduler"]
    scheduler = plan.process("chunk_scheduler")
    assert scheduler.parameters["backend"] == "none"
    assert scheduler.parameters["start_actuation"] is False
    backend = next(p for p in SCHEDULER_PARAMETERS if p.name == "backend")
    assert "none" in backend.choices
    assert all(p.parameters["use_sim_time"] is True for p in plan.processes)


@pytest.fixture(scope="module")
def bag(bags: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = bags.write(tmp_path_factory.mktemp("bag") / "bag", bags.normal(1.0))
    return folder


def test_the_player_comes_last_and_its_end_is_the_end_of_all(bag: Path, tmp_path: Path) -> None:
    plan = describe_replay(Arguments(bag=str(bag), rate="0.5", out=str(tmp_path / "out")))
    player = plan.processes[-1]
    command = player.command(python="python")
    assert command[:5] == ["python", "-m", "xvla_ros.cli", "replay", str(bag)]
    assert "--attach" in command
    assert command[command.index("--rate") + 1] == "0.5"
    assert command[command.index("--out") + 1] == str(tmp_path / "out")
    assert player.essential
    assert not player.respawn


def test_the_policy_looks_at_the_cameras_of_the_bag(bag: Path, bags: Any, tmp_path: Path) -> None:
    plan = live_cameras.describe(Arguments(bag=str(bag), out=str(tmp_path / "out")))
    policy = plan.process("xvla_policy")
    values = read_file(policy.params_files[-1], SECTIONS)["xvla_policy"]
    assert values["cameras.0.topic"] == bags.FRONT
    assert values["cameras.1.topic"] == bags.WRIST
    assert values["cameras.2.topic"] == ""
    # Whoever gives a parameter file has said what the policy looks at.
    params = tmp_path / "mine.yaml"
    params.write_text("xvla_policy:\n  ros__parameters:\n    seed: 3\n")
    told = live_cameras.describe(
        Arguments(bag=str(bag), params_file=str(params), out=str(tmp_path))
    )
    assert told.process("xvla_policy").params_files[-1] == params


def test_a_bag_without_cameras_is_an_error_that_says_so(bags: Any, tmp_path: Path) -> None:
    blind = bags.write(tmp_path / "bag", bags.joints(1.0))
    with pytest.raises(BringUpError, match="bag: no camera"):
        live_cameras.describe(Arguments(bag=str(blind), out=str(tmp_path / "out")))


def test_the_launch_system_gives_a_process_its_arguments(
    bag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    def action(**given: Any) -> dict[str, Any]:
        made.append(given)
        return given

    # The launch system itself has no wheel; what it is asked for shows in these.
    for name in ("", ".actions", ".event_handlers", ".events", ".substitutions"):
        monkeypatch.setitem(sys.modules, f"launch{name}", MagicMock())
    for name in ("", ".actions", ".ros_adapters", ".substitutions"):
        monkeypatch.setitem(sys.modules, f"launch_ros{name}", MagicMock())
    for name in ("launch.launch_description_sources", "ament_index_python.packages"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.setitem(
        sys.modules, "launch_ros.actions", SimpleNamespace(Node=action, LifecycleNode=action)
    )
    monkeypatch.delitem(sys.modules, "xvla_ros.nodes.launch_actions", raising=False)
    launch_actions = importlib.import_module("xvla_ros.nodes.launch_actions")
    plan = describe_replay(Arguments(bag=str(bag), out=str(tmp_path / "out")))
    for process in plan.processes:
        launch_actions._process(process, plan)
    monkeypatch.delitem(sys.modules, "xvla_ros.nodes.launch_actions")
    assert [given["name"] for given in made] == [p.node for p in plan.processes]
    assert made[-1]["arguments"][:2] == ["replay", str(bag)]
    assert made[0]["parameters"][:-1] == [str(path) for path in plan.processes[0].params_files]


def test_a_bag_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BringUpError, match=r"bag: no file or folder .*nothing"):
        describe_replay(Arguments(bag=str(tmp_path / "nothing")))


def test_recording_is_off_unless_asked_for_and_its_end_ends_nothing_else(tmp_path: Path) -> None:
    assert "xvla_recorder" not in [p.node for p in describe(Arguments()).processes]
    plan = describe(Arguments(record=True, record_to=str(tmp_path / "bag"), use_sim_time=True))
    recorder = plan.process("xvla_recorder")
    # What is started first is ended last: the recorder sees the hold command.
    assert plan.processes[0] is recorder
    command = recorder.command(python="python")
    assert command[:4] == ["python", "-m", "xvla_ros.cli", "record"]
    assert command[command.index("--out") + 1] == str(tmp_path / "bag")
    assert command.index("--out") < command.index("--ros-args")
    assert recorder.parameters["use_sim_time"] is True
    assert not recorder.essential
