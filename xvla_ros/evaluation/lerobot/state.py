"""BridgeData's state vector as joints of the arm.

[x, y, z, roll, pitch, yaw, (padding,) gripper]: position of `ee_gripper_link` in `base_link` in
metres; extrinsic xyz angles in rad of R_state, where R_ee = R_state D (rail-berkeley/
bridge_data_robot, `transform2state`); gripper 1 = open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from transforms3d.euler import euler2mat

from xvla_ros.arm.constants import ARM_JOINTS, LEFT_FINGER, READY
from xvla_ros.arm.gripper import finger_from_bridge
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.evaluation.bag.files import BagError
from xvla_ros.geometry import Pose
from xvla_ros.model.domain import BRIDGE

STATE = "observation.state"
NAMES = (*ARM_JOINTS, LEFT_FINGER)
_WIDTHS = (7, 8)
_POSE_NAMES = ("x", "y", "z", "roll", "pitch", "yaw")
_LAYOUT = "x, y, z, roll, pitch, yaw, (pad,) gripper"


def check_feature(features: Mapping[str, Mapping[str, Any]]) -> str:
    """What is to be said of the state's description; empty = nothing.

    Raises:
        BagError: it is no state of BridgeData.
    """
    feature = features.get(STATE)
    if feature is None:
        raise BagError(f"no {STATE}; the dataset has {', '.join(features)}")
    shape = list(feature.get("shape") or ())
    if len(shape) != 1 or shape[0] not in _WIDTHS:
        raise BagError(f"{STATE} has the shape {shape}, expected 7 or 8 numbers: {_LAYOUT}")
    found = _names(feature.get("names"))
    if len(found) != shape[0]:
        return f"{STATE} has no names: taken as {_LAYOUT} in BridgeData's frame"
    if tuple(found[:6]) != _POSE_NAMES or found[-1] != "gripper":
        raise BagError(f"{STATE} is {', '.join(found)}, expected {_LAYOUT}")
    return ""


def _names(names: Any) -> list[str]:
    """Names of the numbers; LeRobot has them as a list or by a kind of axis."""
    if isinstance(names, dict):
        names = next(iter(names.values()), ())
    return [str(name).lower() for name in names] if isinstance(names, list) else []


def pose_of(state: Sequence[float] | NDArray[np.float64]) -> Pose:
    """Pose of `ee_gripper_link` in `base_link` of a state."""
    rotation = euler2mat(*(float(angle) for angle in state[3:6]), axes="sxyz")
    return Pose(np.asarray(state[:3], np.float64), rotation @ np.asarray(BRIDGE.ee_from_state))


class JointSolver:
    """Joints of states, one after another, each near the one before."""

    def __init__(self) -> None:
        self._arm = WidowX250s()
        self._joints = np.asarray(READY, np.float64)

    def solve(self, state: ArrayLike) -> list[float] | None:
        """Positions in the order of `NAMES` (rad, m); None where the arm cannot be so."""
        values = np.asarray(state, np.float64)
        if not np.isfinite(values[[*range(6), -1]]).all():
            return None
        joints = self._arm.ik(pose_of(values), self._joints)
        if joints is None:
            return None
        self._joints = joints
        return [*joints.tolist(), finger_from_bridge(float(values[-1]))]
