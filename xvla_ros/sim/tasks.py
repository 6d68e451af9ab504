"""The tasks: what is asked for, where things start, when it has been done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xvla_ros.arm.constants import FINGER_UPPER
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Array, Pose, so3_exp
from xvla_ros.sim.motion import Motion, drifting, jumping
from xvla_ros.sim.robot import PAD_OFFSET
from xvla_ros.sim.scene import CUBE, CUBE_HALF

HOVER_HEIGHT = 0.0575
"""m of the ee frame above the cube's centre that "reach" asks for: finger tips 18 mm clear."""
REACH_TOLERANCE = 0.02
LIFT_HEIGHT = 0.06
"""m that "pick" asks the cube to be above where it lies on the table."""

CUBE_X = (0.19, 0.33)
CUBE_Y = (-0.13, 0.13)
CUBE_YAW = np.pi / 4
JUMP_S = (5.0, 5.5)
"""Seconds between which the cube of "reach_jump" jumps aside."""
# Where an episode starts: ee frame above the middle of the table, pointing down.
HOME = np.array([0.24, 0.0, 0.16])
HOME_SPREAD = np.array([0.03, 0.05, 0.03])
HOME_TURN = np.array([0.06, 0.06, 0.15])
"""rad about base x, y, z."""
_DOWN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
_ARM = WidowX250s()
_HOME_JOINTS = np.array([0.0, -0.218, 0.407, 0.0, 1.382, 0.0])


@dataclass(frozen=True)
class WorldTruth:
    """What is true in the simulated world at one instant; poses in the robot's base frame."""

    time: float
    seed: int
    task: str
    objects: dict[str, Pose]
    ee: Pose
    finger: float
    """Position of the left finger joint, m: 0.037 open, 0.015 closed."""
    success: bool
    """The task's test has held for its time and still holds."""

    @property
    def cube(self) -> Pose:
        """Pose of the red cube."""
        return self.objects[CUBE]

    @property
    def gripper_gap(self) -> float:
        """Metres between the finger pads."""
        return 2.0 * (self.finger - PAD_OFFSET)


@dataclass(frozen=True)
class Task:
    """A task with the test of its success, which must hold for `hold_s` seconds."""

    name: str
    instruction: str
    test: Callable[[WorldTruth], bool]
    hold_s: float
    skill: str
    """What the expert does for it: "reach" or "pick"."""
    motion: Motion | None = None
    """How the red cube moves by itself; None where it lies still."""


@dataclass(frozen=True, eq=False)
class StartState:
    """Where an episode starts: joints of the arm (6,), cubes as rows of x, y, yaw."""

    joints: Array
    finger: float
    cubes: Array


def _reached(truth: WorldTruth) -> bool:
    goal = truth.cube.position + np.array([0.0, 0.0, HOVER_HEIGHT])
    return bool(np.linalg.norm(truth.ee.position - goal) < REACH_TOLERANCE)


def _lifted(truth: WorldTruth) -> bool:
    """The cube is up, and where the fingers are: not thrown."""
    held = np.linalg.norm(truth.cube.position - truth.ee.position) < 0.03
    return bool(held and truth.cube.position[2] > CUBE_HALF + LIFT_HEIGHT)


def _reached_again(truth: WorldTruth) -> bool:
    return truth.time > JUMP_S[1] and _reached(truth)


_REACH, _PICK = "reach the red cube", "pick up the red cube"
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("reach", _REACH, _reached, 0.5, "reach"),
        Task("pick", _PICK, _lifted, 0.5, "pick"),
        Task("reach_moving", _REACH, _reached, 0.5, "reach", drifting(CUBE_X, CUBE_Y)),
        Task("reach_jump", _REACH, _reached_again, 0.5, "reach", jumping(JUMP_S)),
    )
}


def task_named(name: str) -> Task:
    """The task of that name.

    Raises:
        ValueError: there is none; the message lists those that exist.
    """
    if name not in TASKS:
        raise ValueError(f"no task '{name}'; known: {', '.join(TASKS)}")
    return TASKS[name]


def draw_start(rng: np.random.Generator, cubes: int = 1) -> StartState:
    """A random start: cubes at least 7 cm apart, the arm near home, the gripper open."""
    low = np.array([CUBE_X[0], CUBE_Y[0], -CUBE_YAW])
    high = np.array([CUBE_X[1], CUBE_Y[1], CUBE_YAW])
    turn = so3_exp(rng.uniform(-HOME_TURN, HOME_TURN))
    home = Pose(HOME + rng.uniform(-HOME_SPREAD, HOME_SPREAD), turn @ _DOWN)
    joints = _ARM.ik(home, _HOME_JOINTS)
    if joints is None:
        raise RuntimeError(f"the arm cannot reach its start pose at {home.position.tolist()}")
    placed = [rng.uniform(low, high)]
    while len(placed) < cubes:
        candidate = rng.uniform(low, high)
        if all(np.hypot(*(candidate - other)[:2]) > 0.07 for other in placed):
            placed.append(candidate)
    return StartState(joints, FINGER_UPPER, np.array(placed))
