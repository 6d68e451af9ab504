"""Rotations in plain floats, against those of transforms3d."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms3d import axangles, quaternions

from xvla_ros import scalars

seeds = st.integers(0, 2**32 - 1)
# Every part of the range, and its ends: small angles and half a turn.
angles = st.one_of(
    st.floats(0.0, math.pi),
    st.floats(0.0, 1e-7),
    st.floats(0.0, 1e-7).map(lambda small: math.pi - small),
)
many = settings(max_examples=300, deadline=None)


def axis(seed: int) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=3)
    return vector / np.linalg.norm(vector)


def rotation(seed: int, angle: float) -> np.ndarray:
    return axangles.axangle2mat(axis(seed), angle, is_normalized=True)


@given(seeds, angles)
@many
def test_the_exponential_is_the_rotation_about_an_axis(seed, angle):
    rows = scalars.exp(*(angle * axis(seed)))
    np.testing.assert_allclose(rows, rotation(seed, angle), atol=1e-14)


@given(seeds, angles)
@many
def test_the_quaternion_is_that_of_transforms3d(seed, angle):
    w, x, y, z = scalars.quaternion(rotation(seed, angle).tolist())
    expected = quaternions.axangle2quat(axis(seed), angle, is_normalized=True)
    assert w >= 0.0
    assert w * w + x * x + y * y + z * z == pytest.approx(1.0, abs=1e-14)
    # At half a turn both signs are the same rotation.
    assert abs(np.dot((w, x, y, z), expected)) == pytest.approx(1.0, abs=1e-14)


@given(seeds, angles)
@many
def test_the_logarithm_is_the_axis_times_the_angle(seed, angle):
    vector = np.array(scalars.log(rotation(seed, angle).tolist()))
    assert np.linalg.norm(vector) == pytest.approx(angle, abs=1e-9)
    np.testing.assert_allclose(scalars.exp(*vector), rotation(seed, angle), atol=1e-9)


@given(seeds, seeds, angles, angles)
@many
def test_products_and_angles_are_those_of_matrices(seed, other, angle, another):
    first, second = rotation(seed, angle), rotation(other, another)
    product = scalars.product(first.tolist(), second.tolist())
    np.testing.assert_allclose(product, first @ second, atol=1e-15)
    turned = scalars.angle_between(first.tolist(), (first @ rotation(other, angle)).tolist())
    assert turned == pytest.approx(angle, abs=1e-7)
    assert scalars.angle_between(first.tolist(), first.tolist()) == 0.0
