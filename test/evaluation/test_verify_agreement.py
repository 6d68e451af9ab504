"""Figures of agreement against values worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest

from xvla_ros.evaluation.verify.agreement import Chunks, Numbers, to_json
from xvla_ros.evaluation.verify.same_inputs import Answers, Tolerance, compare, spread_of_seeds
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.runtime.interface import PolicyInput, Prediction

INPUT = PolicyInput((np.zeros((4, 4, 3), np.uint8),), Pose.identity(), "reach", 0)


def prediction(x=0.0, angle=0.0, closed=0.0, steps=2):
    positions = np.tile([x, 0.0, 0.0], (steps, 1))
    rotations = np.tile(so3_exp([0.0, 0.0, angle]), (steps, 1, 1))
    raw = np.concatenate([positions, rotations.reshape(steps, 9)], axis=1)
    return Prediction(positions, rotations, np.full(steps, closed), np.zeros(20), 0.0, raw)


class Stub:
    """Answers from its seed: `shift` metres and `per_seed` metres for each seed."""

    gripper_threshold, approximation, device = 0.8, "exact", "cpu"

    def __init__(self, shift=0.0, per_seed=0.0, tokens=3, **chunk):
        self.shift, self.per_seed, self.tokens, self.chunk = shift, per_seed, tokens, chunk

    def features(self, inputs):
        return np.full((self.tokens, 2), self.shift) + np.arange(2.0)

    def predict(self, inputs):
        return prediction(self.shift + self.per_seed * inputs.seed, **self.chunk)


def answers(**kwargs):
    stub: Any = Stub(**kwargs)
    return Answers.of(stub, [INPUT, INPUT], 3, lambda: None)


def test_numbers_of_two_lines():
    a = np.array([1.0, 2.0, 3.0, 4.0])
    found = Numbers.of(a, 2.0 * a)
    assert found.pearson == pytest.approx(1.0)
    assert found.max_abs == 4.0
    assert found.rmse == pytest.approx(math.sqrt(30 / 4))
    assert found.relative == pytest.approx(4.0 / math.sqrt(30 / 4))


def test_what_does_not_vary_has_no_correlation():
    found = Numbers.of(np.ones(3), np.ones(3))
    assert math.isnan(found.pearson)
    assert to_json(found)["pearson"] is None
    assert found.max_abs == 0.0


def test_chunks_are_compared_in_millimetres_degrees_and_gripper_commands():
    same, other = prediction(), prediction(0.003, math.radians(2.0), closed=0.9)
    found = Chunks.of([same, same], [same, other], threshold=0.8)
    assert found.mm_max == pytest.approx(3.0)
    assert found.mm_rmse == pytest.approx(3.0 / math.sqrt(2))
    assert found.deg_max == pytest.approx(2.0)
    assert (found.flips, found.steps) == (2, 4)
    assert Chunks.of([same], [prediction(closed=0.7)], threshold=0.8).flips == 0


def test_the_spread_is_that_between_seeds():
    spread = spread_of_seeds(answers(per_seed=0.010), 0.8)
    # Three seeds in a ring: 10, 10 and 20 mm apart.
    assert spread.mm_rmse == pytest.approx(math.sqrt((100 + 100 + 400) / 3))


def test_a_variant_is_judged_by_the_spread_or_by_what_is_allowed():
    reference = answers(per_seed=0.010)
    spread = spread_of_seeds(reference, 0.8)
    near = compare("near", reference, answers(per_seed=0.010, shift=0.001), 0.8)
    far = compare("far", reference, answers(per_seed=0.010, shift=0.002), 0.8)
    assert near.faults(spread, Tolerance()) == []
    assert "rmse 2 mm" in far.faults(spread, Tolerance())[0]
    assert far.faults(spread, Tolerance(spread=0.2)) == []
    assert "max 1 mm" in near.faults(spread, Tolerance(mm=0.5))[0]
    turned = compare("turned", reference, answers(per_seed=0.010, angle=0.001), 0.8)
    assert "deg" in turned.faults(spread, Tolerance(deg=0.01))[-1]
    flipped = compare("flipped", reference, answers(per_seed=0.010, closed=1.0), 0.8)
    assert flipped.faults(spread, Tolerance()) == ["12 gripper flips in 12 steps"]


def test_features_of_other_view_slots_have_no_figures():
    reference = answers()
    found = compare("fewer", reference, answers(tokens=2), 0.8)
    row = found.to_dict(spread_of_seeds(reference, 0.8), Tolerance())
    assert row["features"]["pearson"] is None
    assert row["features"]["relative"] is None
    assert row["actions"]["mm_max"] == 0.0
