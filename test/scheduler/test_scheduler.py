"""What the scheduler commands."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from xvla_ros.chunk import Refusal
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.params import SchedulerParams, SpliceParams
from xvla_ros.scheduler.setpoint import SchedulerState

HOLDING, EXECUTING = SchedulerState.HOLDING, SchedulerState.EXECUTING
STARVED = SchedulerState.STARVED


def test_without_a_chunk_the_pose_is_held(kit):
    got = kit.play(kit.started(), 1.0)
    assert set(got.states) == {HOLDING}
    assert (got.positions == kit.START.position).all()


@pytest.mark.parametrize("latency", [0.0, 0.135, 0.8, 3.0])
def test_the_first_chunk_is_executed_from_its_beginning_whatever_its_latency(kit, latency):
    scheduler = kit.started()
    chunk = kit.line_chunk(velocity=(0.1, 0.0, 0.0), angular=(0.2, 0.0, 0.0))
    got = kit.play(scheduler, latency + 1.0, [(latency, chunk)])
    metres, radians = got.steps
    assert metres.max() <= 0.1 * kit.PERIOD + 1e-9
    assert radians.max() <= 0.2 * kit.PERIOD + 1e-6
    first = int(np.argmax(metres > 0.0))
    assert got.times[first] == pytest.approx(latency, abs=2 * kit.PERIOD)
    # The start ramp costs 0.15 s of plan: 5 /s^2 with 50 /s^3.
    assert got.positions[-1][0] == pytest.approx(0.25 + 0.1 * (1.0 - 0.15), abs=0.005)


@pytest.mark.parametrize(("step_dt", "horizon"), [(1 / 6, 30), (1 / 30, 30), (1.0, 5)])
def test_a_chunk_takes_the_time_that_its_steps_say(kit, step_dt, horizon):
    whole = step_dt * horizon
    scheduler = kit.started(SchedulerParams(execution_horizon_s=100.0))
    chunk = kit.line_chunk(velocity=(0.02, 0, 0), step_dt=step_dt, horizon=horizon)
    got = kit.play(scheduler, whole + 1.0, [(0.0, chunk)])
    moving = np.flatnonzero(np.array(got.states) == EXECUTING)
    # Ramps of 0.3 s at both ends, each covering 0.15 s of plan.
    assert len(moving) * kit.PERIOD == pytest.approx(whole + 0.3, abs=2.5 * kit.PERIOD)
    np.testing.assert_allclose(got.positions[-1], chunk.positions[-1], atol=1e-9)


def test_actions_that_ran_while_a_chunk_was_computed_are_skipped(kit):
    """Two chunks of the same straight line, 0.4 s late: the command does not hesitate."""
    velocity = (0.1, 0.0, 0.0)
    scheduler = kit.started()
    first = kit.line_chunk(velocity=velocity)
    early = kit.play(scheduler, 1.0, [(0.0, first)])
    second = kit.line_chunk(early.setpoints[-1].pose, velocity, stamp=1.0, sequence=2)
    got = kit.play(scheduler, 1.4, [(1.4, second)], start=1.02)
    speeds = got.steps[0] / kit.PERIOD
    np.testing.assert_allclose(speeds, 0.1, atol=1e-6)


def test_a_chunk_computed_while_the_arm_was_slowed_skips_only_what_ran(kit):
    scheduler = kit.started()
    kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    # Half of each period is executed for the 0.4 s that the second chunk needs.
    stamped_at = scheduler.pose
    for i in range(20):
        scheduler.commit(scheduler.propose(1.02 + 0.02 * i), 0.5)
    executed = scheduler.pose.position[0] - stamped_at.position[0]
    assert executed == pytest.approx(0.1 * 0.2, abs=1e-6)
    scheduler.submit(kit.line_chunk(stamped_at, (0.1, 0, 0), stamp=1.0, sequence=2), 1.4)
    got = kit.play(scheduler, 0.2, start=1.42)
    assert got.steps[0] == pytest.approx(0.1 * kit.PERIOD, abs=1e-6)
    assert scheduler.splice_step[0] <= 0.1 * kit.PERIOD + 1e-9


def test_an_offset_fades_and_the_chunk_itself_is_reached(kit):
    aside = kit.moved(0.0, 0.03, -0.01, turn=(0, 0, 0.2))
    scheduler = kit.started()
    chunk = kit.line_chunk(aside, (0.05, 0, 0))
    got = kit.play(scheduler, 1.5, [(0.0, chunk)])
    assert got.steps[0].max() < 0.005
    assert got.steps[1].max() < 0.025
    x = got.positions[-1][0]
    np.testing.assert_allclose(got.positions[-1], [x, 0.03, 0.14], atol=1e-9)
    assert got.setpoints[-1].pose.distance(aside)[1] < 1e-7


def test_a_large_offset_fades_more_slowly(kit):
    def peak(offset: float, splice: SpliceParams) -> float:
        aside = kit.moved(0.0, offset, 0.0)
        scheduler = kit.started(SchedulerParams(splice=splice))
        got = kit.play(scheduler, 2.0, [(0.0, kit.line_chunk(aside, (0, 0, 0)))])
        return float(got.steps[0].max() / kit.PERIOD)

    # The quintic's steepest slope is 15/8 of the mean: 0.07 m in 0.7 s.
    slow = SpliceParams(blend_linear_speed=0.1)
    assert peak(0.07, slow) == pytest.approx(0.07 / 0.7 * 15 / 8, rel=0.1)
    assert peak(0.07, replace(slow, max_fade_s=0.4)) > 1.4 * peak(0.07, slow)


def test_the_trusted_horizon_ends_at_rest_on_the_path(kit):
    scheduler = kit.started()
    got = kit.play(scheduler, 5.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    assert got.positions[-1][0] == pytest.approx(0.25 + 0.17, abs=1e-6)
    assert got.states[-1] is STARVED
    assert got.setpoints[-1].remaining == pytest.approx(0.0, abs=1e-6)


def test_the_horizon_counts_from_the_splice_so_latency_does_not_shorten_it(kit):
    scheduler = kit.started()
    got = kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.02, 0, 0)))])
    chunk = kit.line_chunk(got.setpoints[20].pose, (0.02, 0, 0), stamp=0.4, sequence=2)
    scheduler.submit(chunk, 1.0)
    assert scheduler.sample(1.02).remaining == pytest.approx(1.7, abs=0.03)


def test_a_chunk_for_later_is_executed_from_its_reference_time(kit):
    scheduler = kit.started()
    early = kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    there = Pose(early.positions[-1] + np.array([0.03, 0, 0]), kit.START.rotation)
    ahead = kit.line_chunk(there, (0.1, 0, 0), stamp=1.0, t_ref=1.3, sequence=2)
    got = kit.play(scheduler, 1.0, [(1.1, ahead)], start=1.02)
    changed = next(t for t, s in zip(got.times, got.setpoints, strict=True) if s.sequence == 2)
    assert changed == pytest.approx(1.3, abs=1.5 * kit.PERIOD)
    np.testing.assert_allclose(got.steps[0], 0.1 * kit.PERIOD, atol=1e-6)


def test_chunks_for_later_are_executed_in_turn(kit):
    """A policy that thinks itself slower than it is sends the next before one has begun."""
    scheduler = kit.started()
    velocity = (0.1, 0.0, 0.0)
    early = kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=velocity))])

    def at(ahead: float) -> Pose:
        return Pose(early.positions[-1] + np.array([0.1 * ahead, 0, 0]), kit.START.rotation)

    arrivals = [
        (1.1, kit.line_chunk(at(0.5), velocity, stamp=1.0, t_ref=1.5, sequence=2)),
        (1.2, kit.line_chunk(at(0.8), velocity, stamp=1.1, t_ref=1.8, sequence=3)),
        (1.3, kit.line_chunk(at(0.7), velocity, stamp=1.2, t_ref=1.7, sequence=4)),
    ]
    got = kit.play(scheduler, 1.0, arrivals, start=1.02)
    sequences = [s.sequence for s in got.setpoints]
    # The fourth replaces the third, which would begin after it.
    assert sorted(set(sequences)) == [1, 2, 4]
    pairs = zip(got.times[1:], pairwise(sequences), strict=True)
    changes = [t for t, (a, b) in pairs if a != b]
    assert changes == pytest.approx([1.5, 1.7], abs=1.5 * kit.PERIOD)
    np.testing.assert_allclose(got.steps[0], 0.1 * kit.PERIOD, atol=1e-6)


def test_a_chunk_for_later_starts_from_its_beginning_if_the_arm_rests_before(kit):
    scheduler = kit.started()
    first = kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    end = Pose(first.positions[0] + np.array([0.17, 0, 0]), kit.START.rotation)
    ahead = kit.line_chunk(end, (0.1, 0, 0), stamp=1.0, t_ref=2.9, sequence=2)
    got = kit.play(scheduler, 2.5, [(1.0, ahead)], start=1.02)
    second = [s for s in got.setpoints if s.sequence == 2]
    # 1.7 s of plan with both ramps take 2.0 s; at rest nothing is to be waited for.
    assert len(second) * kit.PERIOD == pytest.approx(1.02 + 2.5 - 2.0, abs=2.5 * kit.PERIOD)
    x = np.array([s.pose.position[0] for s in second])
    assert (np.diff(x) >= 0.0).all()
    np.testing.assert_allclose(x[0], end.position[0], atol=1e-3)


def test_sync_finishes_a_chunk_before_it_takes_the_next(kit):
    scheduler = kit.started(SchedulerParams(strategy="sync"))
    chunks = [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))]
    chunks += [(0.5, kit.line_chunk(stamp=0.4, sequence=2))]
    got = kit.play(scheduler, 3.0, chunks)
    assert [r.reason for r in got.refused] == [Refusal.BUSY]
    assert got.states[-1] is HOLDING
    assert got.positions[-1][0] == pytest.approx(0.25 + 0.17, abs=1e-6)
    third = kit.line_chunk(scheduler.pose, (0, 0.1, 0), stamp=3.0, sequence=3)
    again = kit.play(scheduler, 2.5, [(3.2, third)], start=3.02)
    assert again.positions[-1][1] == pytest.approx(0.17, abs=1e-6)


def test_the_plan_is_what_is_commanded_later(kit):
    """Through start, fade, gripper and rest."""
    aside = kit.moved(0.0, 0.02, 0.0)
    rng = np.random.default_rng(4)
    chunk = kit.wild_chunk(rng, aside, speed=0.1, angular_speed=0.4)
    scheduler = kit.started()
    kit.play(scheduler, 0.04, [(0.0, chunk)])
    plan = scheduler.plan(0.05)
    assert plan.start == pytest.approx(0.04)
    assert not plan.holding
    assert (plan.sequence, plan.epoch) == (1, scheduler.epoch)
    got = kit.play(scheduler, 3.0, start=0.06)
    for time, setpoint in zip(got.times, got.setpoints, strict=True):
        metres, radians = plan.at(time)[0].distance(setpoint.pose)
        assert metres < 2e-3
        assert radians < 5e-3


def test_the_plan_of_an_idle_scheduler_is_the_held_pose(kit):
    plan = kit.started().plan(0.0)
    assert plan.holding
    assert len(plan.poses) == 1
    np.testing.assert_array_equal(plan.poses[0].position, kit.START.position)


def test_the_revision_rises_when_the_plan_changes_and_only_then(kit):
    scheduler = kit.started()
    revision = scheduler.revision
    kit.play(scheduler, 0.2)
    assert scheduler.revision == revision
    kit.play(scheduler, 0.2, [(0.3, kit.line_chunk())], start=0.3)
    assert scheduler.revision == revision + 1
    scheduler.stop(0.6)
    assert scheduler.revision > revision + 1


def test_a_plan_that_limits_delay_is_announced_again(kit):
    scheduler = kit.started()
    kit.play(scheduler, 0.5, [(0.0, kit.line_chunk())])
    revision = scheduler.revision
    for i in range(20):
        scheduler.commit(scheduler.propose(0.52 + 0.02 * i), 0.5)
    # Twenty half periods are 0.2 s of delay.
    assert 2 <= scheduler.revision - revision <= 4


def test_the_gripper_follows_the_knots_of_the_chunk(kit):
    closing = np.where(np.arange(30) >= 5, 0.95, 0.05)
    got = kit.play(kit.started(), 1.8, [(0.0, kit.line_chunk(gripper=closing))])
    closed = got.times[got.grippers.index(1.0)]
    # Knot 5 is due at 1.0 s of plan, and the start ramp costs 0.15 s.
    assert closed == pytest.approx(1.0 + 0.15, abs=2 * kit.PERIOD)


def test_the_threshold_comes_from_the_chunk(kit):
    chunk = kit.line_chunk(gripper=0.9, threshold=0.95)
    assert set(kit.play(kit.started(), 1.5, [(0.0, chunk)]).grippers) == {0.0}
