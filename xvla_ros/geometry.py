"""Rigid-body poses and rotations.

Every rotation is a 3x3 matrix that maps coordinates of the child frame into the parent frame;
every angle is in radians and every length in metres. Formulas follow Murray, Li and Sastry,
"A Mathematical Introduction to Robotic Manipulation" (1994), chapter 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from transforms3d import quaternions

from xvla_ros import scalars

Array = NDArray[np.float64]

# Below this angle the closed forms divide by nearly zero, and their series are exact in float64.
_SMALL_ANGLE = 1e-6


@dataclass(frozen=True, eq=False)
class Pose:
    """Position (3,) in metres and rotation (3, 3) of a child frame in its parent frame."""

    position: Array
    rotation: Array

    def __post_init__(self) -> None:
        position = np.asarray(self.position, dtype=np.float64)
        rotation = np.asarray(self.rotation, dtype=np.float64)
        if position.shape != (3,) or rotation.shape != (3, 3):
            raise ValueError(
                f"a pose needs shapes (3,) and (3, 3), not {position.shape} and {rotation.shape}"
            )
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "rotation", rotation)

    @staticmethod
    def identity() -> Pose:
        """The pose of a frame in itself."""
        return Pose(np.zeros(3), np.eye(3))

    @staticmethod
    def from_matrix(matrix: ArrayLike) -> Pose:
        """The pose of a homogeneous (4, 4) matrix."""
        m = np.asarray(matrix, dtype=np.float64)
        return Pose(m[:3, 3], m[:3, :3])

    def matrix(self) -> Array:
        """The homogeneous (4, 4) matrix."""
        m = np.eye(4)
        m[:3, :3] = self.rotation
        m[:3, 3] = self.position
        return m

    def __matmul__(self, child: Pose) -> Pose:
        return Pose(self.rotation @ child.position + self.position, self.rotation @ child.rotation)

    def inverse(self) -> Pose:
        """The parent frame's pose in this frame."""
        return Pose(-self.rotation.T @ self.position, self.rotation.T)

    def is_finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        return bool(np.isfinite(self.position).all() and np.isfinite(self.rotation).all())

    def distance(self, other: Pose) -> tuple[float, float]:
        """Metres and radians between two poses of the same parent frame."""
        x, y, z = self.position.tolist()
        i, j, k = other.position.tolist()
        return (
            sqrt((x - i) ** 2 + (y - j) ** 2 + (z - k) ** 2),
            scalars.angle_between(self.rotation.tolist(), other.rotation.tolist()),
        )


def skew(vector: ArrayLike) -> Array:
    """The (3, 3) matrix whose product with w is the cross product of `vector` with w."""
    x, y, z = np.asarray(vector, dtype=np.float64)
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def so3_exp(rotation_vector: ArrayLike) -> Array:
    """Rotation matrix of a rotation vector (3,): axis times angle (Rodrigues' formula)."""
    w = np.asarray(rotation_vector, dtype=np.float64)
    return np.array(scalars.exp(*w.tolist()))


def so3_log(rotation: ArrayLike) -> Array:
    """Rotation vector (3,) of a rotation matrix, with an angle in [0, pi].

    Goes through the quaternion, which stays well conditioned up to pi where the
    skew-symmetric part of the matrix vanishes.
    """
    return np.array(scalars.log(np.asarray(rotation, dtype=np.float64).tolist()))


def rotation_angle(first: Array, second: Array) -> float:
    """Angle in [0, pi] between two rotation matrices."""
    return scalars.angle_between(first.tolist(), second.tolist())


def slerp(first: Array, second: Array, fraction: float) -> Array:
    """Rotation at `fraction` of the shortest way from `first` to `second`."""
    return first @ so3_exp(fraction * so3_log(first.T @ second))


def interpolate(first: Pose, second: Pose, fraction: float) -> Pose:
    """Straight line in position and slerp in rotation; `fraction` 0 is first, 1 is second."""
    position = first.position + fraction * (second.position - first.position)
    return Pose(position, slerp(first.rotation, second.rotation, fraction))


def quaternion_from_matrix(rotation: Array) -> Array:
    """Unit quaternion in ROS order (x, y, z, w) with w >= 0."""
    w, x, y, z = scalars.quaternion(rotation.tolist())
    return np.array([x, y, z, w])


def matrix_from_quaternion(xyzw: ArrayLike) -> Array:
    """Rotation matrix of a quaternion in ROS order (x, y, z, w).

    Raises:
        ValueError: the quaternion is not finite or has no direction.
    """
    q = np.asarray(xyzw, dtype=np.float64)
    norm = float(np.linalg.norm(q))
    if not np.isfinite(norm) or norm < _SMALL_ANGLE:
        raise ValueError(f"not a rotation: quaternion {q.tolist()}")
    x, y, z, w = q / norm
    return np.asarray(quaternions.quat2mat([w, x, y, z]))
