"""Chunks that must not be executed: refused whole, counted, nothing else changes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from xvla_ros.chunk import Chunk, ChunkRefused, Provenance, Refusal
from xvla_ros.geometry import so3_exp
from xvla_ros.scheduler.params import ChunkParams, SchedulerParams
from xvla_ros.scheduler.scheduler import ChunkScheduler

STEP_DT = 1.0 / 6.0


def broken(kit, how: str) -> Chunk:
    """A chunk for time 1.0, good but for one thing."""
    good = kit.line_chunk(stamp=1.0, sequence=2)

    def with_entry(name: str, index: tuple[int, ...], value: float) -> Chunk:
        values = getattr(good, name).copy()
        values[index] = value
        return replace(good, **{name: values})

    proprio = list(good.provenance.proprio)
    far = good.positions.copy()
    far[5:] += [0.0, 0.2, 0.0]
    turned = good.rotations.copy()
    turned[7:] = turned[7:] @ so3_exp([0.0, 0.0, 1.2])
    flipped = good.rotations.copy()
    flipped[4] = np.diag([1.0, 1.0, -1.0])
    return {
        "NaN position": with_entry("positions", (3, 1), math.nan),
        "infinite position": with_entry("positions", (29, 2), math.inf),
        "NaN rotation": with_entry("rotations", (0, 1, 1), math.nan),
        "NaN gripper": with_entry("gripper", (12,), math.nan),
        "NaN threshold": replace(good, gripper_threshold=math.nan),
        "NaN to open": replace(good, gripper_open_below=math.nan),
        "NaN proprio": replace(good, provenance=Provenance(proprio=(math.nan, *proprio[1:]))),
        "short proprio": replace(good, provenance=Provenance(proprio=tuple(proprio[:10]))),
        "flat proprio": replace(good, provenance=Provenance(proprio=(1.0,) + (0.0,) * 19)),
        "no steps": replace(
            good, positions=np.empty((0, 3)), rotations=np.empty((0, 3, 3)), gripper=np.empty(0)
        ),
        "fewer grippers": replace(good, gripper=good.gripper[:-1]),
        "scaled rotation": with_entry("rotations", (2, 0, 0), 1.3),
        "mirror": replace(good, rotations=flipped),
        "far step": replace(good, positions=far),
        "turned step": replace(good, rotations=turned),
        "step of no time": replace(good, step_dt=1e-4),
        "step of an hour": replace(good, step_dt=3600.0),
        "NaN step time": replace(good, step_dt=math.nan),
        "NaN stamp": replace(good, stamp=math.nan),
        "NaN t_ref": replace(good, t_ref=math.nan),
        "t_ref before the stamp": replace(good, t_ref=0.5),
        "t_ref far ahead": replace(good, t_ref=9.0),
        "future": replace(good, stamp=1.8, t_ref=1.8),
        "another clock": replace(good, stamp=1.7e9, t_ref=1.7e9),
        "wrong frame": replace(good, frame_id="other_robot/base_link"),
        "wrong end effector": replace(good, ee_frame="gripper_link"),
        "old epoch": replace(good, epoch=1),
        "later epoch": replace(good, epoch=3),
        "older": replace(good, stamp=-0.2, t_ref=-0.2),
        "duplicate": replace(good, stamp=0.0, t_ref=0.0, sequence=1),
        "far away": kit.line_chunk(kit.moved(0.0, 0.1, 0.0), stamp=1.0, sequence=2),
        "turned away": kit.line_chunk(kit.moved(turn=(0, 0, 0.6)), stamp=1.0, sequence=2),
    }[how]


CASES = [
    ("NaN position", Refusal.NON_FINITE),
    ("infinite position", Refusal.NON_FINITE),
    ("NaN rotation", Refusal.NON_FINITE),
    ("NaN gripper", Refusal.NON_FINITE),
    ("NaN threshold", Refusal.NON_FINITE),
    ("NaN to open", Refusal.NON_FINITE),
    ("NaN proprio", Refusal.NON_FINITE),
    ("short proprio", Refusal.SHAPE),
    ("flat proprio", Refusal.DEGENERATE_ROTATION),
    ("no steps", Refusal.SHAPE),
    ("fewer grippers", Refusal.SHAPE),
    ("scaled rotation", Refusal.DEGENERATE_ROTATION),
    ("mirror", Refusal.DEGENERATE_ROTATION),
    ("far step", Refusal.IMPLAUSIBLE_STEP),
    ("turned step", Refusal.IMPLAUSIBLE_STEP),
    ("step of no time", Refusal.IMPLAUSIBLE_TIME),
    ("step of an hour", Refusal.IMPLAUSIBLE_TIME),
    ("NaN step time", Refusal.IMPLAUSIBLE_TIME),
    ("NaN stamp", Refusal.IMPLAUSIBLE_TIME),
    ("NaN t_ref", Refusal.IMPLAUSIBLE_TIME),
    ("t_ref before the stamp", Refusal.IMPLAUSIBLE_TIME),
    ("t_ref far ahead", Refusal.IMPLAUSIBLE_TIME),
    ("future", Refusal.CLOCKS_DIFFER),
    ("another clock", Refusal.CLOCKS_DIFFER),
    ("wrong frame", Refusal.WRONG_FRAME),
    ("wrong end effector", Refusal.WRONG_FRAME),
    ("old epoch", Refusal.OLD_EPOCH),
    ("later epoch", Refusal.OLD_EPOCH),
    ("older", Refusal.OUT_OF_ORDER),
    ("duplicate", Refusal.OUT_OF_ORDER),
    ("far away", Refusal.JUMP),
    ("turned away", Refusal.JUMP),
]


@pytest.mark.parametrize(("how", "reason"), CASES, ids=[c[0] for c in CASES])
def test_a_bad_chunk_is_refused_and_the_plan_goes_on_as_if_it_had_never_come(kit, how, reason):
    good = kit.line_chunk(angular=(0.1, 0.0, 0.05), gripper=np.linspace(0, 1, 30))
    undisturbed, disturbed = kit.started(), kit.started()
    expected = kit.play(undisturbed, 3.0, [(0.0, good)])
    got = kit.play(disturbed, 3.0, [(0.0, good), (1.0, broken(kit, how))])
    assert [r.reason for r in got.refused] == [reason]
    assert disturbed.refusals == {reason: 1}
    assert disturbed.accepted == 1
    np.testing.assert_array_equal(got.positions, expected.positions)
    np.testing.assert_array_equal(got.rotations, expected.rotations)
    assert got.grippers == expected.grippers
    assert got.states == expected.states
    assert disturbed.epoch == undisturbed.epoch
    assert disturbed.latency.p95 == undisturbed.latency.p95


def test_a_chunk_whose_steps_have_all_passed_is_refused(kit):
    scheduler = kit.started(SchedulerParams(chunk=ChunkParams(max_age_s=60.0)))
    long = kit.line_chunk(velocity=(0.01, 0, 0))
    short = kit.line_chunk(velocity=(0.01, 0, 0), stamp=0.3, horizon=5, sequence=2)
    got = kit.play(scheduler, 1.6, [(0.0, long), (1.4, short)])
    assert [r.reason for r in got.refused] == [Refusal.EXPIRED]


def test_no_chunk_is_taken_before_the_pose_is_known(kit):
    scheduler = ChunkScheduler(epoch=2)
    with pytest.raises(ChunkRefused) as refused:
        scheduler.submit(kit.line_chunk(), 0.0)
    assert refused.value.reason is Refusal.BUSY
    with pytest.raises(RuntimeError, match="reset"):
        scheduler.sample(0.0)


def test_no_chunk_is_taken_while_something_else_moves_the_arm(kit):
    scheduler = kit.started()
    scheduler.set_busy("moving to the ready pose")
    with pytest.raises(ChunkRefused, match="ready pose") as refused:
        scheduler.submit(kit.line_chunk(), 0.0)
    assert refused.value.reason is Refusal.BUSY
    scheduler.set_busy("")
    scheduler.submit(kit.line_chunk(), 0.0)


def test_a_restarted_policy_begins_again_at_sequence_one(kit):
    scheduler = kit.started()
    kit.play(scheduler, 0.4, [(0.0, kit.line_chunk(velocity=(0.01, 0, 0), sequence=41))])
    restarted = kit.line_chunk(scheduler.pose, stamp=0.4, sequence=1)
    scheduler.submit(restarted, 0.5)
    assert scheduler.accepted == 2


def test_the_first_chunk_of_a_policy_process_does_not_count_as_latency(kit):
    scheduler = kit.started()
    slow = (0.01, 0.0, 0.0)
    chunks = [
        (3.0, kit.line_chunk(velocity=slow, stamp=0.0, sequence=1)),
        (3.4, kit.line_chunk(velocity=slow, stamp=3.2, sequence=2)),
        (7.0, kit.line_chunk(velocity=slow, stamp=4.0, sequence=1)),
        (7.4, kit.line_chunk(velocity=slow, stamp=7.2, sequence=2)),
    ]
    kit.play(scheduler, 8.0, chunks)
    assert scheduler.accepted == 4
    assert scheduler.latency.p95 == pytest.approx(0.2)


def test_a_chunk_with_twenty_zeros_for_proprio_starts_at_its_first_step(kit):
    scheduler = kit.started()
    chunk = kit.line_chunk(proprio=False)
    zeros = replace(chunk, provenance=Provenance(proprio=(0.0,) * 20))
    with_zeros = kit.play(scheduler, 1.0, [(0.0, zeros)])
    without = kit.play(kit.started(), 1.0, [(0.0, chunk)])
    np.testing.assert_array_equal(with_zeros.positions, without.positions)
    assert not with_zeros.refused


def test_half_a_turn_in_one_step_is_no_motion_however_slow(kit):
    with pytest.raises(ChunkRefused) as refused:
        kit.started().submit(kit.line_chunk(angular=(2.6, 0, 0), step_dt=1.0, horizon=3), 0.0)
    assert refused.value.reason is Refusal.IMPLAUSIBLE_STEP


def test_step_bounds_grow_with_the_step_time(kit):
    """0.2 m/s: 3 cm in a sixth of a second, 20 cm in a second."""
    for step_dt in (0.02, STEP_DT, 1.0):
        scheduler = kit.started()
        scheduler.submit(kit.line_chunk(velocity=(0.2, 0, 0), step_dt=step_dt), 0.0)


@pytest.mark.parametrize("apart", [0.03, 0.11])
def test_a_chunk_that_waited_is_judged_again_when_its_time_comes(kit, apart):
    """Two chunks for later that fit the plan of now, the second not what the first one makes of it.

    Executed, the second would make the command jump by what they are apart.
    """
    first_due, second_due = 0.8, 1.0
    scheduler = kit.started(SchedulerParams(strategy="timestamp"))
    running = kit.line_chunk(velocity=(0.1, 0.0, 0.0))

    def plan_at(time):
        return kit.moved(0.1 * time)

    def away(time):
        """A path that is at the plan when the first chunk begins and `apart` above it 0.2 s on."""
        return kit.line_chunk(
            plan_at(time),
            (0.1, 0.0, apart / (second_due - first_due)),
            stamp=0.5,
            t_ref=time,
            step_dt=0.5,
            horizon=4,
            sequence=2,
        )

    later = kit.line_chunk(
        plan_at(second_due), (0.1, 0.0, 0.0), stamp=0.52, t_ref=second_due, sequence=3
    )
    recording = kit.play(scheduler, 1.6, [(0.0, running), (0.55, away(first_due)), (0.57, later)])
    assert recording.refused == []
    taken = apart < scheduler.params.splice.max_jump_m
    assert scheduler.refusals[Refusal.JUMP] == (not taken)
    assert recording.setpoints[-1].sequence == (3 if taken else 2)
