"""Listens to commands and joint states of a running arm. Moves nothing."""

from __future__ import annotations

import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from xvla_ros.evaluation.lag_recording import LagRecording
from xvla_ros.evaluation.live_record import spinning

_DISCOVERY_S = 5.0
# What a driver offers is heard whether it is reliable or not.
_QOS = QoSProfile(depth=500, reliability=ReliabilityPolicy.BEST_EFFORT)


def listen(robot: str, seconds: float) -> LagRecording:
    """What is published within so many seconds from the first command on, by its publication."""
    recording = LagRecording(robot)
    states, arm, gripper, group = recording.topics
    kinds: dict[str, Any] = {states: JointState, arm: JointTrajectory, gripper: JointTrajectory}
    # Where the package is absent no driver listens to that topic.
    with suppress(ImportError):
        kinds[group] = import_module("interbotix_xs_msgs.msg").JointGroupCommand
    with spinning("xvla_calibrate") as node:
        for topic, kind in kinds.items():
            node.create_subscription(kind, topic, _keeper(recording, topic), _QOS)
        # Discovery takes up to seconds; an arm that rests sends no commands.
        end = time.monotonic() + _DISCOVERY_S
        while not recording.heard and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(seconds)
    return recording


def _keeper(recording: LagRecording, topic: str) -> Any:
    # rclpy tells from the signature that the callback wants to know when it was published.
    def keep(message: Any, info: dict[str, Any]) -> None:
        recording.take(topic, 1e-9 * float(info["source_timestamp"]), message)

    return keep
