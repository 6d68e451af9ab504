"""Latency, progress, rate of plan time, offsets that fade, joint moves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms3d import quaternions

from xvla_ros import geometry
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.scheduler.blending import Path, Twist, faded
from xvla_ros.scheduler.latency import LatencyWindow
from xvla_ros.scheduler.moves import JointMove
from xvla_ros.scheduler.params import (
    GripperParams,
    LimitParams,
    MoveParams,
    RateParams,
    SchedulerParams,
)
from xvla_ros.scheduler.progress import ProgressLog
from xvla_ros.scheduler.rate import PlanRate, profile, stop_distance
from xvla_ros.scheduler.trajectory import Trajectory

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)
RATE = RateParams()


def test_the_cold_start_does_not_count_as_latency():
    window = LatencyWindow()
    assert window.p95 == 0.0
    window.add(8.0)
    assert window.p95 == 0.0
    for _ in range(10):
        window.add(0.1)
    assert window.p95 == pytest.approx(0.1)
    window.restart()
    window.add(9.0)
    assert window.p95 == pytest.approx(0.1)


def test_the_window_forgets_a_spike():
    window = LatencyWindow(size=20)
    window.add(0.1)
    for _ in range(5):
        window.add(2.0)
    for _ in range(20):
        window.add(0.1)
    assert window.p95 == pytest.approx(0.1)


def test_p95_is_near_the_top_of_the_window():
    window = LatencyWindow(size=100)
    window.add(0.0)
    for k in range(101):
        window.add(k / 100)
    assert window.p95 == pytest.approx(0.95, abs=0.01)


def test_progress_is_what_was_executed_not_what_the_clock_says():
    log = ProgressLog()
    for k in range(100):
        # Full speed for one second, half speed for half a second, then rest.
        log.add(0.02 * k, 0.02 if k < 50 else 0.01 if k < 75 else 0.0)
    # An entry is what was executed up to its time.
    assert log.since(0.98) == pytest.approx(0.25)
    assert log.since(0.48) == pytest.approx(0.75)
    assert log.since(1.5) == pytest.approx(0.0)
    assert log.since(99.0) == 0.0
    log.clear()
    assert log.since(0.0) == 0.0


def test_progress_before_the_oldest_entry_is_what_is_known():
    log = ProgressLog(keep_s=1.0)
    for k in range(201):
        log.add(0.02 * k, 0.02)
    assert log.since(-100.0) == pytest.approx(1.0, abs=0.03)


@given(st.floats(0.4, 3.0), st.floats(0.0, 1.0))
@few
def test_plan_time_stops_at_its_end_within_its_bounds(end, rate):
    state = PlanRate(rate=rate, resting=False)
    course = profile(0.0, end, state, RATE)
    times = np.arange(0.0, course.duration + 0.1, 0.002)
    phases = np.array([course.at(t)[0] for t in times])
    rates = np.array([course.at(t)[1].rate for t in times])
    assert (np.diff(phases) >= 0.0).all()
    assert phases[-1] == pytest.approx(end, abs=1e-9)
    assert phases.max() <= end
    assert rates.max() <= 1.0
    assert np.abs(np.diff(rates)).max() <= RATE.acceleration * 0.002 + 1e-6
    assert course.at(course.duration + 1.0)[1].still


@given(st.floats(0.01, 1.0), st.booleans())
@few
def test_rest_is_as_far_as_the_bounds_need(rate, hard):
    acceleration = RATE.stop_acceleration if hard else RATE.acceleration
    jerk = RATE.stop_jerk if hard else RATE.jerk
    # Trapezoid of acceleration, or a triangle where the bound is not reached.
    ramp = min(acceleration / jerk, math.sqrt(rate / jerk))
    duration = 2.0 * ramp if rate <= acceleration**2 / jerk else rate / acceleration + ramp
    state = PlanRate(rate=rate, resting=True, hard=hard)
    assert stop_distance(state, RATE, hard) == pytest.approx(0.5 * rate * duration, abs=1e-9)
    course = profile(5.0, 100.0, state, RATE)
    assert course.at(course.duration)[0] == pytest.approx(5.0 + 0.5 * rate * duration)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("state", [PlanRate(1.0, resting=True), PlanRate(0.6, 2.0, resting=True)])
def test_rest_keeps_its_acceleration_and_its_jerk(hard, state):
    acceleration = RATE.stop_acceleration if hard else RATE.acceleration
    jerk = RATE.stop_jerk if hard else RATE.jerk
    state = replace(state, hard=hard)
    course = profile(0.0, 100.0, state, RATE)
    times = np.arange(0.0, course.duration + 0.02, 1e-3)
    rates = np.array([course.at(t)[1].rate for t in times])
    slopes = np.diff(rates) / 1e-3
    assert slopes.min() >= -acceleration - 1e-6
    assert np.abs(np.diff(slopes)).max() <= jerk * 1e-3 + 1e-6
    assert rates[-1] == 0.0


def test_an_end_too_near_for_a_gentle_stop_is_met_by_a_hard_one():
    state = PlanRate(rate=1.0, resting=False)
    near = 0.5 * (stop_distance(state, RATE) + stop_distance(state, RATE, hard=True))
    course = profile(0.0, near, state, RATE)
    phases = [course.at(t)[0] for t in np.arange(0.0, 1.0, 0.005)]
    assert phases[-1] == pytest.approx(near)
    assert max(phases) <= near


def test_what_rests_stays_at_rest():
    course = profile(1.0, 2.0, PlanRate(), RATE)
    assert course.duration == 0.0
    assert course.at(3.0) == (1.0, PlanRate())


def test_resting_starts_from_the_rate_that_limits_allowed():
    state = PlanRate(rate=1.0, resting=False).rest(actual_rate=0.3)
    assert state.resting
    assert state.rate == pytest.approx(0.3)
    assert not state.run().resting


def random_pose(rng: np.random.Generator, metres: float, radians: float) -> Pose:
    q = quaternions.axangle2quat(rng.normal(size=3), radians * rng.random())
    return Pose(rng.uniform(-metres, metres, 3), quaternions.quat2mat(q))


def random_trajectory(rng: np.random.Generator) -> Trajectory:
    pose = Pose(np.zeros(3), np.eye(3))
    poses = [pose]
    for _ in range(10):
        pose = pose @ random_pose(rng, 0.03, 0.15)
        poses.append(pose)
    return Trajectory.through(
        np.stack([p.position for p in poses]), np.stack([p.rotation for p in poses]), 1 / 6
    )


@given(seeds, st.floats(0.0, 1.0))
@few
def test_a_fade_starts_at_the_command_with_its_velocity_and_ends_at_the_chunk(seed, phase):
    rng = np.random.default_rng(seed)
    trajectory = random_trajectory(rng)
    command = trajectory.pose(phase) @ random_pose(rng, 0.05, 0.5)
    twist = Twist(rng.normal(scale=0.1, size=3), rng.normal(scale=0.5, size=3))
    path = faded(trajectory, phase, trajectory.pose(phase), 0.4, command, twist)
    metres, radians = path.pose(phase).distance(command)
    assert metres < 1e-9
    assert radians < 1e-7
    h = 1e-5
    later = path.pose(phase + h)
    np.testing.assert_allclose((later.position - command.position) / h, twist.linear, atol=2e-3)
    turned = geometry.so3_log(command.rotation.T @ later.rotation) / h
    np.testing.assert_allclose(turned, twist.angular, atol=5e-3)
    for after in (0.4, 0.45, 1.0):
        metres, radians = path.pose(phase + after).distance(trajectory.pose(phase + after))
        assert metres < 1e-9
        assert radians < 1e-7


@given(seeds)
@few
def test_a_fade_from_rest_only_shrinks_the_offset(seed):
    rng = np.random.default_rng(seed)
    trajectory = random_trajectory(rng)
    command = trajectory.pose(0.0) @ random_pose(rng, 0.05, 0.5)
    path = faded(trajectory, 0.0, trajectory.pose(0.0), 0.4, command, None)
    offsets = np.array(
        [path.pose(p).distance(trajectory.pose(p)) for p in np.linspace(0.0, 0.4, 30)]
    )
    assert (np.diff(offsets, axis=0) <= 1e-7).all()


@given(seeds, st.floats(0.0, 1.0))
@few
def test_one_phase_of_a_path_gives_what_many_give(seed, phase):
    rng = np.random.default_rng(seed)
    trajectory = random_trajectory(rng)
    command = trajectory.pose(0.2) @ random_pose(rng, 0.05, 0.5)
    twist = Twist(rng.normal(scale=0.1, size=3), rng.normal(scale=0.5, size=3))
    path = faded(trajectory, 0.2, trajectory.pose(0.2), 0.4, command, twist)
    positions, rotations = path.sample(np.array([0.2, phase]))
    np.testing.assert_allclose(path.pose(phase).position, positions[1], atol=1e-14)
    np.testing.assert_allclose(path.pose(phase).rotation, rotations[1], atol=1e-13)


def test_no_fade_is_the_chunk_at_once():
    trajectory = random_trajectory(np.random.default_rng(1))
    path = faded(trajectory, 0.2, trajectory.pose(0.2), 0.0, Pose.identity(), None)
    assert path.fade is None
    np.testing.assert_array_equal(path.pose(0.3).position, trajectory.pose(0.3).position)


def test_the_twist_of_a_path_is_its_derivative():
    trajectory = Trajectory.through(
        np.arange(4.0)[:, None] * [0.01, 0.0, -0.02],
        np.stack([so3_exp([0.0, 0.1 * k, 0.0]) for k in range(4)]),
        0.1,
    )
    twist = Path(trajectory).twist(0.15)
    np.testing.assert_allclose(twist.linear, [0.1, 0.0, -0.2], atol=1e-9)
    np.testing.assert_allclose(twist.angular, [0.0, 1.0, 0.0], atol=1e-9)


@given(seeds)
@few
def test_a_joint_move_reaches_its_target_within_its_bounds(seed):
    rng = np.random.default_rng(seed)
    params = MoveParams()
    start, target = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, 6)
    move = JointMove(start, rng.uniform(-0.3, 0.3, 6), target, params)
    joints = [start]
    while not move.done:
        joints.append(move.advance(0.02))
    path = np.array(joints)
    np.testing.assert_allclose(path[-1], target, rtol=0.0, atol=1e-7)
    speeds = np.diff(path, axis=0) / 0.02
    assert np.abs(speeds).max() <= params.max_speed + 1e-6
    assert np.abs(np.diff(speeds, axis=0)).max() / 0.02 <= params.max_acceleration + 1e-6


def test_a_joint_move_starts_from_a_speed_above_its_own():
    move = JointMove(np.zeros(6), np.full(6, 1.9), np.full(6, 0.5), MoveParams())
    assert move.advance(0.02)[0] == pytest.approx(0.02 * 1.9, abs=2e-3)
    while not move.done:
        last = move.advance(0.02)
    np.testing.assert_allclose(last, 0.5, atol=1e-9)


def test_a_halted_joint_move_comes_to_rest_soon():
    move = JointMove(np.zeros(6), np.zeros(6), np.full(6, 2.0), MoveParams())
    for _ in range(75):
        before = move.advance(0.02)
    move.halt()
    ticks = 0
    while not move.done:
        after = move.advance(0.02)
        ticks += 1
    assert ticks * 0.02 <= 0.4
    assert 0.0 < (after - before).max() < 0.1
    np.testing.assert_allclose(move.advance(1.0), after)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: GripperParams(close_above=0.3, open_below=0.5), "gripper.open_below"),
        (
            lambda: LimitParams(workspace_min=(0.5, 0.0, 0.0), workspace_max=(0.4, 1.0, 1.0)),
            "limits.workspace_min",
        ),
        (lambda: SchedulerParams(strategy="fastest"), "anchor_fade, crossfade, ensemble"),  # type: ignore[arg-type]
    ],
)
def test_parameters_that_do_not_fit_together_name_themselves(make, names):
    with pytest.raises(ValueError, match=names):
        make()
