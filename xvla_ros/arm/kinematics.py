"""Closed-form kinematics of the WidowX 250S.

The axes of its last three joints meet in one point, so the position of that wrist centre is
a matter of the first three joints alone and the rotation beyond it of the last three (Pieper's
method; Siciliano et al., "Robotics: Modelling, Planning and Control", 2009, section 2.12).
Two waist angles, two elbows and two wrists make eight solutions. Everything is plain `math`
because six-element numpy arrays would cost ten times more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import acos, atan2, cos, hypot, isfinite, pi, sin, tau

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xvla_ros.arm import constants as c
from xvla_ros.geometry import Pose
from xvla_ros.scalars import AnyRows, Rows, Vector

Array = NDArray[np.float64]
Joints = tuple[float, ...]

_SHOULDER_Z = c.WAIST_HEIGHT + c.SHOULDER_HEIGHT
_UPPER = hypot(c.ELBOW_FORWARD, c.ELBOW_UP)
_UPPER_ELEVATION = atan2(c.ELBOW_UP, c.ELBOW_FORWARD)
_FOREARM = c.FOREARM_ROLL_FORWARD + c.WRIST_ANGLE_FORWARD
_HAND = c.WRIST_ROTATE_FORWARD + c.EE_FORWARD

# With forearm and gripper this close to one line, forearm_roll is read from the last digits of
# the pose. It is then kept, at the price of an error below one encoder step.
_WRIST_SINGULAR = 1e-3
# The same for the waist, when the wrist centre lies on its axis (metres).
_WAIST_SINGULAR = 1e-6
# What rounding may do to a joint at its limit (rad) and to the cosine at full reach.
_LIMIT_SLACK = 1e-7
_REACH_SLACK = 1e-9
_LOWEST = tuple(low - _LIMIT_SLACK for low in c.JOINT_LOWER)
_HIGHEST = tuple(high + _LIMIT_SLACK for high in c.JOINT_UPPER)


class WidowX250s:
    """Forward and inverse kinematics of `ee_gripper_link` in `base_link`.

    Attributes:
        lower: (6,) lowest joint angles, rad.
        upper: (6,) highest joint angles, rad.
        max_speed: (6,) highest joint speeds, rad/s.
    """

    joint_names = c.ARM_JOINTS

    def __init__(self) -> None:
        self.lower = _constant(c.JOINT_LOWER)
        self.upper = _constant(c.JOINT_UPPER)
        self.max_speed = _constant(c.JOINT_MAX_SPEED)

    def fk(self, joints: ArrayLike) -> Pose:
        """Pose of the gripper for joint angles (6,) in rad, limits not considered."""
        q1, q2, q3, q4, q5, q6 = np.asarray(joints, dtype=np.float64).tolist()
        c1, s1, c2, s2 = cos(q1), sin(q1), cos(q2), sin(q2)
        c23, s23 = cos(q2 + q3), sin(q2 + q3)
        c4, s4, c5, s5, c6, s6 = cos(q4), sin(q4), cos(q5), sin(q5), cos(q6), sin(q6)
        # Rx(q4) Ry(q5) Rx(q6), column by column, then Ry(q2 + q3) and Rz(q1).
        columns = (
            (c5, s4 * s5, -c4 * s5),
            (s5 * s6, c4 * c6 - s4 * c5 * s6, s4 * c6 + c4 * c5 * s6),
            (s5 * c6, -c4 * s6 - s4 * c5 * c6, c4 * c5 * c6 - s4 * s6),
        )
        turned = []
        for x, y, z in columns:
            forward = c23 * x + s23 * z
            turned.append((c1 * forward - s1 * y, s1 * forward + c1 * y, c23 * z - s23 * x))
        (ax, ay, az), (bx, by, bz), (dx, dy, dz) = turned
        reach = c.ELBOW_FORWARD * c2 + c.ELBOW_UP * s2 + _FOREARM * c23
        height = _SHOULDER_Z - c.ELBOW_FORWARD * s2 + c.ELBOW_UP * c2 - _FOREARM * s23
        return Pose(
            np.array([c1 * reach + _HAND * ax, s1 * reach + _HAND * ay, height + _HAND * az]),
            np.array([[ax, bx, dx], [ay, by, dy], [az, bz, dz]]),
        )

    def ik(self, pose: Pose, seed: ArrayLike) -> Array | None:
        """Joint angles (6,) of a pose that are nearest to `seed` (6,), or None.

        Where the wrist is singular (gripper in line with the forearm) `forearm_roll` stays at
        its seed and `wrist_rotate` takes the rest of the turn, so the wrist never flips there;
        the pose is then off by less than 1e-3 rad and 0.2 mm. Close to that place, an exact
        solution may still lie far from the seed: the caller limits the joint speed.

        Returns:
            None when no solution lies within the joint limits, or a number is not finite.
        """
        start = np.asarray(seed, dtype=np.float64).tolist()
        if not all(map(isfinite, start)):
            return None
        best: Joints | None = None
        least = float("inf")
        rows = pose.rotation.tolist()
        for arm in _arms(pose.position.tolist(), rows, start[0]):
            reached = _onto_limits(arm, 0)
            so_far = _squares(reached, start[:3])
            # The wrist is the costly part; no wrist makes an arm nearer.
            if so_far >= least:
                continue
            for wrist in _wrists_of(arm, rows, start):
                distance = so_far + _squares(wrist, start[3:])
                if distance < least:
                    best, least = (*reached, *wrist), distance
        return None if best is None else np.array(best)

    def ik_all(self, pose: Pose, seed: ArrayLike = c.HOME) -> Array:
        """All solutions (n, 6) within the joint limits, n from 0 to 8.

        `seed` fixes the angles that a singular pose leaves free.
        """
        start = np.asarray(seed, dtype=np.float64).tolist()
        rows = pose.rotation.tolist()
        return np.array(
            [
                (*_onto_limits(arm, 0), *wrist)
                for arm in _arms(pose.position.tolist(), rows, start[0])
                for wrist in _wrists_of(arm, rows, start)
            ]
        ).reshape(-1, 6)

    def within_limits(self, joints: ArrayLike, margin: float = 0.0) -> bool:
        """Whether all joint angles are finite and inside their limits by `margin` rad."""
        q = np.asarray(joints, dtype=np.float64)
        inside = (q >= self.lower + margin) & (q <= self.upper - margin)
        return bool(inside.all())


def _constant(values: Sequence[float]) -> Array:
    array = np.array(values)
    array.setflags(write=False)
    return array


def _arms(position: Sequence[float], rows: AnyRows, waist_seed: float) -> Iterator[Vector]:
    """Angles of the first three joints, within their limits, that bring the wrist to its place."""
    px, py, pz = position
    wrist_x = px - _HAND * rows[0][0]
    wrist_y = py - _HAND * rows[1][0]
    height = pz - _HAND * rows[2][0] - _SHOULDER_Z
    for q1, reach in _waists(wrist_x, wrist_y, waist_seed):
        for q2, q3 in _elbows(reach, height):
            if _inside((q1, q2, q3), 0):
                yield q1, q2, q3


def _wrists_of(arm: Vector, rows: AnyRows, seed: Sequence[float]) -> Iterator[Joints]:
    """Angles of the last three joints, within their limits, that give the hand its rotation."""
    for wrist in _wrists(_beyond_forearm(rows, arm[0], arm[1] + arm[2]), seed[3], seed[5]):
        if _inside(wrist, 3):
            yield _onto_limits(wrist, 3)


def _squares(first: Sequence[float], second: Sequence[float]) -> float:
    """Squared distance of three joints."""
    (a, b, c_), (d, e, f) = first, second
    return (a - d) * (a - d) + (b - e) * (b - e) + (c_ - f) * (c_ - f)


def _waists(x: float, y: float, seed: float) -> Iterator[tuple[float, float]]:
    """Waist angle and signed distance of the wrist centre from the waist's axis."""
    distance = hypot(x, y)
    waist = atan2(y, x) if distance > _WAIST_SINGULAR else seed
    yield waist, distance
    yield _wrap(waist + pi), -distance


def _elbows(reach: float, height: float) -> Iterator[tuple[float, float]]:
    """Shoulder and elbow angles of a planar arm with two links, by the law of cosines."""
    cosine = (reach * reach + height * height - _UPPER * _UPPER - _FOREARM * _FOREARM) / (
        2.0 * _UPPER * _FOREARM
    )
    # "not (x <= 1)" rather than "x > 1": a NaN must be caught too.
    if not abs(cosine) <= 1.0 + _REACH_SLACK:
        return
    bend = acos(max(-1.0, min(1.0, cosine)))
    elevation = atan2(height, reach)
    for turn in (bend, -bend):
        upper = elevation + atan2(_FOREARM * sin(turn), _UPPER + _FOREARM * cos(turn))
        yield _wrap(_UPPER_ELEVATION - upper), _wrap(turn - _UPPER_ELEVATION)


def _beyond_forearm(rows: AnyRows, waist: float, pitch: float) -> Rows:
    """Rows of Ry(pitch)^T Rz(waist)^T R: what the three wrist joints must do."""
    c1, s1, cp, sp = cos(waist), sin(waist), cos(pitch), sin(pitch)
    (a, b, d), (e, f, g), (h, i, j) = rows
    k, m, n = c1 * a + s1 * e, c1 * b + s1 * f, c1 * d + s1 * g
    return (
        (cp * k - sp * h, cp * m - sp * i, cp * n - sp * j),
        (c1 * e - s1 * a, c1 * f - s1 * b, c1 * g - s1 * d),
        (sp * k + cp * h, sp * m + cp * i, sp * n + cp * j),
    )


def _wrists(m: Rows, roll_seed: float, rotate_seed: float) -> Iterator[Joints]:
    """Angles (a, b, c) with Rx(a) Ry(b) Rx(c) equal to the matrix of rows `m`."""
    (m00, m01, m02), (m10, m11, m12), (m20, m21, m22) = m
    sine = hypot(m10, m20)
    if sine < _WRIST_SINGULAR and m00 > 0.0:
        # Only a + c is determined. What wrist_rotate cannot take at its limit, the roll does;
        # the other way round serves where that ends at the roll's limit too.
        change = _wrap(atan2(m21 - m12, m11 + m22) - roll_seed - rotate_seed)
        for turn in (change, change - tau if change > 0.0 else change + tau):
            rotate = max(c.JOINT_LOWER[5], min(c.JOINT_UPPER[5], rotate_seed + turn))
            roll = roll_seed + (rotate_seed + turn - rotate)
            yield roll, atan2(m10 * sin(roll) - m20 * cos(roll), m00), rotate
        return
    roll, angle, rotate = atan2(m10, -m20), atan2(sine, m00), atan2(m01, m02)
    yield roll, angle, rotate
    yield _wrap(roll + pi), -angle, _wrap(rotate + pi)


def _inside(angles: Sequence[float], first: int) -> bool:
    """Whether the angles of the joints from index `first` on respect their limits."""
    for index, angle in enumerate(angles, first):
        if not _LOWEST[index] <= angle <= _HIGHEST[index]:
            return False
    return True


def _onto_limits(angles: Joints, first: int) -> Joints:
    """Angles of the joints from `first` on, without what rounding has put beyond a limit."""
    lower, upper = c.JOINT_LOWER[first:], c.JOINT_UPPER[first:]
    return tuple(map(min, upper, map(max, lower, angles)))


def _wrap(angle: float) -> float:
    """The same direction in [-pi, pi)."""
    return (angle + pi) % tau - pi
