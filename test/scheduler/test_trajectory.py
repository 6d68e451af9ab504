"""A chunk as a function of time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms3d import axangles, quaternions

from xvla_ros import geometry
from xvla_ros.scheduler.trajectory import Trajectory, exp_rows, log_rows

DT = 1.0 / 6.0
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)


def random_knots(seed: int, n: int = 8, turn: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    positions = np.cumsum(rng.normal(scale=0.02, size=(n, 3)), axis=0)
    q = rng.normal(size=4)
    rotations = [quaternions.quat2mat(q / np.linalg.norm(q))]
    for _ in range(n - 1):
        axis = rng.normal(size=3)
        rotations.append(
            rotations[-1] @ axangles.axangle2mat(axis / np.linalg.norm(axis), turn * rng.random())
        )
    return positions, np.stack(rotations)


@given(seeds)
@few
def test_rows_of_rotation_vectors_are_what_one_at_a_time_gives(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(6, 3))
    vectors *= (rng.uniform(0, 3.0, 6) / np.linalg.norm(vectors, axis=1))[:, None]
    vectors[0] = 0.0
    expected = [np.eye(3), *(axangles.axangle2mat(v, np.linalg.norm(v)) for v in vectors[1:])]
    np.testing.assert_allclose(exp_rows(vectors), expected, atol=1e-9)
    np.testing.assert_allclose(log_rows(exp_rows(vectors)), vectors, atol=1e-9)


@given(seeds)
@few
def test_every_knot_is_passed_at_its_time(seed):
    positions, rotations = random_knots(seed)
    trajectory = Trajectory.through(positions, rotations, DT)
    got = trajectory.sample(DT * np.arange(len(positions)))
    np.testing.assert_allclose(got[0], positions, atol=1e-12)
    np.testing.assert_allclose(got[1], rotations, atol=1e-9)


@given(seeds, st.floats(0.0, 1.3))
@few
def test_rotations_stay_rotations(seed, phase):
    rotation = Trajectory.through(*random_knots(seed), DT).pose(phase).rotation
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-9)
    assert np.linalg.det(rotation) == pytest.approx(1.0)


@given(seeds, st.integers(1, 6))
@few
def test_velocity_is_continuous_at_a_knot(seed, knot):
    trajectory = Trajectory.through(*random_knots(seed), DT)
    at, h = knot * DT, 1e-6
    p, r = trajectory.sample(np.array([at - h, at, at + h]))
    np.testing.assert_allclose((p[1] - p[0]) / h, (p[2] - p[1]) / h, atol=1e-4)
    before = geometry.so3_log(r[0].T @ r[1]) / h
    after = geometry.so3_log(r[1].T @ r[2]) / h
    np.testing.assert_allclose(before, after, atol=1e-3)


@given(seeds)
@few
def test_no_axis_leaves_the_interval_between_two_knots(seed):
    positions, rotations = random_knots(seed)
    trajectory = Trajectory.through(positions, rotations, DT)
    for k in range(len(positions) - 1):
        inside, _ = trajectory.sample(DT * (k + np.linspace(0.0, 1.0, 20)))
        low = np.minimum(positions[k], positions[k + 1]) - 1e-12
        high = np.maximum(positions[k], positions[k + 1]) + 1e-12
        assert (inside >= low).all()
        assert (inside <= high).all()


def test_a_path_along_the_table_that_then_rises_never_dips():
    positions = np.array([[0.1 * k, 0.0, max(0.0, 0.05 * (k - 3))] for k in range(8)])
    rotations = np.broadcast_to(np.eye(3), (8, 3, 3))
    heights = Trajectory.through(positions, rotations, DT).sample(np.linspace(0, 7 * DT, 400))[0]
    assert heights[:, 2].min() >= 0.0


@given(seeds)
@few
def test_uniform_motion_stays_uniform(seed):
    rng = np.random.default_rng(seed)
    velocity, turn = rng.normal(size=3), rng.normal(scale=0.2, size=3)
    positions = np.arange(6.0)[:, None] * velocity * DT
    rotations = np.stack([geometry.so3_exp(k * turn) for k in range(6)])
    trajectory = Trajectory.through(positions, rotations, DT)
    for x in rng.uniform(0.0, 5.0, 10):
        pose = trajectory.pose(x * DT)
        np.testing.assert_allclose(pose.position, x * DT * velocity, atol=1e-12)
        np.testing.assert_allclose(pose.rotation, geometry.so3_exp(x * turn), atol=1e-9)


@given(seeds)
@few
def test_rotations_stay_close_to_the_shortest_way(seed):
    """Slerp is the yardstick: a step of 0.2 rad, smoothed, departs by a fraction of the step."""
    positions, rotations = random_knots(seed, turn=0.2)
    trajectory = Trajectory.through(positions, rotations, DT)
    for k in range(len(rotations) - 1):
        for u in (0.25, 0.5, 0.75):
            slerp = geometry.slerp(rotations[k], rotations[k + 1], u)
            got = trajectory.pose((k + u) * DT).rotation
            assert geometry.rotation_angle(slerp, got) < 0.25 * 0.2


def test_after_the_last_knot_the_last_pose_is_held():
    positions, rotations = random_knots(3)
    trajectory = Trajectory.through(positions, rotations, DT)
    assert trajectory.duration == pytest.approx(7 * DT)
    for late in (0.0, 1e-9, 0.01, 5.0, 1e6):
        pose = trajectory.pose(trajectory.duration + late)
        np.testing.assert_allclose(pose.position, positions[-1], atol=1e-9)
        np.testing.assert_allclose(pose.rotation, rotations[-1], atol=1e-9)


@given(seeds, st.floats(0.0, 1.2))
@few
def test_a_turned_base_frame_turns_the_rotations(seed, phase):
    positions, rotations = random_knots(seed)
    q = np.random.default_rng(seed).normal(size=4)
    frame = quaternions.quat2mat(q / np.linalg.norm(q))
    plain = Trajectory.through(positions, rotations, DT).pose(phase).rotation
    turned = Trajectory.through(positions, frame @ rotations, DT).pose(phase).rotation
    np.testing.assert_allclose(turned, frame @ plain, atol=1e-9)


@given(seeds, st.floats(0.0, 1.2), st.integers(0, 3))
@few
def test_a_moved_and_square_turned_base_frame_moves_the_positions(seed, phase, quarters):
    positions, rotations = random_knots(seed)
    frame = axangles.axangle2mat([0, 0, 1], quarters * math.pi / 2).round()
    shift = np.random.default_rng(seed).normal(size=3)
    plain = Trajectory.through(positions, rotations, DT).pose(phase).position
    moved = Trajectory.through(positions @ frame.T + shift, rotations, DT).pose(phase).position
    np.testing.assert_allclose(moved, frame @ plain + shift, atol=1e-9)


@given(seeds, st.lists(st.floats(-0.05, 1.5), min_size=2, max_size=6))
@few
def test_one_phase_gives_what_many_give(seed, phases):
    trajectory = Trajectory.through(*random_knots(seed), DT)
    positions, rotations = trajectory.sample(np.array(phases))
    for phase, position, rotation in zip(phases, positions, rotations, strict=True):
        pose = trajectory.pose(phase)
        np.testing.assert_allclose(pose.position, position, atol=1e-15)
        np.testing.assert_allclose(pose.rotation, rotation, atol=1e-14)
        alone = trajectory.sample(np.array([phase]))
        np.testing.assert_array_equal(alone[0][0], pose.position)
        np.testing.assert_array_equal(alone[1][0], pose.rotation)
