"""The 20-number end-effector vector ("ee6d") that X-VLA reads and writes.

Two arms of ten numbers: position (3, metres), the first two columns of the rotation matrix (6),
gripper (1). A single-arm robot uses the first ten and leaves the rest zero. Layout and rotation
orders: X-VLA, models/action_hub.py and datasets/utils.py (github.com/2toinf/X-VLA).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
RotationLayout = Literal["interleaved", "contiguous"]

DIM = 20
ARM_DIM = 10
POSITION = slice(0, 3)
ROTATION = slice(3, 9)
GRIPPER = 9
# The gripper of the first and of the second arm.
GRIPPERS = (9, 19)

# Indices of the first and the second column of the rotation inside the six numbers.
_COLUMNS: dict[str, tuple[list[int], list[int]]] = {
    "interleaved": ([0, 2, 4], [1, 3, 5]),
    "contiguous": ([0, 1, 2], [3, 4, 5]),
}
# Shorter columns, or columns this close to parallel (sine of their angle), carry no direction.
_DEGENERATE = 1e-3


class DegenerateRotation(ValueError):
    """Six numbers that do not determine a rotation."""


def encode_rotation(rotation: ArrayLike, layout: RotationLayout = "interleaved") -> Array:
    """Six numbers (..., 6) of rotation matrices (..., 3, 3)."""
    r = np.asarray(rotation, dtype=np.float64)
    first, second = _COLUMNS[layout]
    out = np.empty((*r.shape[:-2], 6))
    out[..., first] = r[..., :, 0]
    out[..., second] = r[..., :, 1]
    return out


def decode_rotation(values: ArrayLike, layout: RotationLayout = "interleaved") -> Array:
    """Rotation matrices (..., 3, 3) of six numbers (..., 6), by Gram-Schmidt.

    Raises:
        DegenerateRotation: a column is not finite or vanishes, or both are parallel.
    """
    v = np.asarray(values, dtype=np.float64)
    first, second = _COLUMNS[layout]
    a1, a2 = v[..., first], v[..., second]
    n1 = np.linalg.norm(a1, axis=-1, keepdims=True)
    n2 = np.linalg.norm(a2, axis=-1, keepdims=True)
    # "not (x > eps)" rather than "x <= eps": a NaN must be caught too.
    if not (np.all(n1 > _DEGENERATE) and np.all(n2 > _DEGENERATE) and np.isfinite(v).all()):
        raise DegenerateRotation("a rotation column vanishes or is not finite")
    b1 = a1 / n1
    rest = a2 / n2 - np.sum(b1 * a2 / n2, axis=-1, keepdims=True) * b1
    n3 = np.linalg.norm(rest, axis=-1, keepdims=True)
    if not np.all(n3 > _DEGENERATE):
        raise DegenerateRotation("the two rotation columns are parallel or not finite")
    b2 = rest / n3
    return np.stack([b1, b2, np.cross(b1, b2)], axis=-1)


def pack(
    position: ArrayLike,
    rotation: ArrayLike,
    gripper: ArrayLike,
    layout: RotationLayout = "interleaved",
) -> Array:
    """The vector (..., 20) of one arm: position (..., 3), rotation (..., 3, 3), gripper (...)."""
    p = np.asarray(position, dtype=np.float64)
    out = np.zeros((*p.shape[:-1], DIM))
    out[..., POSITION] = p
    out[..., ROTATION] = encode_rotation(rotation, layout)
    out[..., GRIPPER] = gripper
    return out


def unpack(values: ArrayLike, layout: RotationLayout = "interleaved") -> tuple[Array, Array, Array]:
    """Position (..., 3), rotation (..., 3, 3) and gripper (...) of the first arm.

    Raises:
        DegenerateRotation: see `decode_rotation`.
    """
    v = np.asarray(values, dtype=np.float64)
    return v[..., POSITION], decode_rotation(v[..., ROTATION], layout), v[..., GRIPPER]
