"""A bag made of real WidowX episodes: recorded states, photographs, 5 Hz."""

import json

import numpy as np
import pytest
from transforms3d.euler import euler2mat

from xvla_ros import ee6d
from xvla_ros.arm.constants import READY
from xvla_ros.arm.gripper import finger_from_bridge
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Pose, rotation_angle
from xvla_ros.model.domain import BRIDGE

HZ = 5.0
APART_S = 60.0
EPISODES = 8
VIEWS = {0: "/D435/color/image_raw/compressed", 1: "/blue/image_raw/compressed"}


@pytest.fixture(scope="module")
def episodes(bridge_data):
    return json.loads((bridge_data / "episodes.json").read_text())[:EPISODES]


def pose(state):
    """BridgeData's state (extrinsic xyz, zero = straight down) as the gripper's pose."""
    rotation = euler2mat(*state[3:6], axes="sxyz")
    numbers = ee6d.pack(state[:3], rotation, 0.0, BRIDGE.rotation_layout)
    positions, rotations, _ = BRIDGE.decode_actions(numbers[None])
    return Pose(positions[0], rotations[0])


def messages(bags, number, episode, folder):
    start = bags.START + APART_S * number
    yield bags.Message("/language_instruction", start - 0.01, bags.text(episode["instruction"]))
    arm, joints = WidowX250s(), np.array(READY)
    for step, state in enumerate(episode["state"]):
        stamp = start + step / HZ
        found = arm.ik(pose(state), joints)
        assert found is not None
        joints = found
        finger = finger_from_bridge(state[6])
        yield bags.Message(bags.JOINTS, stamp + 0.002, bags.joint_state(stamp, joints, finger))
        for view, topic in VIEWS.items():
            data = (folder / f"view{view}_step{step}.jpg").read_bytes()
            image = bags.T["sensor_msgs/msg/CompressedImage"](
                header=bags.header(stamp), format="jpeg", data=np.frombuffer(data, np.uint8)
            )
            yield bags.Message(topic, stamp + 0.01, image)


@pytest.fixture(scope="module")
def evaluated(bridge_data, episodes, bags, turner, tmp_path_factory):
    """Entry and rows; the policy holds still, whatever it is shown."""
    everything = [
        message
        for k, episode in enumerate(episodes)
        for message in messages(bags, k, episode, bridge_data / f"episode_{k:02d}")
    ]
    folder = bags.write(tmp_path_factory.mktemp("bridge") / "bag", everything)
    policy = turner.Turner(speed=0.0)
    entry, rows = turner.evaluate(folder, policy, policy_rate_hz=HZ)
    return entry, rows, policy


def step_of(row):
    return round((row["time_s"] % APART_S) * HZ)


def test_it_evaluates_without_options(evaluated, episodes):
    entry, _, policy = evaluated
    assert (entry["status"], entry["warnings"], entry["message"]) == ("complete", [], "")
    assert [view["topic"] for view in entry["views"]] == list(VIEWS.values())
    assert len(entry["episodes"]) == EPISODES
    told = [episode["instruction"] for episode in entry["episodes"]]
    assert told == [episode["instruction"] for episode in episodes]
    assert {image.shape for image in policy.seen[0].images if image is not None} == {(64, 64, 3)}


def test_the_policy_is_told_the_recorded_states(evaluated, episodes):
    _, rows, policy = evaluated
    own = [row for row in rows if row["method"] == "policy"]
    assert len(own) > 8 * EPISODES
    for row, seen in zip(own, policy.seen, strict=True):
        recorded = pose(episodes[row["episode"]]["state"][step_of(row)])
        metres, radians = recorded.distance(seen.pose)
        assert metres < 1e-6
        assert radians < 1e-5


def test_the_error_of_holding_still_is_how_far_the_arm_went(evaluated, episodes):
    _, rows, _ = evaluated
    compared = 0
    for row in rows:
        states = episodes[row["episode"]]["state"]
        now, later = step_of(row), step_of(row) + 5
        if row["method"] != "hold_still" or later >= len(states):
            continue
        first, second = pose(states[now]), pose(states[later])
        moved = 1e3 * np.linalg.norm(first.position - second.position)
        turned = np.degrees(rotation_angle(first.rotation, second.rotation))
        assert row["position_error_mm_1s"] == pytest.approx(moved, abs=1e-2)
        assert row["rotation_error_deg_1s"] == pytest.approx(turned, abs=1e-2)
        # Nothing is known of the chunk's end: an episode lasts 1.8 s.
        assert row["position_error_mm_end"] is None
        compared += 1
    assert compared >= 3 * EPISODES


def test_the_error_of_going_on_is_the_recorded_second_difference(evaluated, episodes):
    _, rows, _ = evaluated
    compared = 0
    for row in rows:
        states = episodes[row["episode"]]["state"]
        now = step_of(row)
        if row["method"] != "constant_velocity" or not 1 <= now < len(states) - 5:
            continue
        before, here, later = (np.array(states[k][:3]) for k in (now - 1, now, now + 5))
        expected = 1e3 * np.linalg.norm(here + 5.0 * (here - before) - later)
        assert row["position_error_mm_1s"] == pytest.approx(expected, abs=1e-2)
        compared += 1
    assert compared >= 3 * EPISODES


def test_the_recorded_gripper_is_read_in_its_own_sense(evaluated, episodes):
    """BridgeData: 1 = open. Ours: 1 = closed."""
    _, rows, _ = evaluated
    for row in (row for row in rows if row["method"] == "policy"):
        later = step_of(row) + 5
        states = episodes[row["episode"]]["state"]
        if later < len(states):
            open_ = states[later][6]
            assert (row["actual_closed"][5] < 0.1) == (
                open_ > 0.99 or finger_from_bridge(open_) > 0.0349
            )
