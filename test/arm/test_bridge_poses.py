"""Poses recorded on real WidowX arms are within reach, through BridgeData's own convention."""

import json

import numpy as np
import pytest
from transforms3d.euler import euler2mat

from xvla_ros import ee6d
from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Pose
from xvla_ros.model.domain import BRIDGE

ARM = WidowX250s()
READY = np.array(constants.READY)


@pytest.fixture(scope="module")
def episodes(bridge_data):
    """Recorded states, one array (10, 7) per episode: x y z, roll pitch yaw, gripper."""
    found = json.loads((bridge_data / "episodes.json").read_text())
    return [np.array(episode["state"]) for episode in found]


def recorded_numbers(state):
    """A state in the frame of BridgeData: zero angles (extrinsic xyz) = gripper straight down."""
    rotation = euler2mat(*state[3:6], axes="sxyz")
    return ee6d.pack(state[:3], rotation, 0.0, BRIDGE.rotation_layout)


def gripper_pose(numbers):
    positions, rotations, _ = BRIDGE.decode_actions(numbers[None])
    return Pose(positions[0], rotations[0])


def test_all_recorded_poses_are_reached_and_come_back_as_recorded(episodes):
    reached = 0
    for states in episodes:
        joints = READY
        for state in states:
            numbers = recorded_numbers(state)
            found = ARM.ik(gripper_pose(numbers), joints)
            assert found is not None, f"pose {state[:6].tolist()} is not reached"
            joints = found
            back = BRIDGE.encode_proprio(ARM.fk(joints))
            assert back == pytest.approx(numbers, abs=1e-6)
            reached += 1
    assert reached == 250


def test_the_gripper_of_recorded_poses_points_down(episodes):
    """A frame rotation on the wrong side or of the other sense would be reached elsewhere."""
    forward = [gripper_pose(recorded_numbers(s)).rotation[:, 0] for s in np.concatenate(episodes)]
    assert np.array(forward)[:, 2].max() < -0.7
    assert np.median(np.array(forward)[:, 2]) < -0.9


def test_recorded_motion_is_continuous_in_the_joints(episodes):
    for states in episodes:
        path = [READY]
        for state in states:
            found = ARM.ik(gripper_pose(recorded_numbers(state)), path[-1])
            assert found is not None
            path.append(found)
        # Steps of 0.2 s; no recorded arm turned a joint by more than its top speed allows.
        assert np.abs(np.diff(path[1:], axis=0)).max() < 0.2 * np.pi
