"""Ways in which a simulated motor dies, and arms that a simulated driver may pretend to run."""

from __future__ import annotations

import numpy as np

from xvla_ros.arm import constants as c

OVERLOAD, UNPLUGGED, FROZEN = "overload", "unplugged", "frozen"
FAILURES = (OVERLOAD, UNPLUGGED, FROZEN)
"""A motor shuts itself down; does not answer any more; or answers as ever and does nothing."""

LIMITS = {
    "wx250s": (c.JOINT_LOWER, c.JOINT_UPPER),
    # A larger arm of the same family with the same joint names.
    "vx300s": (
        tuple(np.radians([-180.0, -106.0, -101.0, -180.0, -107.0, -180.0])),
        tuple(np.radians([180.0, 72.0, 92.0, 180.0, 128.0, 180.0])),
    ),
}
