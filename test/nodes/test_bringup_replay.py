"""What a replay and a recording consist of, without starting anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from xvla_ros.nodes.bringup import Arguments, BringUpError, describe
from xvla_ros.nodes.bringup_replay import describe_replay
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


def test_the_player_comes_last_and_its_end_is_the_end_of_all(tmp_path: Path) -> None:
    plan = describe_replay(Arguments(bag=str(tmp_path), rate="0.5", out=str(tmp_path / "out")))
    player = plan.processes[-1]
    command = player.command(python="python")
    assert command[:5] == ["python", "-m", "xvla_ros.cli", "replay", str(tmp_path)]
    assert "--attach" in command
    assert command[command.index("--rate") + 1] == "0.5"
    assert command[command.index("--out") + 1] == str(tmp_path / "out")
    assert player.essential
    assert not player.respawn


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
