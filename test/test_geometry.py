"""Poses and rotations, checked against transforms3d, closed forms and Pinocchio."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms3d import axangles, euler, quaternions

from xvla_ros import geometry
from xvla_ros.geometry import Pose

angles = st.floats(-math.pi, math.pi)
coordinates = st.floats(-2.0, 2.0)
seeds = st.integers(0, 2**32 - 1)


def random_rotation(seed: int) -> np.ndarray:
    q = np.random.default_rng(seed).normal(size=4)
    return quaternions.quat2mat(q / np.linalg.norm(q))


def random_pose(seed: int) -> Pose:
    return Pose(np.random.default_rng(seed + 1).normal(size=3), random_rotation(seed))


def test_a_quarter_turn_about_z_takes_x_to_y():
    turned = geometry.so3_exp([0.0, 0.0, math.pi / 2]) @ np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(turned, [0.0, 1.0, 0.0], atol=1e-15)


def test_skew_is_the_cross_product():
    a, b = np.array([1.0, -2.0, 3.0]), np.array([0.5, 4.0, -1.0])
    np.testing.assert_allclose(geometry.skew(a) @ b, np.cross(a, b), atol=1e-15)


@given(seeds, st.floats(0.0, math.pi))
def test_the_exponential_is_the_rotation_about_an_axis(seed, angle):
    axis = np.random.default_rng(seed).normal(size=3)
    axis /= np.linalg.norm(axis)
    expected = axangles.axangle2mat(axis, angle, is_normalized=True)
    np.testing.assert_allclose(geometry.so3_exp(angle * axis), expected, atol=1e-12)


@given(seeds, st.floats(0.0, math.pi - 1e-3))
def test_the_logarithm_undoes_the_exponential(seed, angle):
    axis = np.random.default_rng(seed).normal(size=3)
    vector = angle * axis / np.linalg.norm(axis)
    np.testing.assert_allclose(geometry.so3_log(geometry.so3_exp(vector)), vector, atol=1e-9)


@pytest.mark.parametrize("axis", [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.0, 0.8]])
def test_the_logarithm_of_half_a_turn_has_length_pi_along_the_axis(axis):
    rotation = axangles.axangle2mat(axis, math.pi)
    vector = geometry.so3_log(rotation)
    assert np.linalg.norm(vector) == pytest.approx(math.pi, abs=1e-9)
    np.testing.assert_allclose(np.abs(vector / math.pi), np.abs(axis), atol=1e-7)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
def test_small_rotations_keep_their_angle(angle):
    rotation = geometry.so3_exp([angle, 0.0, 0.0])
    assert np.linalg.norm(geometry.so3_log(rotation)) == pytest.approx(angle, abs=1e-15, rel=1e-9)
    assert geometry.rotation_angle(np.eye(3), rotation) == pytest.approx(angle, rel=1e-9)


def test_exponential_and_logarithm_agree_with_pinocchio():
    pin = pytest.importorskip("pinocchio")
    rng = np.random.default_rng(0)
    for _ in range(50):
        vector = rng.normal(size=3)
        vector *= rng.uniform(0.0, 3.1) / np.linalg.norm(vector)
        np.testing.assert_allclose(geometry.so3_exp(vector), pin.exp3(vector), atol=1e-12)
        rotation = pin.exp3(vector)
        np.testing.assert_allclose(geometry.so3_log(rotation), pin.log3(rotation), atol=1e-8)


@given(seeds, seeds)
def test_the_angle_between_rotations_is_that_of_their_quaternions(first, second):
    a, b = random_rotation(first), random_rotation(second)
    dot = abs(quaternions.mat2quat(a) @ quaternions.mat2quat(b))
    expected = 2.0 * math.acos(min(dot, 1.0))
    assert geometry.rotation_angle(a, b) == pytest.approx(expected, abs=1e-6)


@given(seeds, seeds, st.floats(0.0, 1.0))
def test_slerp_divides_the_angle(first, second, fraction):
    a, b = random_rotation(first), random_rotation(second)
    whole = geometry.rotation_angle(a, b)
    if whole > math.pi - 1e-3:
        return
    middle = geometry.slerp(a, b, fraction)
    assert geometry.rotation_angle(a, middle) == pytest.approx(fraction * whole, abs=1e-7)
    assert geometry.rotation_angle(middle, b) == pytest.approx((1 - fraction) * whole, abs=1e-7)


def test_interpolation_is_straight_in_position():
    a = Pose(np.array([0.0, 0.0, 0.0]), np.eye(3))
    b = Pose(np.array([1.0, 2.0, -4.0]), geometry.so3_exp([0.0, 0.8, 0.0]))
    middle = geometry.interpolate(a, b, 0.25)
    np.testing.assert_allclose(middle.position, [0.25, 0.5, -1.0])
    np.testing.assert_allclose(middle.rotation, euler.euler2mat(0.0, 0.2, 0.0), atol=1e-12)


@given(seeds, seeds)
@settings(max_examples=30, deadline=None)
def test_poses_multiply_and_invert_like_their_matrices(first, second):
    a, b = random_pose(first), random_pose(second)
    np.testing.assert_allclose((a @ b).matrix(), a.matrix() @ b.matrix(), atol=1e-12)
    np.testing.assert_allclose(a.inverse().matrix(), np.linalg.inv(a.matrix()), atol=1e-10)
    np.testing.assert_allclose(Pose.from_matrix(a.matrix()).matrix(), a.matrix())


def test_distance_is_metres_and_radians():
    a = Pose.identity()
    b = Pose(np.array([3.0, 4.0, 0.0]), geometry.so3_exp([0.0, 0.0, 0.3]))
    metres, radians = a.distance(b)
    assert metres == pytest.approx(5.0)
    assert radians == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("position", "rotation"), [(np.zeros(2), np.eye(3)), (np.zeros(3), np.eye(4))]
)
def test_a_pose_of_another_shape_is_refused(position, rotation):
    with pytest.raises(ValueError, match=r"shapes \(3,\) and \(3, 3\)"):
        Pose(position, rotation)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_pose_with_a_number_that_is_not_finite_says_so(bad):
    assert Pose.identity().is_finite()
    assert not Pose(np.array([0.0, bad, 0.0]), np.eye(3)).is_finite()
    assert not Pose(np.zeros(3), np.full((3, 3), bad)).is_finite()


@given(seeds)
def test_quaternions_are_in_ros_order_and_round_trip(seed):
    rotation = random_rotation(seed)
    q = geometry.quaternion_from_matrix(rotation)
    assert q[3] >= 0.0
    w, x, y, z = quaternions.mat2quat(rotation)
    np.testing.assert_allclose(q, [x, y, z, w], atol=1e-12)
    np.testing.assert_allclose(geometry.matrix_from_quaternion(q), rotation, atol=1e-12)
    np.testing.assert_allclose(geometry.matrix_from_quaternion(-3.0 * q), rotation, atol=1e-12)


@pytest.mark.parametrize("q", [[0, 0, 0, 0], [math.nan, 0, 0, 1], [math.inf, 0, 0, 1]])
def test_a_quaternion_without_direction_is_refused(q):
    with pytest.raises(ValueError, match="not a rotation"):
        geometry.matrix_from_quaternion(q)
