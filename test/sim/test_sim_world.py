"""Start states, time, repeatability and ground truth of the world."""

import numpy as np
import pytest

from xvla_ros.geometry import Pose
from xvla_ros.sim import tasks
from xvla_ros.sim.world import SimWorld


def run(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """State after the same commands."""
    world = SimWorld("pick", seed)
    start = world.joints()
    for k in range(40):
        world.command_arm(start + 0.1 * np.sin(0.2 * k))
        world.command_gripper(0.015 if k % 20 > 10 else 0.037)
        world.step(0.05)
    return world.joints(), world.state().cube.position


def test_the_same_seed_and_commands_give_the_same_motion_in_another_world():
    # To a tolerance: another version of MuJoCo may round otherwise.
    for first, second in zip(run(3), run(3), strict=True):
        assert first == pytest.approx(second, abs=1e-9)


def test_a_reset_forgets_what_happened_before():
    world = SimWorld("pick", 5)
    fresh = (world.joints(), world.state().cube.position)
    world.command_arm(np.zeros(6))
    world.command_gripper(0.015)
    world.step(1.0)
    world.reset(5)
    assert world.joints() == pytest.approx(fresh[0], abs=1e-12)
    assert world.state().cube.position == pytest.approx(fresh[1], abs=1e-12)
    assert world.time == 0.0
    world.step(0.5)
    assert world.joints() == pytest.approx(fresh[0], abs=1e-3)


def test_start_states_fill_the_published_ranges_and_no_more():
    world = SimWorld()
    cubes, yaws, grippers = [], [], []
    for seed in range(300):
        world.reset(seed)
        truth = world.state()
        cubes.append(truth.cube.position)
        yaws.append(np.arctan2(truth.cube.rotation[1, 0], truth.cube.rotation[0, 0]))
        grippers.append(truth.ee)
    low, high = np.min(cubes, axis=0), np.max(cubes, axis=0)
    assert low[0] >= 0.19
    assert high[0] <= 0.33
    assert abs(low[1]) <= 0.13
    assert high[1] <= 0.13
    assert high[0] - low[0] > 0.13
    assert high[1] - low[1] > 0.24
    assert np.abs(yaws).max() <= np.pi / 4 + 1e-9
    assert np.abs(yaws).max() > 0.7
    assert np.std([pose.position for pose in grippers], axis=0).min() > 0.01
    assert all(pose.rotation[2, 0] < -0.98 for pose in grippers), "the gripper points down"


def test_the_reset_says_what_is_asked_for_and_refuses_an_unknown_task():
    world = SimWorld()
    assert world.reset(1, "reach") == "reach the red cube"
    assert world.reset(2) == "reach the red cube"
    assert world.reset(2, "pick") == "pick up the red cube"
    with pytest.raises(ValueError, match=r"no task 'fly'; known: reach, pick"):
        world.reset(3, "fly")
    assert world.state().seed == 2


def test_time_goes_on_in_whole_steps_and_never_back(world):
    world.step_to(0.101)
    assert world.time == pytest.approx(0.100, abs=0.0011)
    world.step_to(0.05)
    assert world.time == pytest.approx(0.100, abs=0.0011)
    for _ in range(1000):
        world.step(0.01)
    assert world.time == pytest.approx(10.1, abs=0.003)


def test_an_untouched_cube_lies_still(world):
    before = world.state().cube
    world.step(3.0)
    metres, radians = before.distance(world.state().cube)
    assert metres < 5e-4
    assert radians < 1e-3


def test_the_distractor_lies_apart_from_the_cube():
    world = SimWorld(distractor=True)
    for seed in range(50):
        world.reset(seed)
        objects = world.state().objects
        apart = objects["red_cube"].position - objects["blue_cube"].position
        assert np.linalg.norm(apart) > 0.07


def test_the_commanded_pose_is_where_the_arm_comes_to_rest(world):
    world.command_arm(world.joints() + np.array([0.2, 0.1, -0.1, 0.1, 0.1, -0.3]))
    promised = world.commanded_pose()
    assert promised.distance(world.state().ee)[0] > 0.02
    world.step(2.0)
    metres, radians = promised.distance(world.state().ee)
    assert metres < 2e-4
    assert radians < 1e-3


def lift_cube(world: SimWorld, height: float) -> None:
    """Holds the cube at a height by force, between the fingers or away from them."""
    world.data.joint("red_cube").qpos[:3] = world.state().ee.position - [0.0, 0.0, 0.0105]
    world.data.joint("red_cube").qpos[2] = height
    world.data.joint("red_cube").qvel[:] = 0.0


def test_pick_succeeds_only_after_the_cube_was_held_high_for_half_a_second(world):
    tip = world.state().ee.position[2] - 0.0105
    for _ in range(24):
        lift_cube(world, tip)
        world.step(0.02)
        assert not world.state().success
    for _ in range(3):
        lift_cube(world, tip)
        world.step(0.02)
    assert world.state().success
    world.place("red_cube", 0.25, 0.0, 0.0)
    world.step(0.02)
    assert not world.state().success, "dropped again"


@pytest.mark.parametrize(
    ("cube", "ee", "done"),
    [
        ((0.25, 0.0, 0.0180), (0.25, 0.0, 0.0290), False),  # on the table
        ((0.25, 0.0, 0.0770), (0.25, 0.0, 0.0880), False),  # lifted by 59.5 mm
        ((0.25, 0.0, 0.0780), (0.25, 0.0, 0.0890), True),  # lifted by 60.5 mm
        ((0.25, 0.0, 0.2000), (0.30, 0.0, 0.2000), False),  # in the air, but not in the gripper
    ],
)
def test_lifted_means_six_centimetres_up_and_between_the_fingers(world, cube, ee, done):
    assert tasks.TASKS["pick"].test(truth(world, cube, ee)) is done


@pytest.mark.parametrize(
    ("offset", "done"),
    [
        ((0.0, 0.0, 0.0575), True),
        ((0.019, 0.0, 0.0575), True),
        ((0.021, 0.0, 0.0575), False),
        ((0.0, 0.0, 0.0105), False),
        ((0.0, -0.012, 0.0700), True),
        ((0.0, -0.018, 0.0700), False),
    ],
)
def test_reached_means_within_two_centimetres_of_the_point_above_the_cube(world, offset, done):
    cube = (0.25, 0.05, 0.0175)
    ee = tuple(np.add(cube, offset))
    assert tasks.TASKS["reach"].test(truth(world, cube, ee)) is done


def truth(world, cube, ee) -> tasks.WorldTruth:
    return tasks.WorldTruth(
        0.0,
        0,
        "pick",
        {"red_cube": Pose(np.array(cube), np.eye(3))},
        Pose(np.array(ee), np.eye(3)),
        0.0275,
        False,
    )
