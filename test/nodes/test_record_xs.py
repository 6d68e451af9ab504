"""A recording of an arm whose driver is an xs_sdk."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from interbotix_xs_msgs.msg import JointGroupCommand, JointSingleCommand

from xvla_ros import names
from xvla_ros.evaluation.bag import storage
from xvla_ros.evaluation.bag.stream import StreamWriter
from xvla_ros.evaluation.live_record import driver_topics, recorder_of
from xvla_ros.nodes import qos
from xvla_ros.parameters.parameter import Values, defaults
from xvla_ros.parameters.policy import POLICY_PARAMETERS

GROUP, SINGLE = names.xs_joint_group(), names.xs_joint_single()
ASKED: dict[str, Values] = {
    names.POLICY_NODE: defaults(POLICY_PARAMETERS),
    names.SCHEDULER_NODE: {"backend": "xs"},
}


def test_what_the_driver_is_told_is_in_the_bag(ros: Any, tmp_path: Path) -> None:
    node = ros.node()
    writer = StreamWriter(tmp_path / "bag")
    topics = driver_topics(ASKED, pytest.fail)
    recorder = recorder_of(node, ASKED[names.POLICY_NODE], sink=writer.put, more=topics)
    arm = node.create_publisher(JointGroupCommand, GROUP, qos.COMMAND)
    gripper = node.create_publisher(JointSingleCommand, SINGLE, qos.COMMAND)

    def both_written() -> bool:
        arm.publish(JointGroupCommand(name="arm", cmd=[0.5, -1.0]))
        gripper.publish(JointSingleCommand(name="gripper", cmd=-250.0))
        return writer.counts[GROUP] > 0 and writer.counts[SINGLE] > 0

    ros.wait_for(both_written, what="both commands in the bag")
    recorder.close()
    writer.close({})
    found = {entry.topic: entry.message for entry in storage.read(tmp_path / "bag")}
    assert (found[GROUP].name, list(found[GROUP].cmd)) == ("arm", [0.5, -1.0])
    assert (found[SINGLE].name, found[SINGLE].cmd) == ("gripper", -250.0)


def test_without_the_driver_s_messages_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith("interbotix"):
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    said: list[str] = []
    assert driver_topics(ASKED, said.append) == []
    assert "interbotix_xs_msgs is missing" in said[0]
    assert driver_topics(ASKED | {names.SCHEDULER_NODE: {"backend": "jtc"}}, said.append) == []
    assert len(said) == 1
