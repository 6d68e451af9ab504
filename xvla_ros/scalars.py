"""Rotations in plain floats: for one at a time, where calling numpy costs more than to compute.

A rotation is three rows of three floats. What is here equals `geometry` to rounding; a property
test says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, sin, sqrt

Vector = tuple[float, float, float]
Rows = tuple[Vector, Vector, Vector]
AnyRows = Sequence[Sequence[float]]

# So small an angle that sin(x) / x is exactly 1 stands for 0.
_TINY_ANGLE = 1e-12
_SMALL_SINE = 1e-9


def exp(x: float, y: float, z: float) -> Rows:
    """Rotation of a rotation vector (Rodrigues' formula)."""
    angle = max(sqrt(x * x + y * y + z * z), _TINY_ANGLE)
    a, half = sin(angle) / angle, sin(0.5 * angle) / angle
    b = 2.0 * half * half
    c = 1.0 - b * angle * angle
    bxy, bxz, byz = b * x * y, b * x * z, b * y * z
    ax, ay, az = a * x, a * y, a * z
    return (
        (c + b * x * x, bxy - az, bxz + ay),
        (bxy + az, c + b * y * y, byz - ax),
        (bxz - ay, byz + ax, c + b * z * z),
    )


def quaternion(rows: AnyRows) -> tuple[float, float, float, float]:
    """Unit quaternion (w, x, y, z) of a rotation, w >= 0.

    Computed from its largest component (Shepperd, "Quaternion from rotation matrix", J. Guidance
    and Control 1, 1978), so that no difference of nearly equal numbers is divided by.
    """
    (a, b, c), (d, e, f), (g, h, i) = rows
    trace = a + e + i
    if trace >= max(a, e, i):
        w, x, y, z = 1.0 + trace, h - f, c - g, d - b
    elif a >= max(e, i):
        w, x, y, z = h - f, 1.0 + a - e - i, b + d, c + g
    elif e >= i:
        w, x, y, z = c - g, b + d, 1.0 + e - a - i, f + h
    else:
        w, x, y, z = d - b, c + g, f + h, 1.0 + i - a - e
    size = sqrt(w * w + x * x + y * y + z * z)
    if w < 0.0:
        size = -size
    return w / size, x / size, y / size, z / size


def log(rows: AnyRows) -> Vector:
    """Rotation vector of a rotation, with an angle in [0, pi]; well conditioned up to pi."""
    w, x, y, z = quaternion(rows)
    sine = sqrt(x * x + y * y + z * z)
    scale = 2.0 * atan2(sine, w) / sine if sine > _SMALL_SINE else 2.0
    return scale * x, scale * y, scale * z


def product(first: AnyRows, second: AnyRows) -> Rows:
    """The matrix product."""
    (a, b, c), (d, e, f), (g, h, i) = first
    (j, k, m), (n, o, p), (q, r, s) = second
    return (
        (a * j + b * n + c * q, a * k + b * o + c * r, a * m + b * p + c * s),
        (d * j + e * n + f * q, d * k + e * o + f * r, d * m + e * p + f * s),
        (g * j + h * n + i * q, g * k + h * o + i * r, g * m + h * p + i * s),
    )


def angle_between(first: AnyRows, second: AnyRows) -> float:
    """Angle in [0, pi] between two rotations."""
    (a, b, c), (d, e, f), (g, h, i) = first
    (j, k, m), (n, o, p), (q, r, s) = second
    # The skew part and the trace of first^T second.
    x = (c * k + f * o + i * r) - (b * m + e * p + h * s)
    y = (a * m + d * p + g * s) - (c * j + f * n + i * q)
    z = (b * j + e * n + h * q) - (a * k + d * o + g * r)
    trace = a * j + d * n + g * q + b * k + e * o + h * r + c * m + f * p + i * s
    return atan2(0.5 * sqrt(x * x + y * y + z * z), 0.5 * (trace - 1.0))
