"""Tasks in which the cube moves by itself."""

import numpy as np
import pytest

from xvla_ros.sim import motion, tasks
from xvla_ros.sim.world import SimWorld

REGION = (tasks.CUBE_X, tasks.CUBE_Y)
START = np.array([0.25, -0.05])


def drifting(seed: int, speed: float = 0.02) -> motion.Course:
    return motion.drifting(*REGION, speed)(START, np.random.default_rng(seed))


def test_a_drifting_cube_keeps_its_speed_and_its_region():
    course = drifting(1)
    times = np.arange(0.0, 60.0, 0.01)
    places = np.array([course(t)[0] for t in times])
    assert places[0] == pytest.approx(START)
    speeds = np.linalg.norm(np.diff(places, axis=0), axis=1) / 0.01
    # Only the step in which it is thrown back is shorter.
    assert np.median(speeds) == pytest.approx(0.02, rel=1e-6)
    assert speeds.max() <= 0.02 + 1e-9
    for axis, (low, high) in enumerate(REGION):
        assert low - 1e-9 <= places[:, axis].min()
        assert places[:, axis].max() <= high + 1e-9
    assert np.ptp(places, axis=0).max() > 0.1


def test_the_velocity_of_a_course_is_that_of_its_places():
    course = drifting(3)
    for time in (0.5, 7.3, 31.0):
        (before, velocity), (after, _) = course(time), course(time + 1e-6)
        assert (after - before) / 1e-6 == pytest.approx(velocity, abs=1e-6)


def test_headings_are_drawn_from_the_seed():
    assert drifting(1)(2.0)[0] == pytest.approx(drifting(1)(2.0)[0])
    assert np.linalg.norm(drifting(1)(2.0)[0] - drifting(2)(2.0)[0]) > 1e-3


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_jumping_cube_jumps_once_towards_the_middle(side):
    start = np.array([0.25, side * 0.1])
    course = motion.jumping((5.0, 5.5))(start, np.random.default_rng(4))
    places = np.array([course(t)[0] for t in np.arange(0.0, 10.0, 0.01)])
    moved = np.flatnonzero(np.linalg.norm(np.diff(places, axis=0), axis=1))
    assert len(moved) == 1
    assert 4.98 <= 0.01 * moved[0] <= 5.5
    assert places[-1] == pytest.approx([0.25, side * 0.02])


def test_a_seed_starts_alike_whether_the_cube_moves_or_not():
    world = SimWorld("reach", 7)
    still = (world.joints(), world.state().cube.position)
    world.reset(7, "reach_moving")
    assert world.joints() == pytest.approx(still[0], abs=1e-12)
    assert world.state().cube.position == pytest.approx(still[1], abs=1e-12)


def test_the_cube_moves_over_the_table_and_stays_on_it():
    world = SimWorld("reach_moving", 2)
    start = world.state().cube.position
    places = [start]
    for _ in range(20):
        world.step(0.1)
        places.append(world.state().cube.position)
    steps = np.diff(places, axis=0)
    assert np.median(np.linalg.norm(steps[:, :2], axis=1)) == pytest.approx(0.002, abs=1e-4)
    assert np.abs(np.array(places)[:, 2] - start[2]).max() < 1e-3
    world.reset(2, "reach")
    world.step(1.0)
    assert world.state().cube.position == pytest.approx(start, abs=1e-3), "it lies still again"
