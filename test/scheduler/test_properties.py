"""What holds for any sequence of chunks, latencies and clocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xvla_ros.chunk import Refusal
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.params import STRATEGIES, SchedulerParams
from xvla_ros.scheduler.setpoint import SchedulerState

seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=12, deadline=None, derandomize=True)
SMOOTH = ("anchor_fade", "crossfade", "ensemble", "inpaint")
any_strategy = st.sampled_from(STRATEGIES)
asynchronous = st.sampled_from([name for name in STRATEGIES if name != "sync"])
smooth = st.sampled_from(SMOOTH)
EXECUTING = SchedulerState.EXECUTING


def latency_of(seed: int, longest: float, lost: float = 0.1):
    rng = np.random.default_rng(seed + 1)
    return lambda sequence: np.inf if rng.random() < lost else longest * rng.random()


@given(seeds, st.sampled_from([0.0, 0.135, 0.4, 0.8, 1.5]), smooth)
@some
def test_the_command_never_jumps_whatever_arrives_whenever(kit, seed, longest, strategy):
    """The velocity changes by no more than the chunks and fades themselves ask for.

    Steps of 0.15 m/s: a cubic segment accelerates by up to 6 x 0.15 m/s / (1/6 s). The quintic
    fade adds 3.9 / 0.4 s times a difference of velocities below 0.6 m/s, 5.8 / (0.4 s)^2 times
    an offset of 4 cm, and the start 5 /s^2 times the speed: 14 m/s^2 in all. Two chunks that are
    mixed part by up to 12 cm meanwhile instead, which makes it 16.
    """
    scheduler = kit.started(SchedulerParams(strategy=strategy))
    got = kit.loop(scheduler, kit.wanderer(seed), latency_of(seed, longest), 3.0)
    velocity = np.diff(got.positions, axis=0) / kit.PERIOD
    assert np.linalg.norm(np.diff(velocity, axis=0), axis=1).max() / kit.PERIOD < 16.0
    assert got.steps[1].max() < 0.08
    rotations = got.rotations
    gram = np.swapaxes(rotations, 1, 2) @ rotations
    assert np.abs(gram - np.eye(3)).max() < 1e-9


@pytest.mark.parametrize("strategy", ["anchor_fade", "crossfade", "ensemble"])
@pytest.mark.parametrize("latency", [0.0, 0.135, 0.4, 0.8])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.5])
def test_a_change_of_chunk_is_no_step_however_wrong_the_latency_is_estimated(
    kit, strategy, latency, factor
):
    """A policy that plans from where the arm will be when it thinks that its chunk arrives.

    0.1 m/s in a slowly turning direction and 0.3 rad/s, with a network's noise; before any limit.
    Of `inpaint` the scheduler's part is that of `anchor_fade`.
    With an estimate of 0 it starts from the command at the stamp, which is the default.
    """
    rng = np.random.default_rng(round(1000 * latency + 10 * factor))
    phase = rng.uniform(0, 6.28)
    scheduler = kit.started(SchedulerParams(strategy=strategy))
    expected = factor * latency

    def predict(stamp, commanded, sequence, epoch):
        heading = phase + stamp
        start, _ = scheduler.plan(stamp).at(stamp + expected)
        return kit.line_chunk(
            Pose(start.position + rng.normal(scale=0.003, size=3), start.rotation),
            (0.1 * np.cos(heading), 0.1 * np.sin(heading), 0.0),
            (0.0, 0.3 * np.sin(heading), 0.0),
            stamp=stamp,
            t_ref=stamp + expected,
            sequence=sequence,
            epoch=epoch,
        )

    got = kit.loop(scheduler, predict, lambda sequence: latency, 4.0)
    # A second and more ahead, two headings may be too far apart.
    assert {r.reason for r in got.refused} <= ({Refusal.JUMP} if expected > 1.0 else set())
    assert scheduler.splice_step[0] <= 0.005
    assert scheduler.splice_step[1] <= 0.025
    # The velocity has no step either: in a period it changes by what a fade of 8 cm asks for,
    # 5.8 x 0.08 m / (0.4 s)^2, and the turning of the line.
    velocity = np.diff(got.positions, axis=0) / kit.PERIOD
    changes = np.linalg.norm(np.diff(velocity, axis=0), axis=1)
    assert changes.max() <= 0.065
    assert got.states[-1] is EXECUTING


@given(seeds, st.floats(0.0, 1.3), st.floats(0.0, 1.0), asynchronous)
@some
def test_nothing_idles_after_the_first_chunk_while_latency_is_below_the_horizon(
    kit, seed, latency, jitter, strategy
):
    rng = np.random.default_rng(seed)
    scheduler = kit.started(SchedulerParams(strategy=strategy))
    got = kit.loop(
        scheduler,
        kit.wanderer(seed, speed=0.03, angular_speed=0.1, offset=0.005),
        lambda sequence: latency * (1.0 - jitter * rng.random()),
        6.0,
    )
    executing = np.array(got.states) == EXECUTING
    first = int(np.argmax(executing))
    assert executing[first:].all()
    # Rate 1 from the end of the start ramp on: nothing is even slowed.
    np.testing.assert_allclose(got.rates[first + 16 :], 1.0)


@given(
    seeds,
    st.integers(1, 30),
    st.floats(0.0, 2.0),
    st.sampled_from([0.02, 1 / 30, 1 / 6, 0.5]),
    asynchronous,
)
@some
def test_without_a_new_chunk_the_arm_rests_in_time_and_for_good(
    kit, seed, horizon, latency, step_dt, strategy
):
    chunk = kit.wild_chunk(np.random.default_rng(seed), horizon=horizon, step_dt=step_dt)
    assume(horizon * step_dt > 0.35)
    scheduler = kit.started(SchedulerParams(strategy=strategy))
    got = kit.play(scheduler, latency + 3.5, [(latency, chunk)])
    assert got.states[-1] is SchedulerState.STARVED
    rates = got.rates
    assert np.diff(rates).min() >= -15.0 * kit.PERIOD - 1e-6
    executing = np.array(got.states) == EXECUTING
    last = int(np.flatnonzero(executing)[-1])
    assert rates[last + 1] == 0.0
    assert (got.positions[last + 1 :] == got.positions[last + 1]).all()
    # Executed plan: at most the horizon of trust, never past the last step.
    plan = float(np.sum(rates) * kit.PERIOD)
    assert plan <= min(1.7, horizon * step_dt) + kit.PERIOD
    # Nothing was extrapolated: every command lies between the knots of the chunk.
    knots = np.vstack([kit.START.position, chunk.positions])
    assert (got.positions >= knots.min(axis=0) - 1e-9).all()
    assert (got.positions <= knots.max(axis=0) + 1e-9).all()


@given(seeds, any_strategy)
@some
def test_a_chunk_is_only_ever_executed_forwards(kit, seed, strategy):
    scheduler = kit.started(SchedulerParams(strategy=strategy))
    got = kit.loop(scheduler, kit.wanderer(seed), latency_of(seed, 1.0), 4.5)
    pairs = list(zip(got.setpoints[:-1], got.setpoints[1:], strict=True))
    assert len({s.sequence for s in got.setpoints}) > 2
    for before, after in pairs:
        assert after.sequence >= before.sequence
        if after.sequence == before.sequence:
            assert after.remaining <= before.remaining


@given(st.floats(-0.5, 2.0), asynchronous)
@some
def test_late_duplicate_and_reordered_chunks_change_nothing(kit, delay, strategy):
    params = SchedulerParams(strategy=strategy)
    chunks = []
    for k in range(4):
        start = kit.moved(0.02 * k)
        chunks.append(kit.line_chunk(start, (0.04, 0, 0), stamp=0.5 * k, sequence=k + 1, epoch=2))
    in_order = [(c.stamp + 0.2, c) for c in chunks]
    repeated = [(a + max(delay, 0.01), c) for a, c in in_order]
    plain = kit.play(kit.started(params), 4.5, in_order)
    scheduler = kit.started(params)
    # A repetition overtaken by the next chunk is out of order, one before it a duplicate.
    disturbed = kit.play(scheduler, 4.5, sorted(in_order + repeated, key=lambda item: item[0]))
    np.testing.assert_array_equal(disturbed.positions, plain.positions)
    assert {r.reason for r in disturbed.refused} == {Refusal.OUT_OF_ORDER}
    assert len(disturbed.refused) == 4


@given(seeds, st.floats(-1e6, 1e6), any_strategy)
@some
def test_the_scheduler_does_not_care_what_time_it_is(kit, seed, shift, strategy):
    params = SchedulerParams(strategy=strategy)

    def chunks(offset: float):
        rng = np.random.default_rng(seed)
        return [
            (offset + 0.5 * k + 0.2, kit.wild_chunk(rng, stamp=offset + 0.5 * k, sequence=k + 1))
            for k in range(3)
        ]

    plain = kit.play(kit.started(params), 2.5, chunks(0.0))
    later = kit.started(params)
    later.follow(kit.START, 0.0, shift)
    moved = kit.play(later, 2.5, chunks(shift), start=shift)
    np.testing.assert_allclose(moved.positions, plain.positions, atol=1e-6)
    assert len(moved.refused) == len(plain.refused)


@given(st.integers(1, 8), st.floats(0.0, 1.0), any_strategy)
@some
def test_chunks_that_stay_where_the_arm_is_never_move_it(kit, count, latency, strategy):
    chunks = [
        (0.4 * k + latency, kit.line_chunk(velocity=(0, 0, 0), stamp=0.4 * k, sequence=k + 1))
        for k in range(count)
    ]
    got = kit.play(kit.started(SchedulerParams(strategy=strategy)), 4.0, chunks)
    np.testing.assert_allclose(
        got.positions, np.broadcast_to(kit.START.position, got.positions.shape), atol=1e-12
    )
    assert got.steps[1].max() < 1e-7


@given(seeds, st.lists(st.floats(0.0, 0.2), min_size=60, max_size=60))
@some
def test_irregular_ticks_never_make_a_burst(kit, seed, intervals):
    """0.15 m/s steps are followed at up to 0.225 m/s on a cubic; two periods per tick at most."""
    scheduler = kit.started()
    start = kit.START
    scheduler.submit(kit.wild_chunk(np.random.default_rng(seed), start, speed=0.15), 0.0)
    now, before = 0.0, start
    for interval in intervals:
        now += interval
        pose = scheduler.sample(now).pose
        assert pose.distance(before)[0] <= 1.5 * 0.15 * min(interval, 2 * kit.PERIOD) + 1e-9
        before = pose


@given(seeds, st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=5), asynchronous)
@some
def test_a_clock_that_jumps_anywhere_never_makes_a_burst(kit, seed, jumps, strategy):
    scheduler = kit.started(SchedulerParams(strategy=strategy))
    now, before = 0.0, kit.START
    sequence = 0
    rng = np.random.default_rng(seed)
    for jump in [0.0, *jumps]:
        now += jump
        for i in range(25):
            if i == 5:
                sequence += 1
                scheduler.submit(
                    kit.wild_chunk(
                        rng, before, stamp=now, sequence=sequence, epoch=scheduler.epoch
                    ),
                    now,
                )
            pose = scheduler.sample(now).pose
            assert pose.distance(before)[0] <= 0.02
            before = pose
            now += kit.PERIOD


@given(seeds)
@some
def test_without_a_fade_anchoring_is_timestamping(kit, seed):
    def run(params):
        return kit.loop(
            kit.started(params), kit.wanderer(seed), latency_of(seed, 0.5), 3.0
        ).positions

    np.testing.assert_array_equal(
        run(SchedulerParams(strategy="anchor_fade", fade_s=0.0)),
        run(SchedulerParams(strategy="timestamp")),
    )


@given(seeds)
@some
def test_chunks_that_come_only_at_rest_make_anchoring_the_same_as_sync(kit, seed):
    def run(strategy):
        rng = np.random.default_rng(seed)
        scheduler = kit.started(SchedulerParams(strategy=strategy))
        positions = []
        for k in range(3):
            start = 2.5 * k
            chunk = kit.wild_chunk(rng, scheduler.pose, stamp=start, sequence=k + 1, offset=0.02)
            got = kit.play(scheduler, 2.48, [(start + 0.3, chunk)], start=start)
            positions.append(got.positions)
        return np.concatenate(positions)

    np.testing.assert_array_equal(run("anchor_fade"), run("sync"))


@given(seeds, smooth)
@some
def test_the_plan_of_any_moment_is_kept_if_nothing_new_arrives(kit, seed, strategy):
    rng = np.random.default_rng(seed)
    scheduler = kit.started(SchedulerParams(strategy=strategy))
    kit.loop(scheduler, kit.wanderer(seed, speed=0.1), latency_of(seed, 0.4), rng.uniform(1.0, 2.0))
    plan = scheduler.plan(0.0)
    got = kit.play(scheduler, 2.5, start=plan.start + kit.PERIOD)
    for time, setpoint in zip(got.times, got.setpoints, strict=True):
        pose, gripper = plan.at(time)
        metres, radians = pose.distance(setpoint.pose)
        assert metres < 4e-3
        assert radians < 2e-2
    assert gripper == setpoint.gripper


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_mirrored_chunks_make_mirrored_commands(kit, strategy):
    """Left and right are the same: y and the turns about x and z change sign."""
    flip = np.diag([1.0, -1.0, 1.0])

    def run(mirrored: bool):
        rng = np.random.default_rng(11)
        scheduler = kit.started(SchedulerParams(strategy=strategy))
        arrivals = []
        for k in range(4):
            chunk = kit.wild_chunk(rng, stamp=0.5 * k, sequence=k + 1, offset=0.01)
            if mirrored:
                chunk = replace(
                    chunk,
                    positions=chunk.positions @ flip,
                    rotations=flip @ chunk.rotations @ flip,
                    provenance=replace(
                        chunk.provenance,
                        # START lies in the x-z plane, so its own mirror image is itself.
                        proprio=chunk.provenance.proprio,
                    ),
                )
            arrivals.append((0.5 * k + 0.2, chunk))
        return kit.play(scheduler, 3.0, arrivals)

    plain, mirrored = run(False), run(True)
    np.testing.assert_allclose(mirrored.positions @ flip, plain.positions, atol=1e-9)
    np.testing.assert_allclose(flip @ mirrored.rotations @ flip, plain.rotations, atol=1e-9)
