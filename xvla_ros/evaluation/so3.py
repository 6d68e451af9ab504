"""Many rotations at once; the formulas of `geometry`, without its loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SMALL_ANGLE = 1e-8


def quaternions(rotations: Array) -> Array:
    """Unit quaternions (n, 4) in ROS order (x, y, z, w), w >= 0, of rotations (n, 3, 3).

    Each is computed from its largest component (Shepperd, "Quaternion from rotation matrix",
    J. Guidance and Control 1, 1978), so that no difference of nearly equal numbers is divided by.
    """
    r = np.asarray(rotations, dtype=np.float64).reshape(-1, 3, 3)
    x, y, z = r[:, 0, 0], r[:, 1, 1], r[:, 2, 2]
    squares = 0.25 * (1.0 + np.stack([x - y - z, y - x - z, z - x - y, x + y + z], axis=1))
    # Products of pairs of components: 4ab is a sum or a difference of opposite entries.
    products = np.empty((len(r), 4, 4))
    for a, b, value in (
        (0, 1, r[:, 0, 1] + r[:, 1, 0]),
        (0, 2, r[:, 0, 2] + r[:, 2, 0]),
        (1, 2, r[:, 1, 2] + r[:, 2, 1]),
        (0, 3, r[:, 2, 1] - r[:, 1, 2]),
        (1, 3, r[:, 0, 2] - r[:, 2, 0]),
        (2, 3, r[:, 1, 0] - r[:, 0, 1]),
    ):
        products[:, a, b] = products[:, b, a] = 0.25 * value
    for a in range(4):
        products[:, a, a] = squares[:, a]
    # Where a rotation is not known, nothing of its quaternion is.
    largest = np.argmax(np.nan_to_num(squares, nan=-1.0), axis=1)
    row = np.take_along_axis(products, largest[:, None, None], axis=1)[:, 0]
    q = row / np.linalg.norm(row, axis=1, keepdims=True)
    return np.where(q[:, 3:] < 0.0, -q, q)


def log(rotations: Array) -> Array:
    """Rotation vectors (n, 3) of rotations (n, 3, 3)."""
    q = quaternions(rotations)
    sine = np.linalg.norm(q[:, :3], axis=1)
    angle = 2.0 * np.arctan2(sine, q[:, 3])
    scale = np.where(sine < _SMALL_ANGLE, 2.0, angle / np.maximum(sine, _SMALL_ANGLE))
    return np.asarray(q[:, :3] * scale[:, None])


def exp(vectors: Array) -> Array:
    """Rotations (n, 3, 3) of rotation vectors (n, 3) (Rodrigues' formula)."""
    w = np.asarray(vectors, dtype=np.float64).reshape(-1, 3)
    angle = np.linalg.norm(w, axis=1)
    safe = np.maximum(angle, _SMALL_ANGLE)
    first = np.where(angle < _SMALL_ANGLE, 1.0, np.sin(safe) / safe)
    second = np.where(angle < _SMALL_ANGLE, 0.5, (1.0 - np.cos(safe)) / safe**2)
    k = np.zeros((len(w), 3, 3))
    k[:, 0, 1], k[:, 0, 2], k[:, 1, 2] = -w[:, 2], w[:, 1], -w[:, 0]
    k[:, 1, 0], k[:, 2, 0], k[:, 2, 1] = w[:, 2], -w[:, 1], w[:, 0]
    return np.eye(3) + first[:, None, None] * k + second[:, None, None] * (k @ k)
