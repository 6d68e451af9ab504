"""Errors, agreement and spread against numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.evaluation import open_loop_metrics as metrics
from xvla_ros.evaluation import so3
from xvla_ros.evaluation.baselines import (
    Earlier,
    constant_velocity,
    hold_still,
    previous_chunk,
)
from xvla_ros.evaluation.open_loop_metrics import Motion
from xvla_ros.geometry import Pose, matrix_from_quaternion, so3_exp, so3_log
from xvla_ros.scheduler.params import GripperParams

DT = 1.0 / 6.0
ORIGIN = Pose(np.array([0.3, 0.0, 0.2]), np.eye(3))


def line(horizon=30, speed=0.06, turn=0.3, closed=0.0):
    """Moves along x and turns about z at constant speed."""
    times = metrics.step_times(horizon, DT)
    positions = ORIGIN.position + times[:, None] * np.array([speed, 0.0, 0.0])
    rotations = np.stack([so3_exp([0.0, 0.0, turn * t]) for t in times])
    return Motion(positions, rotations, np.full(horizon, closed), np.full(horizon, closed))


def truth(motion, closed=0.0):
    return motion.positions, motion.rotations, np.full(len(motion.positions), closed)


def errors(motion, other, closed=0.0, second=None):
    unknown = (np.full(3, np.nan), np.full((3, 3), np.nan), np.nan)
    return metrics.errors(motion, ORIGIN, DT, truth(other, closed), second or unknown, 0.5)


def test_errors_are_millimetres_and_degrees_at_dt_one_second_and_the_end():
    found = errors(line(speed=0.06, turn=0.3), line(speed=0.0, turn=0.0))
    assert found.position_at == pytest.approx({"dt": 10.0, "1s": 60.0, "end": 300.0})
    degrees = np.degrees([0.3 / 6.0, 0.3, 1.5])
    assert list(found.rotation_at.values()) == pytest.approx(degrees)


def test_the_error_at_one_second_lies_between_steps_where_no_step_is_due_then():
    motion = line(horizon=4)
    motion = Motion(motion.positions, motion.rotations, motion.closed, motion.command)
    second = (ORIGIN.position, np.eye(3), 0.0)
    # Steps of 0.3 s: one second is a third of the way from the third to the fourth.
    found = metrics.errors(motion, ORIGIN, 0.3, truth(line(4, 0.0, 0.0)), second, 0.5)
    assert found.position_at["1s"] == pytest.approx(30.0 + 10.0 / 3.0)


def test_a_chunk_shorter_than_a_second_has_no_error_there():
    found = errors(line(horizon=3), line(horizon=3))
    assert np.isnan(found.position_at["1s"])
    assert found.position_at["end"] == pytest.approx(0.0)


def test_what_is_not_known_has_no_error():
    other = line()
    other.positions[10:] = np.nan
    found = errors(line(), other)
    assert np.isfinite(found.position_mm[:10]).all()
    assert np.isnan(found.position_mm[10:]).all()
    assert np.isnan(found.position_at["end"])


def test_the_gripper_agrees_where_command_and_record_are_on_the_same_side():
    motion = line(closed=1.0)
    found = errors(motion, line(), closed=0.77)
    assert found.agrees.mean() == 1.0
    assert errors(motion, line(), closed=0.3).agrees.mean() == 0.0
    assert np.isnan(errors(motion, line(), closed=np.nan).agrees).all()


def test_a_lone_step_does_not_move_the_gripper_and_two_do():
    """The scheduler closes when two knots in a row agree."""
    closed = np.zeros(8)
    closed[2] = 1.0
    params = GripperParams(close_above=0.8, open_below=0.6, dwell_s=0.0)
    assert not metrics.gripper_commands(closed, 0.0, DT, 0.0, params).any()
    closed[3] = 1.0
    commands = metrics.gripper_commands(closed, 0.0, DT, 0.0, params)
    assert commands.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


def test_the_chunks_own_threshold_goes_before_the_parameters():
    closed = np.full(4, 0.85)
    params = GripperParams(close_above=0.8, open_below=0.6)
    assert metrics.gripper_commands(closed, 0.0, DT, 0.0, params).all()
    assert not metrics.gripper_commands(closed, 0.0, DT, 0.95, params).any()


def test_the_spread_of_two_seeds_is_half_their_distance():
    first, second = line(), line()
    second.positions[:] += [0.0, 0.02, 0.0]
    second.rotations[:] = second.rotations @ so3_exp([0.2, 0.0, 0.0])
    mm, deg = metrics.spread(
        np.stack([first.positions, second.positions]), np.stack([first.rotations, second.rotations])
    )
    assert mm == pytest.approx(np.full(30, 10.0))
    assert deg == pytest.approx(np.full(30, np.degrees(0.1)))


def test_equal_seeds_have_no_spread():
    one = line()
    mm, deg = metrics.spread(np.stack([one.positions] * 3), np.stack([one.rotations] * 3))
    assert mm == pytest.approx(np.zeros(30), abs=1e-9)
    assert deg == pytest.approx(np.zeros(30), abs=1e-5)


def test_hold_still_stays():
    motion = hold_still(ORIGIN, 1.0, 5)
    assert np.array_equal(motion.positions, np.tile(ORIGIN.position, (5, 1)))
    assert motion.command.tolist() == [1.0] * 5


def test_constant_velocity_goes_on_on_a_line_and_about_an_axis():
    before = Pose(ORIGIN.position - [0.012, 0.0, 0.0], so3_exp([0.0, 0.0, -0.06]))
    motion = constant_velocity(ORIGIN, before, 0.2, 0.0, 30, DT)
    expected = line(speed=0.06, turn=0.3)
    assert motion.positions == pytest.approx(expected.positions)
    assert motion.rotations == pytest.approx(expected.rotations)


def test_constant_velocity_without_a_past_is_rest():
    motion = constant_velocity(ORIGIN, None, 0.0, 0.0, 3, DT)
    assert motion.positions == pytest.approx(np.tile(ORIGIN.position, (3, 1)))


def test_the_previous_chunk_is_read_at_the_times_of_this_one_and_held_at_its_end():
    closed = np.arange(30.0)
    old = line()
    old = Motion(old.positions, old.rotations, closed, closed)
    shifted = previous_chunk(Earlier(10.0, ORIGIN, old), 10.0 + 2.5 * DT, DT)
    expected_x = 0.3 + 0.06 * DT * np.minimum(np.arange(1, 31) + 2.5, 30)
    assert shifted.positions[:, 0] == pytest.approx(expected_x)
    angles = np.linalg.norm(so3.log(shifted.rotations), axis=1)
    assert angles == pytest.approx(0.3 * DT * np.minimum(np.arange(1, 31) + 2.5, 30))
    # The gripper is held from each step to the next.
    assert shifted.closed[:3].tolist() == [2.0, 3.0, 4.0]


vectors = st.tuples(*[st.floats(-1.8, 1.8)] * 3).map(np.array)


@given(vectors)
@settings(max_examples=200, deadline=None)
def test_many_rotations_at_once_are_as_one_at_a_time(vector):
    rotation = so3_exp(vector)
    assert so3.exp(vector[None])[0] == pytest.approx(rotation, abs=1e-12)
    if np.linalg.norm(vector) < 3.1:
        assert so3.log(rotation[None])[0] == pytest.approx(so3_log(rotation), abs=1e-7)
    q = so3.quaternions(rotation)[0]
    assert q[3] >= 0.0
    assert matrix_from_quaternion(q) == pytest.approx(rotation, abs=1e-12)


def test_an_unknown_rotation_has_no_quaternion():
    found = so3.quaternions(np.stack([np.eye(3), np.full((3, 3), np.nan)]))
    assert found[0] == pytest.approx([0.0, 0.0, 0.0, 1.0])
    assert np.isnan(found[1]).all()
