"""Stops, resets, lost policies and clocks that jump: the epoch and the way to rest."""

from __future__ import annotations

import numpy as np
import pytest

from xvla_ros.chunk import ChunkRefused, Refusal
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.setpoint import SchedulerState

HOLDING, EXECUTING = SchedulerState.HOLDING, SchedulerState.EXECUTING
STARVED, STOPPED = SchedulerState.STARVED, SchedulerState.STOPPED


def test_the_epoch_rises_at_reset_stop_and_release(kit):
    scheduler = kit.started()
    seen = [scheduler.epoch]
    for call in (
        lambda: scheduler.stop(0.0),
        lambda: scheduler.clear_stop(0.0),
        lambda: scheduler.reset(kit.START, 0.0, 0.0),
        scheduler.new_epoch,
    ):
        call()
        seen.append(scheduler.epoch)
    assert seen == sorted(set(seen))


def test_a_stop_rests_at_once_latches_and_outlives_every_chunk_in_flight(kit):
    scheduler = kit.started()
    in_flight = kit.line_chunk(stamp=0.9, sequence=2, epoch=scheduler.epoch)
    got = kit.play(
        scheduler,
        3.0,
        [(0.0, kit.line_chunk(velocity=(0.2, 0, 0))), (1.2, in_flight)],
        events=[(1.0, scheduler.stop)],
    )
    stopped = np.array(got.times) >= 1.0
    assert {s for s, after in zip(got.states, stopped, strict=True) if after} == {STOPPED}
    resting = np.array(got.times) >= 1.0 + 0.15
    assert (got.steps[0][resting[:-1]] == 0.0).all()
    assert [r.reason for r in got.refused] == [Refusal.OLD_EPOCH]
    with pytest.raises(ChunkRefused) as refused:
        scheduler.submit(kit.line_chunk(stamp=3.0, sequence=3, epoch=scheduler.epoch), 3.0)
    assert refused.value.reason is Refusal.STOPPED


def test_after_a_stop_is_released_the_loop_goes_on_with_a_new_chunk(kit):
    scheduler = kit.started()
    kit.play(
        scheduler,
        2.0,
        [(0.0, kit.line_chunk())],
        events=[(1.0, scheduler.stop), (1.5, scheduler.clear_stop)],
    )
    assert scheduler.state is HOLDING
    chunk = kit.line_chunk(scheduler.pose, stamp=2.0, sequence=2, epoch=scheduler.epoch)
    got = kit.play(scheduler, 1.0, [(2.1, chunk)], start=2.02)
    assert got.states[-1] is EXECUTING


def test_a_reset_drops_the_chunk_in_flight(kit):
    scheduler = kit.started()
    in_flight = kit.line_chunk(epoch=scheduler.epoch)
    scheduler.reset(kit.START, 1.0, 0.1)
    with pytest.raises(ChunkRefused) as refused:
        scheduler.submit(in_flight, 0.2)
    assert refused.value.reason is Refusal.OLD_EPOCH
    got = kit.play(scheduler, 1.0, start=0.2)
    assert (got.positions == kit.START.position).all()
    assert set(got.grippers) == {1.0}


def test_a_lost_policy_brings_the_arm_to_rest_and_the_next_chunk_goes_on(kit):
    scheduler = kit.started()
    got = kit.play(
        scheduler,
        2.0,
        [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))],
        events=[(0.8, scheduler.policy_lost)],
    )
    rest = np.array(got.times) >= 0.8 + 0.32
    assert (got.steps[0][rest[:-1]] == 0.0).all()
    assert got.states[-1] is STARVED
    assert np.abs(np.diff(got.rates)).max() <= 5.0 * kit.PERIOD + 1e-6
    chunk = kit.line_chunk(scheduler.pose, stamp=2.0, sequence=1, epoch=scheduler.epoch)
    again = kit.play(scheduler, 0.5, [(2.1, chunk)], start=2.02)
    assert again.states[-1] is EXECUTING


@pytest.mark.parametrize("lose", ["policy_lost", "stop"])
def test_a_chunk_for_later_does_not_outlive_its_policy(kit, lose):
    scheduler = kit.started()
    early = kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    there = Pose(early.positions[-1] + np.array([0.03, 0, 0]), kit.START.rotation)
    scheduler.submit(kit.line_chunk(there, (0.1, 0, 0), stamp=1.0, t_ref=1.3, sequence=2), 1.0)
    getattr(scheduler, lose)(1.0)
    got = kit.play(scheduler, 1.0, start=1.02)
    assert {s.sequence for s in got.setpoints} == {1}
    assert (got.steps[0][20:] == 0.0).all()


@pytest.mark.parametrize("jump", [5.0, 3600.0, 1.7e9])
def test_a_clock_that_jumps_ahead_advances_the_plan_by_two_periods(kit, jump):
    scheduler = kit.started()
    kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    before = scheduler.pose
    after = scheduler.sample(1.0 + jump).pose
    assert after.distance(before)[0] == pytest.approx(0.1 * 2 * kit.PERIOD, abs=1e-6)


def test_a_clock_that_jumps_back_brings_the_arm_to_rest_without_a_burst(kit):
    scheduler = kit.started()
    epoch = scheduler.epoch
    kit.play(scheduler, 10.0, [(9.0, kit.line_chunk(velocity=(0.2, 0, 0), stamp=9.0))])
    got = kit.play(scheduler, 2.0, start=0.0)
    assert got.steps[0].max() <= 0.2 * kit.PERIOD + 1e-9
    assert (got.steps[0][10:] == 0.0).all()
    assert scheduler.epoch > epoch
    chunk = kit.line_chunk(scheduler.pose, stamp=2.0, sequence=1, epoch=scheduler.epoch)
    again = kit.play(scheduler, 0.5, [(2.1, chunk)], start=2.02)
    assert again.states[-1] is EXECUTING


def test_a_clock_that_is_slewed_back_by_a_millisecond_changes_nothing(kit):
    scheduler = kit.started()
    kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    epoch, before = scheduler.epoch, scheduler.pose
    assert scheduler.sample(0.999).state is EXECUTING
    assert scheduler.pose.distance(before)[0] == pytest.approx(0.0, abs=1e-12)
    scheduler.sample(1.02)
    assert scheduler.pose.distance(before)[0] == pytest.approx(0.1 * 0.021, abs=1e-6)
    assert scheduler.epoch == epoch


def test_a_paused_clock_pauses_the_plan(kit):
    scheduler = kit.started()
    kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    before = scheduler.pose
    for _ in range(50):
        assert scheduler.sample(1.0).pose.distance(before)[0] == 0.0
    got = kit.play(scheduler, 0.2, start=1.02)
    np.testing.assert_allclose(got.steps[0], 0.1 * kit.PERIOD, atol=1e-6)
