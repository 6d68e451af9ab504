"""The command leads a slow arm; a chunk is trusted for so long; nothing is skipped."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from xvla_ros.geometry import Pose
from xvla_ros.scheduler.params import STRATEGIES, SchedulerParams
from xvla_ros.scheduler.setpoint import SchedulerState

LAG_TICKS = 6
VELOCITY = np.array([0.06, 0.0, 0.0])


def measured_loop(kit, arm_lag_s, latency=0.2, seconds=4.0):
    """A policy that sees an arm which repeats its command 0.12 s later; commanded x by tick."""
    scheduler = kit.started(SchedulerParams(arm_lag_s=arm_lag_s))
    delayed = deque([kit.START] * LAG_TICKS)
    in_flight, xs, sequence, due = None, [], 0, 0.0
    for i in range(round(seconds / kit.PERIOD)):
        now = i * kit.PERIOD
        if in_flight is not None and in_flight[0] <= now + 1e-9:
            scheduler.submit(in_flight[1], now)
            in_flight = None
        pose = scheduler.sample(now).pose
        xs.append(pose.position[0])
        delayed.append(pose)
        measured = delayed.popleft()
        if in_flight is None and now >= due - 1e-9:
            sequence, due = sequence + 1, now + 0.5
            chunk = kit.line_chunk(
                measured, VELOCITY, stamp=now, sequence=sequence, epoch=scheduler.epoch
            )
            in_flight = (now + latency, chunk)
    return np.array(xs), scheduler


def test_with_its_lag_known_an_arm_goes_as_fast_as_its_chunks_say(kit):
    xs, scheduler = measured_loop(kit, LAG_TICKS * kit.PERIOD)
    speed = np.diff(xs[50:]) / kit.PERIOD
    np.testing.assert_allclose(speed, VELOCITY[0], atol=1e-6)
    assert scheduler.splice_step[0] <= VELOCITY[0] * kit.PERIOD + 1e-9


def test_without_it_each_chunk_pulls_the_command_back_by_the_lag(kit):
    """By up to 0.12 s of its way in every 0.5 s."""
    xs, _ = measured_loop(kit, 0.0)
    mean = (xs[-1] - xs[50]) / (kit.PERIOD * (len(xs) - 51))
    assert 1.0 - 0.12 / 0.5 < mean / VELOCITY[0] < 0.9


def test_a_commanded_proprio_leads_already(kit):
    def run(lag):
        rng = np.random.default_rng(2)
        scheduler = kit.started(SchedulerParams(arm_lag_s=lag))

        def predict(stamp, commanded, sequence, epoch):
            chunk = kit.wild_chunk(rng, commanded, stamp=stamp, sequence=sequence, epoch=epoch)
            origin = replace(chunk.provenance, proprio_source="commanded")
            return replace(chunk, provenance=origin)

        return kit.loop(scheduler, predict, lambda _: 0.2, 2.0).positions

    np.testing.assert_array_equal(run(0.3), run(0.0))


def closing_at(kit, arm_lag_s, gripper_lag_s):
    """When the gripper closes under a chunk that says so from its step at 1 s of plan on."""
    params = SchedulerParams(arm_lag_s=arm_lag_s, gripper_lag_s=gripper_lag_s)
    closing = np.where(np.arange(30) >= 5, 0.95, 0.05)
    got = kit.play(kit.started(params), 1.8, [(0.0, kit.line_chunk(gripper=closing))])
    return got.times[got.grippers.index(1.0)]


def test_the_gripper_is_commanded_ahead_by_what_it_is_slower_than_the_arm(kit):
    together = closing_at(kit, 0.0, 0.0)
    assert together == pytest.approx(1.15, abs=2 * kit.PERIOD)
    assert closing_at(kit, 0.1, 0.1) == together
    assert together - closing_at(kit, 0.1, 0.3) == pytest.approx(0.2, abs=1.1 * kit.PERIOD)
    assert closing_at(kit, 0.3, 0.1) - together == pytest.approx(0.2, abs=1.1 * kit.PERIOD)


def test_the_plan_shows_the_gripper_when_it_is_commanded(kit):
    closing = np.where(np.arange(30) >= 5, 0.95, 0.05)
    scheduler = kit.started(SchedulerParams(gripper_lag_s=0.3))
    kit.play(scheduler, 0.1, [(0.0, kit.line_chunk(gripper=closing))])
    plan = scheduler.plan(0.1)
    first = plan.start + plan.dt * plan.gripper.index(1.0)
    assert first == pytest.approx(closing_at(kit, 0.0, 0.3), abs=1.1 * plan.dt)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_a_slowed_chunk_is_trusted_no_longer_than_one_at_full_speed(kit, share):
    """Limits let a share of each step through; the start from rest loses 0.3 s at most."""
    scheduler = kit.started()
    scheduler.submit(kit.line_chunk(velocity=(0.1, 0, 0)), 0.0)
    rates = []
    for i in range(200):
        scheduler.commit(scheduler.propose(i * kit.PERIOD), share)
        rates.append(scheduler.state is SchedulerState.EXECUTING)
    until = kit.PERIOD * rates.index(False, 5)
    assert until <= 1.7 + 0.3 + 0.35
    assert until >= 1.7
    assert not any(rates[round(until / kit.PERIOD) :])
    assert scheduler.state is SchedulerState.STARVED


def test_a_new_chunk_is_trusted_anew(kit):
    """Slowed to a fifth, but with a chunk every half second: nothing rests."""
    scheduler = kit.started()
    states = []
    for i in range(200):
        if i % 25 == 0:
            chunk = kit.line_chunk(
                scheduler.pose, (0.1, 0, 0), stamp=i * kit.PERIOD, sequence=i + 1
            )
            scheduler.submit(chunk, i * kit.PERIOD)
        scheduler.commit(scheduler.propose(i * kit.PERIOD), 0.2)
        states.append(scheduler.state)
    assert set(states) == {SchedulerState.EXECUTING}


def at_rest_by(how, kit, scheduler):
    """Brings a scheduler to rest in some way; the time then."""
    if how == "never moved":
        return 0.0
    kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.05, 0, 0), epoch=scheduler.epoch))])
    if how == "stopped":
        scheduler.stop(1.0)
    if how == "lost its policy":
        scheduler.policy_lost(1.0)
    if how == "reset":
        scheduler.reset(scheduler.pose, 0.0, 1.0)
    kit.play(scheduler, 2.0, start=1.02)
    scheduler.clear_stop(3.02)
    assert not scheduler.executing
    return 3.04


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("how", ["never moved", "starved", "stopped", "reset", "lost its policy"])
@pytest.mark.parametrize("source", ["measured", "commanded"])
def test_what_could_not_be_executed_is_never_skipped(kit, strategy, how, source):
    """The trap of a first chunk: its time began before anything was executed.

    A network that takes 0.9 s, or an arm that is slow, must not make the arm jump to where it
    would be by then, had it moved.
    """
    scheduler = kit.started(SchedulerParams(strategy=strategy, arm_lag_s=0.2))
    seen = at_rest_by(how, kit, scheduler)
    start = scheduler.pose
    chunk = kit.line_chunk(start, (0.1, 0, 0), (0.3, 0, 0), stamp=seen, sequence=9)
    chunk = replace(
        chunk,
        epoch=scheduler.epoch,
        provenance=replace(chunk.provenance, proprio_source=source),
    )
    kit.play(scheduler, 0.86, start=seen)
    got = kit.play(scheduler, 1.0, [(seen + 0.9, chunk)], start=seen + 0.88)
    assert got.refused == []
    metres, radians = got.steps
    assert metres.max() <= 0.1 * kit.PERIOD + 1e-9
    assert radians.max() <= 0.3 * kit.PERIOD + 1e-6
    # The start ramp alone is lost: 0.15 s of plan.
    moved = got.positions[-1][0] - start.position[0]
    assert moved == pytest.approx(0.1 * (1.0 - 0.15), abs=0.003)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "sync"])
def test_what_has_been_executed_is_not_done_twice(kit, strategy):
    """The chunk before ends 0.4 s after the next one's observation: so much is skipped, no more."""
    scheduler = kit.started(SchedulerParams(strategy=strategy, execution_horizon_s=1.0))
    first = kit.play(scheduler, 0.9, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    seen = Pose(first.positions[-20], kit.START.rotation)
    stamp = first.times[-20]
    rest = kit.play(scheduler, 0.9, start=0.92)
    assert not scheduler.executing
    executed = rest.positions[-1][0] - seen.position[0]
    chunk = kit.line_chunk(seen, (0.1, 0, 0), stamp=stamp, sequence=2, epoch=scheduler.epoch)
    got = kit.play(scheduler, 1.0, [(1.85, chunk)], start=1.86)
    assert got.steps[0].max() <= 0.1 * kit.PERIOD + 1e-9
    assert got.positions[0][0] == pytest.approx(seen.position[0] + executed, abs=1e-3)
    assert (np.diff(got.positions[:, 0]) >= -1e-9).all()
