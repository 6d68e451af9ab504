"""The 20-number end-effector vector."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transforms3d import axangles, quaternions

from xvla_ros import ee6d

seeds = st.integers(0, 2**32 - 1)
layouts = st.sampled_from(["interleaved", "contiguous"])
# Columns (1, 4, 7), (2, 5, 8), (3, 6, 9): every entry is recognisable.
NUMBERED = np.arange(1.0, 10.0).reshape(3, 3)


def random_rotations(seed: int, n: int) -> np.ndarray:
    q = np.random.default_rng(seed).normal(size=(n, 4))
    return np.stack([quaternions.quat2mat(v / np.linalg.norm(v)) for v in q])


def test_interleaved_is_the_first_two_columns_row_by_row():
    np.testing.assert_array_equal(ee6d.encode_rotation(NUMBERED), [1, 2, 4, 5, 7, 8])


def test_contiguous_is_one_column_after_the_other():
    np.testing.assert_array_equal(ee6d.encode_rotation(NUMBERED, "contiguous"), [1, 4, 7, 2, 5, 8])


def test_the_two_layouts_read_each_other_wrong():
    rotation = axangles.axangle2mat([0.36, 0.48, 0.8], 0.7)
    numbers = ee6d.encode_rotation(rotation, "contiguous")
    assert np.abs(ee6d.decode_rotation(numbers, "interleaved") - rotation).max() > 0.1


@given(seeds, layouts)
def test_rotations_round_trip(seed, layout):
    rotations = random_rotations(seed, 5)
    decoded = ee6d.decode_rotation(ee6d.encode_rotation(rotations, layout), layout)
    np.testing.assert_allclose(decoded, rotations, atol=1e-12)


@given(seeds, layouts)
def test_what_a_network_says_becomes_a_rotation(seed, layout):
    rng = np.random.default_rng(seed)
    numbers = ee6d.encode_rotation(random_rotations(seed, 8), layout)
    numbers = numbers * rng.uniform(0.5, 2.0) + rng.normal(scale=0.02, size=numbers.shape)
    rotations = ee6d.decode_rotation(numbers, layout)
    identity = np.broadcast_to(np.eye(3), rotations.shape)
    np.testing.assert_allclose(np.swapaxes(rotations, 1, 2) @ rotations, identity, atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(rotations), 1.0, atol=1e-12)
    first = numbers[:, [0, 2, 4] if layout == "interleaved" else [0, 1, 2]]
    first = first / np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(rotations[:, :, 0], first, atol=1e-12)


@pytest.mark.parametrize(
    "numbers",
    [
        [0.0] * 6,
        [1, 1, 0, 0, 0, 0],
        [1, -2, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0],
        [math.nan, 0, 0, 1, 0, 0],
        [math.inf, 0, 0, 1, 0, 0],
        [1, math.nan, 0, 0, 0, 0],
    ],
    ids=["zeros", "parallel", "opposite", "no second", "NaN", "infinite", "NaN second"],
)
def test_six_numbers_without_a_rotation_are_refused(numbers):
    with pytest.raises(ee6d.DegenerateRotation):
        ee6d.decode_rotation(np.array(numbers))
    good = ee6d.encode_rotation(np.eye(3))
    with pytest.raises(ee6d.DegenerateRotation):
        ee6d.decode_rotation(np.stack([good, np.array(numbers), good]))


@given(seeds)
def test_a_vector_holds_one_arm_and_leaves_the_other_zero(seed):
    rng = np.random.default_rng(seed)
    position, rotation, gripper = rng.normal(size=(4, 3)), random_rotations(seed, 4), rng.random(4)
    vector = ee6d.pack(position, rotation, gripper)
    assert vector.shape == (4, 20)
    np.testing.assert_array_equal(vector[:, 0:3], position)
    np.testing.assert_array_equal(vector[:, 9], gripper)
    np.testing.assert_array_equal(vector[:, 10:], 0.0)
    back = ee6d.unpack(vector)
    np.testing.assert_array_equal(back[0], position)
    np.testing.assert_allclose(back[1], rotation, atol=1e-12)
    np.testing.assert_array_equal(back[2], gripper)
