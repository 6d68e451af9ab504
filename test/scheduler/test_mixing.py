"""Curves of several chunks: continuous, with the weights that they should have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.geometry import so3_exp, so3_log
from xvla_ros.scheduler.blending import Path
from xvla_ros.scheduler.mixing import Crossfade, Ensemble, Member, largest_angles, ramp, window
from xvla_ros.scheduler.trajectory import Bundle, Trajectory

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=20, deadline=None, derandomize=True)
STEP_DT = 0.1


def still(position=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0), steps=30) -> Trajectory:
    """A chunk that stays at one pose."""
    return Trajectory.through(
        np.tile(np.array(position, dtype=float), (steps + 1, 1)),
        np.tile(so3_exp(turn), (steps + 1, 1, 1)),
        STEP_DT,
    )


def walk(rng: np.random.Generator, steps: int = 30) -> Trajectory:
    positions = np.cumsum(rng.normal(scale=0.005, size=(steps + 1, 3)), axis=0)
    rotation, rotations = so3_exp(rng.normal(scale=0.1, size=3)), []
    for _ in range(steps + 1):
        rotation = rotation @ so3_exp(rng.normal(scale=0.02, size=3))
        rotations.append(rotation)
    return Trajectory.through(positions, np.stack(rotations), STEP_DT)


def test_a_ramp_goes_from_nought_to_one_without_a_kink():
    u = np.linspace(-0.5, 1.5, 2001)
    values = ramp(u)
    assert (values[u <= 0.0] == 0.0).all()
    assert (values[u >= 1.0] == 1.0).all()
    assert (np.diff(values) >= 0.0).all()
    second = np.diff(values, 2) / 1e-6
    # Of 10u^3 - 15u^4 + 6u^5 the second derivative is at most 10/sqrt(3), and continuous.
    assert np.abs(second).max() == pytest.approx(10.0 / np.sqrt(3.0), rel=1e-2)
    assert np.abs(np.diff(second)).max() < 0.1


@given(seeds, st.floats(0.0, 1.0), st.floats(-0.5, 1.0))
@few
def test_a_crossfade_leaves_the_old_curve_and_ends_on_the_new_one(seed, start, ahead):
    rng = np.random.default_rng(seed)
    old, new = walk(rng), walk(rng)
    mix = Path(Crossfade(old, new, ahead, start, 0.4))
    begin, before = mix.pose(start), old.pose(start + ahead)
    assert begin.distance(before)[0] < 1e-12
    assert begin.distance(before)[1] < 1e-7
    leaving, going = mix.twist(start + 2e-4), Path(old).twist(start + ahead + 2e-4)
    np.testing.assert_allclose(leaving.linear, going.linear, atol=1e-4)
    np.testing.assert_allclose(leaving.angular, going.angular, atol=1e-3)
    for after in (0.4, 0.41, 1.0):
        metres, radians = mix.pose(start + after).distance(new.pose(start + after))
        assert metres < 1e-12
        assert radians < 1e-7


def test_half_way_a_crossfade_is_in_the_middle():
    old, new = still(), still((0.02, 0.0, 0.0), (0.0, 0.0, 0.6))
    middle = Path(Crossfade(old, new, 0.3, 0.2, 0.4)).pose(0.4)
    np.testing.assert_allclose(middle.position, [0.01, 0.0, 0.0])
    np.testing.assert_allclose(so3_log(middle.rotation), [0.0, 0.0, 0.3], atol=1e-12)


def test_an_ensemble_weighs_as_the_aloha_code_does():
    """Weights exp(-m k), the oldest first, of three values 0, 1 and 3."""
    values = (0.0, 1.0, 3.0)
    members = tuple(Member(still((v, 0.0, 0.0)), 0.0, 3.0) for v in values)
    mean = Path(Ensemble(members, 0.5)).pose(1.0).position[0]
    assert mean == pytest.approx(
        (np.exp(-0.5) + 3.0 * np.exp(-1.0)) / (1 + np.exp(-0.5) + np.exp(-1))
    )
    assert Path(Ensemble(members, 0.0)).pose(1.0).position[0] == pytest.approx(4.0 / 3.0)


def test_each_chunk_of_an_ensemble_is_asked_for_the_same_time():
    """Line chunks that agree, observed at different times, have a mean that agrees with them."""
    times = STEP_DT * np.arange(31)[:, None]
    velocity = np.array([[0.1, -0.05, 0.02]])
    turn = np.tile(np.eye(3), (31, 1, 1))
    members = tuple(
        Member(Trajectory.through((times - ahead) * velocity, turn, STEP_DT), ahead, 3.0, 0.4)
        for ahead in (1.0, 0.5, 0.0)
    )
    for phase in (0.0, 0.33, 1.2):
        pose = Path(Ensemble(members, 0.01)).pose(phase)
        np.testing.assert_allclose(pose.position, phase * velocity[0], atol=1e-12)


def test_the_mean_rotation_about_one_axis_is_the_mean_angle():
    angles = np.array([0.1, 0.5, -0.4])
    axis = np.array([0.6, 0.0, 0.8])
    members = tuple(Member(still(turn=angle * axis), 0.0, 3.0) for angle in angles)
    got = so3_log(Path(Ensemble(members, 0.0)).pose(0.5).rotation)
    np.testing.assert_allclose(got, angles.mean() * axis, atol=1e-12)


@given(seeds)
@few
def test_the_mean_rotation_does_not_depend_on_the_frame(seed):
    rng = np.random.default_rng(seed)
    turns = rng.normal(scale=0.3, size=(4, 3))
    base, tool = so3_exp(rng.normal(size=3)), so3_exp(rng.normal(size=3))

    def mean(rotations):
        members = [
            Member(Trajectory.through(np.zeros((2, 3)), np.stack([r, r]), STEP_DT), 0.0, 1.0)
            for r in rotations
        ]
        return Path(Ensemble(tuple(members), 0.2)).pose(0.05).rotation

    plain = mean([so3_exp(t) for t in turns])
    moved = mean([base @ so3_exp(t) @ tool for t in turns])
    np.testing.assert_allclose(moved, base @ plain @ tool, atol=1e-6)
    # The mean is where the weighted turns to all members cancel out.
    weights = np.exp(-0.2 * np.arange(4))
    left = sum(w * so3_log(plain.T @ so3_exp(t)) for w, t in zip(weights, turns, strict=True))
    # Two steps of the iteration leave this much of turns up to 2 rad apart.
    assert np.linalg.norm(left) < 1e-2


@given(seeds)
@few
def test_a_chunk_that_leaves_an_ensemble_makes_no_step(seed):
    rng = np.random.default_rng(seed)
    members = (
        Member(still((0.05, 0.0, 0.0)), 0.8, 1.7, 0.4),
        Member(walk(rng), 0.4, 1.7, 0.4),
        Member(walk(rng), 0.0, 1.7, 0.4),
    )
    phases = np.arange(0.0, 1.7, 0.001)
    positions, rotations = Ensemble(members, 0.01).sample(phases)
    assert np.linalg.norm(np.diff(positions, axis=0), axis=1).max() < 0.6 * 0.001
    gram = np.swapaxes(rotations, 1, 2) @ rotations
    assert np.abs(gram - np.eye(3)).max() < 1e-9
    # After the first has left at 0.9 s and the second at 1.3 s the newest is alone.
    np.testing.assert_allclose(positions[1400:], members[2].trajectory.sample(phases[1400:])[0])


def test_several_trajectories_at_once_are_each_as_alone():
    rng = np.random.default_rng(5)
    alone = [walk(rng, steps) for steps in (3, 30, 12)]
    phases = rng.uniform(-0.1, 3.5, size=(3, 40))
    positions, rotations = Bundle(alone).sample(phases)
    for i, trajectory in enumerate(alone):
        expected = trajectory.sample(phases[i])
        np.testing.assert_array_equal(positions[i], expected[0])
        np.testing.assert_array_equal(rotations[i], expected[1])


def test_the_angle_between_two_curves_is_the_largest_on_the_window():
    turning = Trajectory.through(
        np.zeros((31, 3)), np.stack([so3_exp([0.1 * k, 0, 0]) for k in range(31)]), STEP_DT
    )
    phases = window(0.0, 1.0)
    # 1 rad/s: 0.5 s ahead, at the end of a window of 1 s.
    apart = largest_angles(still().sample(phases)[1], turning.sample(phases + 0.5)[1])
    assert apart == pytest.approx(1.5, abs=1e-6)
