"""What each strategy commands, and where two of them are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.chunk import ChunkRefused
from xvla_ros.scheduler.blending import Path
from xvla_ros.scheduler.gripper import Ballot, GripperKnots, GripperVote
from xvla_ros.scheduler.mixing import Crossfade, Ensemble
from xvla_ros.scheduler.params import STRATEGIES, GripperParams, SchedulerParams, Strategy
from xvla_ros.scheduler.setpoint import SchedulerState
from xvla_ros.scheduler.strategies import Previous, Splice, strategy
from xvla_ros.scheduler.trajectory import Trajectory

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=8, deadline=None, derandomize=True)
MIXING = ("crossfade", "ensemble")
SMOOTH: tuple[Strategy, ...] = ("anchor_fade", "crossfade", "ensemble", "inpaint")


def played(kit, params, seed, latency=0.3, seconds=2.5):
    scheduler = kit.started(params)
    return kit.loop(
        scheduler,
        kit.wanderer(seed, offset=0.01, speed=0.1, angular_speed=0.4),
        lambda _: latency,
        seconds,
    ), scheduler


@pytest.mark.parametrize("name", SMOOTH)
@given(seeds, st.floats(0.0, 0.8))
@few
def test_without_a_fade_time_all_but_the_ensemble_are_timestamping(kit, name, seed, latency):
    params = SchedulerParams(strategy=name, fade_s=0.0)
    if name == "ensemble":
        # Of one chunk: the next comes when nothing is executed any more.
        params = replace(params, execution_horizon_s=0.4)
    plain = replace(params, strategy="timestamp")
    got, _ = played(kit, params, seed, latency)
    expected, _ = played(kit, plain, seed, latency)
    if name == "ensemble":
        first = next(i for i, s in enumerate(got.setpoints) if s.sequence == 2)
        got.setpoints, expected.setpoints = got.setpoints[:first], expected.setpoints[:first]
    np.testing.assert_array_equal(got.positions, expected.positions)
    np.testing.assert_array_equal(got.rotations, expected.rotations)


@pytest.mark.parametrize("name", ["crossfade", "ensemble", "inpaint", "sync"])
@given(seeds)
@few
def test_where_nothing_is_executed_every_strategy_anchors(kit, name, seed):
    """Chunks with an offset that come only at rest."""

    def run(chosen):
        rng = np.random.default_rng(seed)
        scheduler = kit.started(SchedulerParams(strategy=chosen, execution_horizon_s=0.8))
        positions = []
        for k in range(2):
            start = 1.5 * k
            chunk = kit.wild_chunk(rng, scheduler.pose, stamp=start, sequence=k + 1, offset=0.02)
            got = kit.play(scheduler, 1.48, [(start + 0.2, chunk)], start=start)
            positions.append(got.positions)
        return np.concatenate(positions)

    np.testing.assert_array_equal(run(name), run("anchor_fade"))


@given(seeds)
@few
def test_what_inpaint_adds_is_not_in_the_scheduler(kit, seed):
    got, scheduler = played(kit, SchedulerParams(strategy="inpaint"), seed)
    expected, _ = played(kit, SchedulerParams(strategy="anchor_fade"), seed)
    np.testing.assert_array_equal(got.positions, expected.positions)
    assert scheduler.plan(0.0).strategy == "inpaint"


def two_lines(kit, name, aside):
    """A chunk along x, and after a second another one, `aside` metres to the left."""
    scheduler = kit.started(SchedulerParams(strategy=name))
    first = kit.line_chunk(velocity=(0.1, 0, 0))
    kit.play(scheduler, 1.0, [(0.0, first)])
    there = scheduler.pose
    second = kit.line_chunk(
        replace(there, position=there.position + np.array([0.0, aside, 0.0])),
        (0.1, 0, 0),
        stamp=1.0,
        sequence=2,
    )
    return scheduler, kit.play(scheduler, 1.6, [(1.0, second)], start=1.02)


def test_a_crossfade_is_half_way_after_half_its_time(kit):
    scheduler, got = two_lines(kit, "crossfade", 0.02)
    left = {round(t, 2): p[1] for t, p in zip(got.times, got.positions, strict=True)}
    assert left[1.2] == pytest.approx(0.01, abs=1e-6)
    assert left[1.4] == pytest.approx(0.02, abs=1e-6)
    np.testing.assert_allclose(np.diff(got.positions[:60, 0]), 0.1 * kit.PERIOD, atol=1e-9)
    assert scheduler.splice_step[0] < 0.0025


def test_an_ensemble_stays_between_its_chunks_until_the_older_one_ends(kit):
    scheduler, got = two_lines(kit, "ensemble", 0.02)
    left = {round(t, 2): p[1] for t, p in zip(got.times, got.positions, strict=True)}
    # Two chunks of nearly the same weight: 1 and exp(-0.01).
    share = np.exp(-0.01) / (1.0 + np.exp(-0.01))
    # The first one, with its start, is trusted until 1.85 s and fades from 1.45 s on.
    assert left[1.44] == pytest.approx(0.02 * share, abs=1e-6)
    assert left[1.88] == pytest.approx(0.02, abs=1e-6)
    assert scheduler.splice_step[0] < 0.0025


@pytest.mark.parametrize("name", MIXING)
def test_nothing_of_an_epoch_that_is_over_is_mixed(kit, name):
    """A chunk that comes while a stopped arm is still braking, after the stop was released."""
    scheduler = kit.started(SchedulerParams(strategy=name))
    kit.play(scheduler, 1.0, [(0.0, kit.line_chunk(velocity=(0.1, 0, 0)))])
    scheduler.stop(1.0)
    scheduler.sample(1.02)
    scheduler.clear_stop(1.02)
    assert scheduler.executing
    there = kit.line_chunk(
        scheduler.pose, (0, 0.1, 0), stamp=1.02, sequence=2, epoch=scheduler.epoch
    )
    scheduler.submit(there, 1.03)
    got = kit.play(scheduler, 1.0, start=1.04)
    # From the old chunk only its velocity is left, which fades within 0.4 s.
    assert got.positions[35:, 0].std() < 1e-6
    assert got.steps[0].max() < 0.004


@pytest.mark.parametrize("name", MIXING)
def test_chunks_that_turn_apart_are_not_mixed_but_joined(kit, name):
    """Between opposite rotations there is no mean: the command would flip."""

    def run(chosen):
        scheduler = kit.started(SchedulerParams(strategy=chosen))
        turning = kit.line_chunk(velocity=(0, 0, 0), angular=(2.9, 0, 0))
        kit.play(scheduler, 0.6, [(0.0, turning)])
        back = kit.line_chunk(scheduler.pose, (0, 0, 0), (-2.9, 0, 0), stamp=0.6, sequence=2)
        return kit.play(scheduler, 1.5, [(0.6, back)], start=0.62)

    got = run(name)
    assert got.refused == []
    np.testing.assert_array_equal(got.rotations, run("anchor_fade").rotations)


def test_a_crossfade_from_a_chunk_that_has_run_out_is_continuous(kit):
    """0.5 s of a chunk that is 0.6 s long have passed: too little is left to mix with."""
    scheduler = kit.started(SchedulerParams(strategy="crossfade"))
    short = kit.line_chunk(velocity=(0.1, 0, 0), step_dt=0.02)
    kit.play(scheduler, 0.6, [(0.0, short)])
    assert scheduler.executing
    there = replace(scheduler.pose, position=scheduler.pose.position + np.array([0, 0.02, 0]))
    scheduler.submit(kit.line_chunk(there, (0.1, 0, 0), stamp=0.6, sequence=2), 0.61)
    got = kit.play(scheduler, 1.0, start=0.62)
    assert got.steps[0].max() < 0.004
    assert got.positions[-1][1] == pytest.approx(0.02, abs=1e-9)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_flood_of_chunks_is_survived(kit, name):
    """One with every command, each from where the arm is."""
    scheduler = kit.started(SchedulerParams(strategy=name))
    rng = np.random.default_rng(3)
    steps, before = [], scheduler.pose
    for i in range(100):
        now = i * kit.PERIOD
        try:
            scheduler.submit(
                kit.wild_chunk(rng, scheduler.pose, stamp=now, sequence=i + 1, speed=0.1), now
            )
        except ChunkRefused:
            assert name == "sync"
        pose = scheduler.sample(now).pose
        steps.append(pose.distance(before)[0])
        before = pose
    assert max(steps) < 0.005
    assert scheduler.state is SchedulerState.EXECUTING


@pytest.mark.parametrize("name", MIXING)
def test_however_many_chunks_come_only_a_few_are_mixed(name):
    params = SchedulerParams(strategy=name)
    line = Trajectory.through(
        0.01 * np.arange(31)[:, None] * np.ones(3), np.tile(np.eye(3), (31, 1, 1)), 1 / 6
    )
    knots = GripperKnots.of(np.ones(30), 1 / 6, 0.0, params.gripper)
    running, depths = None, []
    for k in range(30):
        phase = 0.02 * k
        path = None if running is None else running.path
        at = phase if path is None else phase - 0.02
        command = Path(line).pose(phase) if path is None else path.pose(at)
        twist = None if path is None else path.twist(at)
        splice = Splice(command, twist, running, line, knots, phase)
        joined = strategy(name).join(splice, params)
        running = Previous(joined.path, line, joined.gripper, phase, phase + 1.7)
        curve, depth = joined.path.curve, 0
        if isinstance(curve, Ensemble):
            depth = len(curve.members)
        while isinstance(curve, Crossfade):
            assert isinstance(curve.old, Path)
            depth, curve = depth + 1, curve.old.curve
        depths.append(depth)
    assert 2 <= max(depths) <= 6


def vote(*chunks, weights=None):
    weights = weights or (1.0,) * len(chunks)
    params = GripperParams()
    return GripperVote(
        [
            Ballot(GripperKnots.of(np.full(30, p), 0.1, 0.0, params), ahead, 2.0, w)
            for (p, ahead), w in zip(chunks, weights, strict=True)
        ]
    )


def test_the_gripper_of_an_ensemble_is_voted_for():
    closed, open_, unsure = 0.95, 0.05, 0.7
    assert vote((closed, 0.5), (closed, 0.2), (open_, 0.0)).opinion(1.0, False) == (True, 1.0)
    assert vote((open_, 0.5), (closed, 0.2), (open_, 0.0)).opinion(1.0, False) == (True, 0.0)
    assert vote((open_, 0.5), (closed, 0.0)).opinion(1.0, False) == (True, None)
    assert vote((open_, 0.5), (closed, 0.0), weights=(1, 1.5)).opinion(1.0, False) == (True, 1.0)
    assert vote((unsure, 0.5), (unsure, 0.2), (open_, 0.0)).opinion(1.0, False) == (True, None)


def test_only_chunks_that_are_trusted_at_the_time_vote():
    old = (0.05, 1.5)
    assert vote(old, (0.95, 0.0)).opinion(0.4, False) == (True, None)
    # Its own phase is then 2.0 s, its end.
    assert vote(old, (0.95, 0.0)).opinion(0.5, False) == (True, 1.0)


def test_a_chunk_whose_first_knot_is_not_due_does_not_vote():
    assert vote((0.95, 0.0)).opinion(0.05, False) == (False, None)
    assert vote((0.95, 0.0)).opinion(0.05, True) == (True, 1.0)
    assert vote((0.05, 0.5), (0.95, 0.0)).opinion(0.05, False) == (True, 0.0)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_gripper_closes_when_all_chunks_say_so(kit, name):
    closing = np.where(np.arange(30) >= 5, 0.95, 0.05)
    scheduler = kit.started(SchedulerParams(strategy=name))

    def predict(stamp, commanded, sequence, epoch):
        steps_ago = round(stamp * 6)
        gripper = np.concatenate([closing[steps_ago:], np.full(steps_ago, 0.95)])
        return kit.line_chunk(
            commanded, (0.01, 0, 0), stamp=stamp, gripper=gripper, sequence=sequence, epoch=epoch
        )

    got = kit.loop(scheduler, predict, lambda _: 0.1, 2.2)
    changes = np.flatnonzero(np.diff(got.grippers))
    assert len(changes) == 1
    # Step 5 is due after 1 s; starting from rest loses 0.15 s and the first latency 0.1 s.
    assert 0.9 <= got.times[changes[0]] <= 1.5


@pytest.mark.parametrize("seed", range(3))
def test_the_strategy_may_be_changed_between_any_two_chunks(kit, seed):
    """A mixed path, an ensemble's members and its vote are no use to the next strategy."""
    rng = np.random.default_rng(seed)
    scheduler = kit.started()
    names: list[Strategy] = []

    def predict(stamp, commanded, sequence, epoch):
        names.append(SMOOTH[rng.integers(len(SMOOTH))])
        scheduler.params = SchedulerParams(strategy=names[-1])
        return kit.line_chunk(
            replace(commanded, position=commanded.position + rng.normal(scale=0.003, size=3)),
            0.1 * np.array([np.cos(stamp), np.sin(stamp), 0.0]),
            stamp=stamp,
            gripper=rng.random(30),
            sequence=sequence,
            epoch=epoch,
        )

    got = kit.loop(scheduler, predict, lambda _: 0.1, 4.0, policy_period=0.2)
    assert got.refused == []
    assert len(set(names)) == len(SMOOTH)
    assert scheduler.splice_step[0] <= 0.004
    velocity = np.diff(got.positions, axis=0) / kit.PERIOD
    assert np.linalg.norm(np.diff(velocity, axis=0), axis=1).max() <= 0.05


@pytest.mark.parametrize("name", ["anchor_fade", "crossfade", "ensemble"])
def test_a_fade_in_a_moment_does_not_wind_up_the_next_one(kit, name):
    """It turns at up to 37 rad/s; a fade of 0.4 s that kept this would turn by 2 rad more."""
    turned = kit.moved(turn=(0.0, 0.0, 0.4))
    scheduler = kit.started(SchedulerParams(strategy=name))
    # This chunk has 0.02 s, and 0.4 rad to fade away in them.
    scheduler.submit(kit.line_chunk(turned, step_dt=0.01, horizon=2), 0.0)
    now = 0.0
    while scheduler.pose.distance(turned)[1] > 0.35:
        now += kit.PERIOD
        scheduler.sample(now)
    command = scheduler.pose
    scheduler.submit(kit.line_chunk(command, stamp=now, sequence=2, horizon=30), now)
    recording = kit.play(scheduler, 3.0, start=now + kit.PERIOD)
    away = [command.distance(s.pose)[1] for s in recording.setpoints]
    assert max(away) < 0.3


def test_a_chunk_of_an_ensemble_that_is_far_from_the_new_one_leaves_slowly(kit):
    """As slowly as an offset of that size fades, however short the fade of small ones is."""
    params = SchedulerParams(strategy="ensemble", fade_s=0.05)
    scheduler = kit.started(params)
    up = kit.line_chunk(velocity=(0.0, 0.0, 0.1), gripper=0.0)
    down = kit.line_chunk(velocity=(0.0, 0.0, -0.1), stamp=0.4, sequence=2)
    recording = kit.play(scheduler, 3.5, [(0.0, up), (0.42, down)])
    # Until the first ends, at 1.7 s, the two are about 0.3 m apart: halves of it in 0.8 s.
    longest = 1.875 * 0.5 * 0.35 / params.splice.max_fade_s + 0.1
    assert 0.02 < np.abs(np.diff(recording.positions[:, 2])).max() / kit.PERIOD < longest
