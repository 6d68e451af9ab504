"""Commands in the terms of a joint trajectory controller; joint states by name."""

import math

import numpy as np
import pytest

from xvla_ros.arm import mapping

NAMES = ["waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate"]
FULL = [*NAMES, "gripper", "left_finger", "right_finger"]
VALUES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0, 0.0195, -0.0195]


def test_the_arm_controller_hears_all_six_joints_with_their_speeds():
    point = mapping.arm_point([1, 2, 3, 4, 5, 6], [0.1] * 6, 0.02)
    assert list(point.joint_names) == NAMES
    assert list(point.positions) == [1, 2, 3, 4, 5, 6]
    assert point.velocities == pytest.approx([0.1] * 6)
    assert point.time_from_start == 0.02


def test_without_speeds_the_controller_is_left_to_choose():
    assert mapping.arm_point([0] * 6, None, 0.02).velocities == ()


def test_the_gripper_controller_drives_one_finger_in_metres():
    point = mapping.gripper_point(1.0, 0.05)
    assert point.joint_names == ("left_finger",)
    assert point.positions == pytest.approx([0.015])
    assert mapping.gripper_point(0.0, 0.05).positions == pytest.approx([0.037])


@pytest.mark.parametrize(
    ("joints", "velocities", "time"),
    [
        ([0, 0, 0, 0, 0, math.nan], None, 0.02),
        ([0] * 6, [math.inf] + [0] * 5, 0.02),
        ([0] * 5, None, 0.02),
        ([0] * 6, None, 0.0),
        ([0] * 6, None, math.nan),
    ],
)
def test_nothing_that_is_not_a_finite_posture_becomes_a_command(joints, velocities, time):
    with pytest.raises(ValueError, match=r"finite|positive"):
        mapping.arm_point(joints, velocities, time)


def test_joints_are_found_by_name_in_any_order():
    order = [8, 3, 0, 7, 5, 1, 4, 2, 6]
    reading = mapping.read_joint_state(
        [FULL[i] for i in order], [VALUES[i] for i in order], [10.0 * VALUES[i] for i in order]
    )
    assert reading.joints == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert reading.velocities == pytest.approx([1, 2, 3, 4, 5, 6])
    assert reading.finger == pytest.approx(0.0195)


def test_empty_velocities_are_no_velocities():
    assert mapping.read_joint_state(FULL, VALUES).velocities is None
    assert mapping.read_joint_state(FULL, VALUES, [np.nan] * 9).velocities is None


def test_the_motor_tells_the_opening_where_the_finger_is_nan_or_absent():
    values = [*VALUES[:7], math.nan, math.nan]
    assert mapping.read_joint_state(FULL, values).finger == pytest.approx(0.0194936, abs=1e-6)
    assert mapping.read_joint_state(FULL[:7], VALUES[:7]).finger == pytest.approx(
        0.0194936, abs=1e-6
    )
    assert mapping.read_joint_state(NAMES, VALUES[:6]).finger is None


def test_a_missing_joint_is_named():
    with pytest.raises(ValueError, match="lacks elbow; it has waist, shoulder, forearm_roll"):
        mapping.read_joint_state([n for n in NAMES if n != "elbow"], [0.0] * 5)


def test_a_nan_joint_is_named():
    with pytest.raises(ValueError, match="gives wrist_angle = nan"):
        mapping.read_joint_state(NAMES, [0, 0, 0, 0, math.nan, 0])


def test_other_lengths_are_refused():
    with pytest.raises(ValueError, match="9 names but 8 positions"):
        mapping.read_joint_state(FULL, VALUES[:8])
