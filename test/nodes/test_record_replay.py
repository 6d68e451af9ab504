"""A bag played into the real nodes, and recorded again, as processes over DDS."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from std_srvs.srv import SetBool

from xvla_ros import names, resources
from xvla_ros.evaluation.bag.discovery import discover, first_instruction
from xvla_ros.evaluation.bag.files import find
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag_settings import SECTIONS, plan
from xvla_ros.parameters.files import read_text

MODEL = resources.share_folder() / "models" / "demo"
SECONDS = 5.0

pytestmark = pytest.mark.skipif(
    not (MODEL / "model.safetensors").is_file(), reason="no demonstration checkpoint in models/demo"
)


def played(process: Any) -> bool:
    return "judging them" in process.output or not process.running


def test_a_replay_moves_nothing_agrees_with_offline_and_can_be_recorded(
    ros: Any, bags: Any, tmp_path: Path
) -> None:
    bag = bags.write(tmp_path / "bag", bags.normal(SECONDS))
    out, recording = tmp_path / "out", tmp_path / "recording"
    options = ("--model", str(MODEL), "--out", str(out))
    replay = ros.spawn("xvla_ros.cli", "replay", str(bag), *options)
    recorder = ros.spawn(
        *("xvla_ros.cli", "record", "--out", str(recording), "--wait", "120"),
        *("--ros-args", "-p", "use_sim_time:=true"),
    )
    try:
        nothing_can_move(ros)
        ros.wait_for(lambda: played(replay), 150.0, "end of the replay")
        recorder.send(signal.SIGINT)
        assert recorder.wait(30.0) == 0, recorder.output
        assert replay.wait(150.0) == 0, replay.output
    finally:
        if replay.running:
            # Killed outright it would leave its nodes behind.
            replay.send(signal.SIGINT)
            replay.wait(120.0)

    summary = json.loads((out / "summary.json").read_text())
    found = summary["replay"]
    assert summary["kind"] == "replay"
    assert found["live_chunks"] >= 3
    assert found["same_views"] == found["same_actions"] == found["live_chunks"]
    assert found["same_proprio"] + found["lost_joints"] == found["live_chunks"]
    assert found["others"] == []
    assert summary["counts"]["predictions"] == found["live_chunks"]
    assert '"kind": "replay"'.replace(" ", "") in (out / "report.html").read_text().replace(" ", "")

    check_recording(recording, bags)


def nothing_can_move(ros: Any) -> None:
    """Actuation cannot be switched on in an active scheduler, and nothing is published."""
    node = ros.node()
    ros.wait_for(lambda: ros.state(node, names.SCHEDULER_NODE, 120.0) == "active", 120.0)
    request = SetBool.Request(data=True)
    answer = ros.call(node, SetBool, f"{names.SCHEDULER_NODE}/enable_actuation", request)
    assert not answer.success
    assert "no driver listens" in answer.message
    assert node.count_publishers(names.arm_trajectory()) == 0
    assert node.count_publishers(names.gripper_trajectory()) == 0


def check_recording(recording: Path, bags: Any) -> None:
    """What was recorded can be evaluated without options, and says what the nodes were."""
    with Bag(find([recording])[0]) as bag:
        assert bag.warnings == []
        for topic in ("/action_chunk", "/plan", "/chunk_scheduler/status", "/xvla_policy/status"):
            assert bag.topics[topic].count > 0
        told = read_text(bag.custom["xvla_ros.parameters"], "the bag", SECTIONS)
        assert told[names.SCHEDULER_NODE]["backend"] == "none"
        assert told[names.POLICY_NODE]["model_path"] == str(MODEL)
        assert "torch" in json.loads(bag.custom["xvla_ros.versions"])
        views = discover(bag, plan(None, MODEL, MODEL, {}).for_bag(bag.custom).wanted)
        assert [view.topic for view in views.views] == [
            f"{topic}/compressed" for topic in (bags.FRONT, bags.WRIST)
        ]
        assert views.joint_states == bags.JOINTS
        assert first_instruction(bag, views) == bags.INSTRUCTION
        stamps = [raw.time_ns * 1e-9 for raw in bag.messages(["/action_chunk"])]
    # Recorded in the time of the recording that was played.
    assert all(bags.START < stamp < bags.START + SECONDS + 60.0 for stamp in stamps)


def test_without_nodes_the_recorder_says_what_to_start(ros: Any, tmp_path: Path) -> None:
    recorder = ros.spawn("xvla_ros.cli", "record", "--out", str(tmp_path / "bag"), "--wait", "1")
    assert recorder.wait(60.0) == 1
    assert "xvla_policy does not answer within 1 s: start the nodes first" in recorder.output
    assert not (tmp_path / "bag").exists()
