"""The joint trajectory controller and the robot behind it: values worked out by hand."""

import numpy as np
import pytest

from xvla_ros.arm.constants import ARM_JOINTS
from xvla_ros.sim.controller import TrajectoryController, TrajectoryRefused
from xvla_ros.sim.device import LONGEST_ADVANCE, SimulatedRobot
from xvla_ros.sim.world import SimWorld


@pytest.fixture
def controller() -> TrajectoryController:
    return TrajectoryController(("a", "b"), [0.0, 10.0])


def accept(controller, times, positions, velocities=None, names=("a", "b"), start=None, now=100.0):
    velocities = velocities if velocities is not None else [[] for _ in positions]
    controller.accept(
        names, times, positions, velocities, start=now if start is None else start, now=now
    )


def test_before_any_trajectory_the_start_is_held(controller):
    assert controller.sample(5.0) == pytest.approx([0.0, 10.0])


def test_points_without_velocities_are_joined_by_straight_lines_and_the_last_is_held(controller):
    accept(controller, [1.0, 3.0], [[2.0, 10.0], [6.0, 20.0]])
    assert controller.sample(100.5) == pytest.approx([1.0, 10.0])
    assert controller.sample(101.0) == pytest.approx([2.0, 10.0])
    assert controller.sample(102.0) == pytest.approx([4.0, 15.0])
    assert controller.sample(103.0) == pytest.approx([6.0, 20.0])
    assert controller.sample(500.0) == pytest.approx([6.0, 20.0])


def test_points_with_velocities_are_joined_by_cubics(controller):
    # From rest at 0 to 1 at rest in 2 s: 3 s^2 - 2 s^3; a quarter of the way is 0.15625.
    accept(controller, [2.0], [[1.0, 10.0]], [[0.0, 0.0]])
    assert controller.sample(100.5)[0] == pytest.approx(0.15625)
    assert controller.sample(101.0)[0] == pytest.approx(0.5)


def test_a_new_trajectory_goes_on_from_what_is_commanded_with_its_velocity(controller):
    accept(controller, [1.0], [[1.0, 10.0]], [[1.0, 0.0]])
    controller.sample(101.0 - 1e-9)
    accept(controller, [1.0], [[2.0, 10.0]], [[1.0, 0.0]], now=101.0 - 1e-9)
    # At one unit per second from 1 to 2, a cubic with velocity 1 at both ends is a straight line.
    for t in (101.1, 101.5, 101.9):
        assert controller.sample(t)[0] == pytest.approx(t - 100.0, abs=1e-6)


def test_a_replacement_in_mid_motion_does_not_jump(controller):
    accept(controller, [1.0], [[1.0, 20.0]])
    before = controller.sample(100.4)
    accept(controller, [0.5], [[-1.0, 0.0]], now=100.4)
    assert controller.sample(100.4) == pytest.approx(before)
    assert controller.sample(100.401) == pytest.approx(before, abs=0.05)


def test_columns_are_found_by_name_whatever_their_order(controller):
    accept(controller, [1.0], [[20.0, 2.0]], names=("b", "a"))
    assert controller.sample(101.0) == pytest.approx([2.0, 20.0])


def test_points_that_were_due_before_arrival_are_skipped(controller):
    accept(controller, [1.0, 2.0], [[50.0, 50.0], [2.0, 10.0]], start=98.5)
    # The first was due half a second ago: straight to the second, in the half second left.
    assert controller.sample(100.25) == pytest.approx([1.0, 10.0])
    assert controller.sample(100.5) == pytest.approx([2.0, 10.0])


def test_a_later_start_is_waited_for(controller):
    accept(controller, [1.0], [[2.0, 10.0]], start=101.0)
    assert controller.sample(101.0) == pytest.approx([1.0, 10.0])
    assert controller.sample(102.0) == pytest.approx([2.0, 10.0])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            {"times": [1.0], "positions": [[1.0, 2.0]], "names": ("a", "c")},
            "joints a, c instead of a, b",
        ),
        ({"times": [1.0], "positions": [[1.0]], "names": ("a",)}, "joints a instead of a, b"),
        ({"times": [], "positions": []}, "no points"),
        ({"times": [1.0], "positions": [[1.0]]}, "point 0 has 1 positions for 2 joints"),
        (
            {"times": [1.0, 2.0], "positions": [[1.0, 2.0], [1.0, np.nan]]},
            "point 1: positions of b is nan",
        ),
        (
            {"times": [1.0], "positions": [[1.0, 2.0]], "velocities": [[np.inf, 0.0]]},
            "point 0: velocities of a is inf",
        ),
        (
            {"times": [1.0, 2.0], "positions": [[1.0, 2.0]] * 2, "velocities": [[0.0, 0.0], [0.0]]},
            "point 1 has 1 velocities for 2 joints",
        ),
        ({"times": [1.0, 1.0], "positions": [[1.0, 2.0]] * 2}, "time_from_start must rise"),
        ({"times": [-1.0], "positions": [[1.0, 2.0]]}, "time_from_start must rise"),
        ({"times": [1.0], "positions": [[1.0, 2.0]], "start": 90.0}, "ends 9.000 s in the past"),
    ],
)
def test_a_wrong_trajectory_is_refused_with_its_reason_and_the_old_one_goes_on(
    controller, arguments, reason
):
    accept(controller, [1.0], [[4.0, 10.0]])
    with pytest.raises(TrajectoryRefused, match=reason):
        accept(controller, **arguments)
    assert controller.sample(100.5) == pytest.approx([2.0, 10.0])


def test_a_stall_is_not_made_up_for_in_a_burst():
    robot = SimulatedRobot(SimWorld(jitter=False))
    assert robot.advance(10.0, 0.02) == pytest.approx(0.02)
    assert robot.advance(13.0, 3.0) == pytest.approx(LONGEST_ADVANCE)
    assert robot.lost == pytest.approx(3.0 - LONGEST_ADVANCE)
    assert robot.advance(12.0, -1.0) == 0.0


def test_the_arm_follows_a_trajectory_with_the_lag_of_its_servos_and_a_reset_ends_it():
    robot = SimulatedRobot(SimWorld(jitter=False))
    start = robot.world.joints()
    goal = start + np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.0])
    robot.arm.accept(ARM_JOINTS, [1.0], [goal.tolist()], [[]], start=50.0, now=50.0)
    for k in range(1, 51):
        robot.advance(50.0 + 0.01 * k, 0.01)
    # Half of the way is commanded; a tenth of a second is 0.03 rad.
    assert robot.world.joints()[0] - start[0] == pytest.approx(0.15 - 0.03, abs=0.008)
    robot.reset(0)
    for k in range(51, 200):
        robot.advance(50.0 + 0.01 * k, 0.01)
    assert robot.world.joints() == pytest.approx(start, abs=1e-3)
