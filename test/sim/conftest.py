"""One world for a whole test module: making its OpenGL context takes a quarter of a second."""

from collections.abc import Iterator

import pytest

from xvla_ros.sim.world import SimWorld


@pytest.fixture(scope="module")
def shared_world() -> Iterator[SimWorld]:
    world = SimWorld(jitter=False)
    yield world
    world.close()


@pytest.fixture
def world(shared_world: SimWorld) -> SimWorld:
    """The same start state for every test."""
    shared_world.reset(0, "pick")
    return shared_world
