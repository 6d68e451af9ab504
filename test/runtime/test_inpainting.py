"""The part of a plan that a chunk is to go on from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xvla_ros import ee6d
from xvla_ros.chunk import Plan, Provenance
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.runtime.inpainting import committed, of_provenance, soft_mask
from xvla_ros.runtime.proprio import Proprio, ProprioParams, ProprioSelector

T = 100.0
STEP_DT = 1.0 / 6.0


def at(seconds):
    """Where a plan of 0.1 m/s and 0.3 rad/s is so long after T."""
    return Pose(np.array([0.2 + 0.1 * seconds, 0.0, 0.2]), so3_exp([0.0, 0.0, 0.3 * seconds]))


def plan(seconds=1.6, latency=0.4, **fields):
    count = round(seconds / 0.05) + 1
    given = {
        "sequence": 3,
        "epoch": 1,
        "latency": latency,
        "holding": False,
        "actuating": True,
        "strategy": "inpaint",
    }
    poses = tuple(at(0.05 * k) for k in range(count))
    grippers = tuple(float(0.05 * k > 0.7) for k in range(count))
    return Plan(T, 0.05, poses, grippers, **(given | fields))


def known(plan, t_ref=T, step_dt=STEP_DT, strength=1.0):
    """The prefix of a chunk of 30 steps that was observed at T."""
    prefix = committed(plan, T, t_ref, step_dt, 30, strength)
    assert prefix is not None
    return prefix


def test_a_prefix_is_the_plan_on_the_steps_of_the_chunk():
    prefix = known(plan())
    # 1.6 s of plan, of which the last 0.4 s come to rest: steps are due at 1/6, 2/6, ... 7/6 s.
    assert len(prefix.weights) == 7
    for k in range(7):
        expected = at((k + 1) * STEP_DT)
        np.testing.assert_allclose(prefix.positions[k], expected.position, atol=1e-9)
        np.testing.assert_allclose(prefix.rotations[k], expected.rotation, atol=1e-6)
    assert prefix.gripper.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_what_is_executed_meanwhile_is_imposed_and_what_follows_less_and_less():
    weights = known(plan(latency=0.4)).weights
    # Steps are due after 0.17 and 0.33 s before the chunk comes at 0.4 s.
    assert weights[:2].tolist() == [1.0, 1.0]
    assert (np.diff(weights[1:]) < 0.0).all()
    assert 0.0 < weights[-1] < weights[2] < 1.0
    assert known(plan(latency=0.0)).weights[0] < 1.0


def test_the_soft_mask_is_that_of_real_time_chunking():
    """c (e^c - 1) / (e - 1) with c = (end - i) / (end - d + 1) (arXiv:2506.07339)."""
    weights = soft_mask(5, 2)
    c = np.array([3.0, 2.0, 1.0]) / 4.0
    np.testing.assert_allclose(weights, [1, 1, *(c * (np.exp(c) - 1) / (np.e - 1))])


def test_a_step_that_is_due_just_when_the_chunk_comes_counts_as_executed():
    weights = known(plan(latency=2 * STEP_DT)).weights
    assert weights[:3].tolist()[:2] == [1.0, 1.0]
    assert weights[2] < 1.0


def test_a_chunk_for_later_knows_less_and_a_short_one_no_more_than_its_steps():
    later = known(plan(), T + 0.4)
    np.testing.assert_allclose(later.positions[0], at(0.4 + STEP_DT).position, atol=1e-9)
    assert later.weights[0] < 1.0
    assert len(known(plan(), step_dt=1 / 30).weights) == 30


def test_the_strength_scales_all_weights():
    whole = known(plan())
    np.testing.assert_allclose(known(plan(), strength=0.5).weights, 0.5 * whole.weights)
    assert committed(plan(), T, T, STEP_DT, 30, 0.0) is None


def test_a_plan_that_is_about_to_rest_commits_to_nothing():
    assert committed(plan(seconds=0.5), T, T, STEP_DT, 30, 1.0) is None


def prefix_of(plan, proprio=None, **params):
    selector = ProprioSelector(ProprioParams(**params))
    selector.add_plan(plan, T)
    proprio = proprio or selector.choose(T + 0.1, at(0.1), T + 0.1)
    return selector.prefix(T + 0.1, proprio, T + 0.1, STEP_DT, 30)


def test_only_a_scheduler_that_asks_for_it_gets_a_chunk_with_a_prefix():
    assert prefix_of(plan()) is not None
    assert prefix_of(plan(strategy="anchor_fade")) is None
    assert prefix_of(plan(strategy="")) is None
    assert prefix_of(plan(), inpaint_strength=0.0) is None


def test_a_plan_that_is_not_followed_is_not_gone_on_from():
    assert prefix_of(plan(holding=True)) is None
    assert prefix_of(plan(actuating=False)) is None
    assert prefix_of(plan(), Proprio(at(0.3), "measured", T)) is None


def test_a_prefix_comes_back_from_the_provenance_of_its_chunk():
    prefix = known(plan())
    numbers = ee6d.pack(prefix.positions, prefix.rotations, prefix.gripper)
    origin = Provenance(
        prefix=tuple(numbers.ravel()), prefix_weights=tuple(prefix.weights.tolist())
    )
    again = of_provenance(origin)
    assert again is not None
    np.testing.assert_allclose(again.positions, prefix.positions)
    np.testing.assert_allclose(again.rotations, prefix.rotations, atol=1e-9)
    np.testing.assert_array_equal(again.gripper, prefix.gripper)
    np.testing.assert_array_equal(again.weights, prefix.weights)
    assert of_provenance(replace(origin, prefix=(), prefix_weights=())) is None
