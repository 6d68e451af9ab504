"""A world shared by a test module, and the arm put where a test wants it."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from xvla_ros.arm.constants import FINGER_UPPER
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.geometry import Array, Pose
from xvla_ros.sim.world import SimWorld

DOWN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
ARM = WidowX250s()


@pytest.fixture(scope="module")
def shared_world() -> Iterator[SimWorld]:
    """One for all tests of a module: making its OpenGL context takes a quarter of a second."""
    world = SimWorld(jitter=False)
    yield world
    world.close()


@pytest.fixture
def world(shared_world: SimWorld) -> SimWorld:
    """The same start state for every test."""
    shared_world.reset(0, "pick")
    return shared_world


@pytest.fixture
def joints_above() -> Callable[..., Array]:
    """Joints that hold the gripper, pointing down, at a position."""

    def find(world: SimWorld, x: float, y: float, z: float) -> Array:
        joints = ARM.ik(Pose(np.array([x, y, z]), DOWN), world.joints())
        assert joints is not None
        return joints

    return find


@pytest.fixture
def put_above(joints_above: Callable[..., Array]) -> Callable[..., Array]:
    """Puts the arm there at once."""

    def put(world: SimWorld, x: float, y: float, z: float, finger: float = FINGER_UPPER) -> Array:
        joints = joints_above(world, x, y, z)
        world.set_arm(joints, finger)
        return joints

    return put
