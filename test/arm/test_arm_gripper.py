"""Finger, motor angle, closed fraction and BridgeData's number are one opening."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xvla_ros.arm import gripper


@pytest.mark.parametrize(
    ("angle", "finger"),
    # Computed from the crank's geometry; 0.0195 is the vendor's "Home" of the gripper.
    [(-math.pi / 2, 0.010), (-0.378, 0.015), (0, 0.0195), (1.04, 0.035), (1.268, 0.037)],
)
def test_motor_angles_give_the_published_finger_positions(angle, finger):
    assert gripper.finger_from_motor(angle) == pytest.approx(finger, abs=6e-5)
    assert gripper.motor_from_finger(finger) == pytest.approx(angle, abs=6e-3)


@given(st.floats(-1.57, 1.57))
def test_a_motor_angle_is_found_again_from_the_finger(angle):
    finger = gripper.finger_from_motor(angle)
    assert gripper.motor_from_finger(finger) == pytest.approx(angle, abs=1e-5)


def test_closed_is_one_and_open_is_zero():
    assert gripper.closed_from_finger(0.015) == pytest.approx(1.0)
    assert gripper.closed_from_finger(0.037) == pytest.approx(0.0)
    assert gripper.finger_from_closed(1.0) == pytest.approx(0.015)
    assert gripper.finger_from_closed(0.5) == pytest.approx(0.026)


@given(st.floats(-10, 10))
def test_no_fraction_moves_the_fingers_beyond_their_range(closed):
    assert 0.015 <= gripper.finger_from_closed(closed) <= 0.037


@given(st.floats(0.015, 0.037))
def test_the_fraction_of_a_finger_position_leads_back_to_it(finger):
    closed = gripper.closed_from_finger(finger)
    assert gripper.finger_from_closed(closed) == pytest.approx(finger, abs=1e-12)


def test_bridge_counts_the_other_way_round_from_ten_to_thirty_five_millimetres():
    assert gripper.bridge_from_finger(0.010) == pytest.approx(0.0)
    assert gripper.bridge_from_finger(0.035) == pytest.approx(1.0)
    assert gripper.finger_from_bridge(1.0) == pytest.approx(0.035)
    # Recorded values reach 1.007.
    assert gripper.finger_from_bridge(1.007) == pytest.approx(0.035175)
    assert gripper.finger_from_bridge(0.0) == pytest.approx(0.015)


@pytest.mark.parametrize(
    "convert",
    [
        gripper.finger_from_closed,
        gripper.closed_from_finger,
        gripper.finger_from_motor,
        gripper.motor_from_finger,
        gripper.bridge_from_finger,
        gripper.finger_from_bridge,
    ],
)
def test_nan_never_becomes_a_gripper_command(convert):
    with pytest.raises(ValueError, match="nan"):
        convert(math.nan)


def test_a_finger_that_the_crank_cannot_reach_is_an_error():
    with pytest.raises(ValueError, match=r"0\.039 m is outside 0\.010 to 0\.038 m"):
        gripper.motor_from_finger(0.039)
