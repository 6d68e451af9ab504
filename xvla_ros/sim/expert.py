"""The scripted expert: what a good policy would do from any state of the simulated world.

A memoryless rule of what the cameras and the proprio show (commanded pose, where the gripper is,
how far its fingers are open, where the cube is), rolled out with simple kinematics into a chunk.
Because nothing is remembered, any state can be labelled for any task, and everything that the
rule depends on can be learned from pictures. All decisions are made continuous where they can be:
a policy that predicts the mean of its demonstrations must not stand between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, exp, hypot, pi

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.constants import FINGER_LOWER, FINGER_UPPER
from xvla_ros.geometry import Array, Pose, so3_exp, so3_log
from xvla_ros.sim.robot import PAD_OFFSET
from xvla_ros.sim.scene import CUBE_HALF
from xvla_ros.sim.tasks import HOVER_HEIGHT, WorldTruth

LINEAR_SPEED = 0.12
ANGULAR_SPEED = 1.0
SETTLE_S = 0.2
"""s: nearer to the goal than speed times this, the speed falls with the distance."""
FOLLOW_S = 0.1
"""s that the arm is behind its command."""

GRASP_HEIGHT = 0.0105
"""m of the ee frame above the cube's centre when the fingers close."""
CARRY_HEIGHT = 0.15
"""m of the ee frame above the table at which a grasped cube is held."""
FINGER_SPEED = 0.035
"""m/s of one finger, a little slower than it is: the lift must not come too early."""
FINGER_ON_CUBE = CUBE_HALF + PAD_OFFSET
_ON_CUBE_SLACK = 0.0015

_FUNNEL_SLOPE = 3.0
_FUNNEL_RADIUS = 0.006
_FUNNEL_TOP = 0.085
"""m above the grasp from which the gripper may move sideways freely."""
# Half axes of the ellipse in which the cube's centre may lie when the fingers close: along their
# motion the open fingers have 9.5 mm to spare, across it their pads are 15 mm wide.
_ZONE_ALONG = 0.008
_ZONE_ACROSS = 0.012
_ZONE_HEIGHT = 0.012
_ZONE_WIDENING = 0.008
"""m by which all three grow while the fingers close: a cube that they push stays in the zone."""
_MAX_YAW = pi / 3
_REACHABLE_LOW = np.array([0.12, -0.19, 0.015])
_REACHABLE_HIGH = np.array([0.42, 0.19, 0.27])
_DOWN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])


@dataclass(frozen=True, eq=False)
class Label:
    """A chunk of H steps: positions (H, 3), rotations (H, 3, 3), gripper (H,) 0 open, 1 closed."""

    positions: Array
    rotations: Array
    gripper: Array


@dataclass
class _Rollout:
    """The kinematic stand-in for the world; positions are plain arrays (3,)."""

    commanded: Array
    gripper_at: Array
    finger: float
    cube: Array
    finger_axis: Array
    """(2,) horizontal unit vector along which the fingers move."""
    closing: bool


def label(
    truth: WorldTruth,
    commanded: Pose,
    task: str,
    horizon: int = 30,
    step_dt: float = 1.0 / 6.0,
) -> Label:
    """The chunk that the expert wants executed from a state of the world, for either task.

    Args:
        truth: the world when the pictures were taken.
        commanded: pose commanded then; step k of the label is where the command should be
            (k + 1) * step_dt later.
        task: "reach" or "pick", whatever task the world itself is set to.
        horizon: number of steps.
        step_dt: seconds between two steps.

    Raises:
        ValueError: no such task.
    """
    if task not in ("reach", "pick"):
        raise ValueError(f"the expert knows 'reach' and 'pick', not '{task}'")
    cube = truth.cube
    goal_rotation = _grasp_rotation(cube.rotation, commanded.rotation)
    state = _Rollout(
        commanded.position.copy(),
        truth.ee.position.copy(),
        truth.finger,
        cube.position.copy(),
        _horizontal_unit(truth.ee.rotation[:2, 1]),
        # Fingers that are not open are on their way to where they were told to go.
        truth.finger < FINGER_UPPER - 0.003,
    )
    positions = np.empty((horizon, 3))
    gripper = np.zeros(horizon)
    for k in range(horizon):
        goal, close = _decide(state, task)
        _advance(state, goal, close, step_dt)
        positions[k] = state.commanded
        gripper[k] = float(close)
    rotations = _turn(commanded.rotation, goal_rotation, horizon, step_dt)
    return Label(positions, rotations, gripper)


def _decide(s: _Rollout, task: str) -> tuple[Array, bool]:
    """Where the command should go from here, and whether the gripper should be closed."""
    aside = max(_horizontal(s.commanded, s.cube), _horizontal(s.gripper_at, s.cube))
    funnel = min(max(_FUNNEL_SLOPE * (aside - _FUNNEL_RADIUS), 0.0), _FUNNEL_TOP)
    grasp_z = s.cube[2] + GRASP_HEIGHT
    if task == "reach":
        return np.array([s.cube[0], s.cube[1], s.cube[2] + max(HOVER_HEIGHT, funnel)]), False

    closed_part = _closed_part(s.finger)
    if _in_zone(s, closed_part):
        if s.finger < FINGER_ON_CUBE + _ON_CUBE_SLACK:
            return np.array([s.commanded[0], s.commanded[1], CARRY_HEIGHT]), True
        return np.array([s.cube[0], s.cube[1], grasp_z]), True
    # Fingers that are not open yet must not come down on the cube.
    clearance = max(funnel, 0.06 * closed_part)
    return np.array([s.cube[0], s.cube[1], grasp_z + clearance]), False


def _in_zone(s: _Rollout, closed_part: float) -> bool:
    """Whether the cube is between the fingers, so that they may close or stay closed."""
    if s.finger < FINGER_ON_CUBE - 0.005:
        return False
    widening = _ZONE_WIDENING * closed_part
    dx, dy = s.cube[0] - s.gripper_at[0], s.cube[1] - s.gripper_at[1]
    ux, uy = s.finger_axis
    along = (dx * ux + dy * uy) / (_ZONE_ALONG + widening)
    across = (dy * ux - dx * uy) / (_ZONE_ACROSS + widening)
    above = s.gripper_at[2] - s.cube[2] - GRASP_HEIGHT
    return hypot(along, across) < 1.0 and abs(above) < _ZONE_HEIGHT + widening


def _closed_part(finger: float) -> float:
    """0 with the fingers open, 1 when they have come as close as the cube lets them."""
    part = (FINGER_UPPER - 0.002 - finger) / (FINGER_UPPER - 0.002 - FINGER_ON_CUBE)
    return min(max(part, 0.0), 1.0)


def _advance(s: _Rollout, goal: Array, close: bool, dt: float) -> None:
    """Moves the stand-in on by one step, towards the goal."""
    s.commanded = _towards(s.commanded, np.clip(goal, _REACHABLE_LOW, _REACHABLE_HIGH), s, dt)
    held = s.closing and s.finger < FINGER_ON_CUBE + _ON_CUBE_SLACK and _in_zone(s, 1.0)
    before = s.gripper_at
    s.gripper_at = before + (1.0 - exp(-dt / FOLLOW_S)) * (s.commanded - before)
    if held:
        s.cube = s.cube + s.gripper_at - before
    # The fingers act on the gripper's command of the step before: it is due when this one ends.
    if s.closing:
        stop = FINGER_ON_CUBE if _in_zone(s, 1.0) else FINGER_LOWER
        s.finger = max(s.finger - FINGER_SPEED * dt, min(stop, s.finger))
    else:
        s.finger = min(s.finger + FINGER_SPEED * dt, FINGER_UPPER)
    s.closing = close


def _towards(start: Array, goal: Array, s: _Rollout, dt: float) -> Array:
    """One step at limited speed; sideways only as far as the height over the cube allows."""
    way = goal - start
    # Below the funnel the way leads up first. The factor is continuous: 1 at the funnel's wall,
    # 0 two centimetres below it.
    below = goal[2] - start[2]
    sideways = min(max(1.0 - (below - 0.005) / 0.02, 0.0), 1.0)
    way = way * np.array([sideways, sideways, 1.0])
    distance = float(np.linalg.norm(way))
    reach = min(LINEAR_SPEED * dt, distance * min(1.0, dt / SETTLE_S))
    return start + way * (reach / distance) if distance > 1e-9 else start


def _turn(start: Array, goal: Array, horizon: int, dt: float) -> NDArray[np.float64]:
    """Rotations (H, 3, 3) from start to goal at limited speed, slowing down at the end."""
    vector = so3_log(start.T @ goal)
    angle = float(np.linalg.norm(vector))
    out = np.empty((horizon, 3, 3))
    left = angle
    for k in range(horizon):
        left -= min(ANGULAR_SPEED * dt, left * min(1.0, dt / SETTLE_S))
        done = 1.0 - left / angle if angle > 1e-9 else 1.0
        out[k] = start @ so3_exp(done * vector)
    return out


def _grasp_rotation(cube: Array, commanded: Array) -> Array:
    """Gripper straight down, fingers along two faces of the cube: the nearest such turn.

    Nearest to the commanded rotation, so that a turn once begun is finished.
    """
    column = cube[:, int(np.argmin(np.abs(cube[2])))]
    yaw = atan2(column[1], column[0])
    # With the gripper down its own z axis is horizontal and tells the yaw.
    now = atan2(commanded[1, 2], commanded[0, 2])
    nearest = yaw - round((yaw - now) / (pi / 2)) * (pi / 2)
    if abs(nearest) > _MAX_YAW:
        nearest -= np.sign(nearest) * (pi / 2)
    turn = so3_exp(np.array([0.0, 0.0, nearest]))
    return turn @ _DOWN


def _horizontal_unit(vector: Array) -> Array:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 1e-6 else np.array([0.0, 1.0])


def _horizontal(a: Array, b: Array) -> float:
    return hypot(a[0] - b[0], a[1] - b[1])
