"""Chunks, plans and their history."""

from __future__ import annotations

import math

import numpy as np
import pytest

from xvla_ros import ee6d
from xvla_ros.chunk import Chunk, ChunkRefused, Plan, PlanHistory, Refusal
from xvla_ros.geometry import Pose, so3_exp

DT = 1.0 / 6.0


def numbers(horizon: int = 4) -> np.ndarray:
    positions = np.linspace([0.2, 0.0, 0.1], [0.3, 0.1, 0.1], horizon)
    rotations = np.stack([so3_exp([0.0, 0.1 * k, 0.2]) for k in range(horizon)])
    return ee6d.pack(positions, rotations, np.linspace(0.0, 1.0, horizon))


def plan(start: float, x: float = 0.0, epoch: int = 1, n: int = 3) -> Plan:
    poses = tuple(Pose(np.array([x + 0.1 * i, 0.0, 0.0]), np.eye(3)) for i in range(n))
    return Plan(start=start, dt=0.5, poses=poses, gripper=(0.0,) * (n - 1) + (1.0,), epoch=epoch)


def test_steps_are_due_one_step_after_the_reference():
    chunk = Chunk.from_ee6d(numbers(), stamp=10.0, t_ref=10.5, step_dt=DT)
    assert chunk.due(0) == pytest.approx(10.5 + 1 / 6)
    assert chunk.due(3) == pytest.approx(10.5 + 4 / 6)


def test_a_chunk_keeps_its_numbers():
    values = numbers()
    chunk = Chunk.from_ee6d(values, stamp=1.0, t_ref=1.0, step_dt=DT, sequence=7, epoch=3)
    assert chunk.horizon == 4
    assert (chunk.sequence, chunk.epoch) == (7, 3)
    np.testing.assert_allclose(chunk.ee6d(), values, atol=1e-12)
    np.testing.assert_allclose(chunk.pose(2).position, values[2, :3])
    np.testing.assert_allclose(chunk.pose(2).rotation, so3_exp([0.0, 0.2, 0.2]), atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 20), (4, 10), (20,), (2, 4, 20)])
def test_a_chunk_of_another_shape_is_refused(shape):
    with pytest.raises(ChunkRefused) as refused:
        Chunk.from_ee6d(np.ones(shape), stamp=0.0, t_ref=0.0, step_dt=DT)
    assert refused.value.reason is Refusal.SHAPE


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", [0, 5, 9, 19])
def test_one_number_that_is_not_finite_refuses_the_chunk(bad, column):
    values = numbers()
    values[2, column] = bad
    with pytest.raises(ChunkRefused, match=f"step 2, number {column}") as refused:
        Chunk.from_ee6d(values, stamp=0.0, t_ref=0.0, step_dt=DT)
    assert refused.value.reason is Refusal.NON_FINITE


def test_a_degenerate_rotation_refuses_the_chunk():
    values = numbers()
    values[1, ee6d.ROTATION] = 0.0
    with pytest.raises(ChunkRefused) as refused:
        Chunk.from_ee6d(values, stamp=0.0, t_ref=0.0, step_dt=DT)
    assert refused.value.reason is Refusal.DEGENERATE_ROTATION


@pytest.mark.parametrize(
    ("stamp", "t_ref", "step_dt"),
    [(math.nan, 0.0, DT), (0.0, math.inf, DT), (0.0, 0.0, 0.0), (0.0, 0.0, -DT)],
)
def test_times_that_are_none_refuse_the_chunk(stamp, t_ref, step_dt):
    with pytest.raises(ChunkRefused) as refused:
        Chunk.from_ee6d(numbers(), stamp=stamp, t_ref=t_ref, step_dt=step_dt)
    assert refused.value.reason is Refusal.IMPLAUSIBLE_TIME


def test_a_plan_is_interpolated_and_its_ends_are_held():
    p = plan(start=10.0)
    assert p.at(10.25)[0].position[0] == pytest.approx(0.05)
    assert p.at(10.75)[0].position[0] == pytest.approx(0.15)
    assert p.at(0.0)[0].position[0] == pytest.approx(0.0)
    assert p.at(99.0)[0].position[0] == pytest.approx(0.2)


def test_the_gripper_of_a_plan_is_never_interpolated():
    p = plan(start=0.0)
    assert [p.at(t)[1] for t in (0.0, 0.4, 0.6, 0.99, 1.0, 5.0)] == [0, 0, 0, 0, 1, 1]


def test_a_plan_of_one_pose_is_that_pose():
    p = plan(start=5.0, x=0.7, n=1)
    for t in (0.0, 5.0, 9.0):
        assert p.at(t)[0].position[0] == pytest.approx(0.7)


def commanded_x(history: PlanHistory, time: float) -> float:
    found = history.commanded(time)
    assert found is not None
    return float(found[0].position[0])


def test_the_history_answers_with_the_plan_that_was_valid_then():
    history = PlanHistory()
    assert history.commanded(0.0) is None
    history.add(plan(start=10.0, x=0.0))
    history.add(plan(start=10.5, x=1.0))
    assert commanded_x(history, 10.25) == pytest.approx(0.05)
    assert commanded_x(history, 10.75) == pytest.approx(1.05)
    assert commanded_x(history, 9.0) == pytest.approx(0.0)


def test_the_history_forgets_what_is_old():
    history = PlanHistory(keep_s=2.0)
    for k in range(10):
        history.add(plan(start=float(k), x=float(k)))
    assert history.latest is not None
    assert history.latest.start == 9.0
    # The plan that was valid two seconds before the newest is kept, the ones before are not.
    assert commanded_x(history, 7.0) == pytest.approx(7.0)
    assert commanded_x(history, 0.0) >= 6.0


@pytest.mark.parametrize("newer", [{"start": 4.0}, {"start": 6.0, "epoch": 2}])
def test_another_epoch_or_a_clock_that_went_back_clears_the_history(newer):
    history = PlanHistory()
    history.add(plan(start=5.0, x=0.0))
    history.add(plan(x=3.0, **newer))
    assert commanded_x(history, 5.1) >= 3.0
    history.clear()
    assert history.latest is None
