"""The three numbers that describe the WidowX gripper, and the one that BridgeData records.

A finger's position is half the gap between the finger carriages, in metres; the closed fraction
is 0 with the gripper open and 1 with it closed; the motor's angle is in radians. A crank of
radius h turns a rod of length a that moves the finger (Interbotix/interbotix_xs_driver,
`convert_angular_position_to_linear` and its inverse).
"""

from __future__ import annotations

from math import asin, cos, isfinite, sin, sqrt

from xvla_ros.arm import constants as c

_TRAVEL = c.FINGER_UPPER - c.FINGER_LOWER
_BRIDGE_TRAVEL = c.BRIDGE_FINGER_OPEN - c.BRIDGE_FINGER_CLOSED


def finger_from_closed(closed: float) -> float:
    """Finger position in metres for a closed fraction, kept within the finger's range.

    Raises:
        ValueError: the fraction is not finite.
    """
    fraction = _finite("closed fraction", closed)
    return c.FINGER_UPPER - min(1.0, max(0.0, fraction)) * _TRAVEL


def closed_from_finger(finger: float) -> float:
    """Closed fraction in [0, 1] of a finger position in metres.

    Raises:
        ValueError: the position is not finite.
    """
    fraction = (c.FINGER_UPPER - _finite("finger position", finger)) / _TRAVEL
    return min(1.0, max(0.0, fraction))


def finger_from_motor(angle: float) -> float:
    """Finger position in metres at a motor angle in radians.

    Raises:
        ValueError: the angle is not finite.
    """
    _finite("gripper motor angle", angle)
    across = c.GRIPPER_HORN * cos(angle)
    return c.GRIPPER_HORN * sin(angle) + sqrt(c.GRIPPER_ROD**2 - across**2)


def motor_from_finger(finger: float) -> float:
    """Motor angle in [-pi/2, pi/2] at a finger position in metres.

    Raises:
        ValueError: the crank cannot take the finger there, or the position is not finite.
    """
    least, most = c.GRIPPER_ROD - c.GRIPPER_HORN, c.GRIPPER_ROD + c.GRIPPER_HORN
    if not least - 1e-9 <= finger <= most + 1e-9:
        raise ValueError(f"finger position {finger} m is outside {least:.3f} to {most:.3f} m")
    sine = (finger**2 + c.GRIPPER_HORN**2 - c.GRIPPER_ROD**2) / (2.0 * finger * c.GRIPPER_HORN)
    return asin(min(1.0, max(-1.0, sine)))


def bridge_from_finger(finger: float) -> float:
    """BridgeData's gripper number (1 = open, may slightly exceed it) of a finger position."""
    return (_finite("finger position", finger) - c.BRIDGE_FINGER_CLOSED) / _BRIDGE_TRAVEL


def finger_from_bridge(value: float) -> float:
    """Finger position in metres of BridgeData's gripper number, kept within the range."""
    finger = c.BRIDGE_FINGER_CLOSED + _finite("gripper number", value) * _BRIDGE_TRAVEL
    return min(c.FINGER_UPPER, max(c.FINGER_LOWER, finger))


def _finite(what: str, value: float) -> float:
    if not isfinite(value):
        raise ValueError(f"{what} is {value}")
    return float(value)
