"""The scripted expert: its labels one by one, and its success when they are executed."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from xvla_ros.arm.constants import FINGER_UPPER
from xvla_ros.arm.gripper import finger_from_closed
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Plan
from xvla_ros.geometry import Pose, rotation_angle, so3_exp
from xvla_ros.sim.expert import ANGULAR_SPEED, LINEAR_SPEED, Label, label
from xvla_ros.sim.tasks import WorldTruth
from xvla_ros.sim.world import SimWorld

ARM = WidowX250s()
DOWN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
DT = 1.0 / 6.0
GRASP = np.array([0.0, 0.0, 0.0105])
ON_CUBE = 0.0275  # one finger, with 35 mm between the pads


def yawed(yaw: float) -> np.ndarray:
    return so3_exp([0.0, 0.0, yaw])


def truth_of(ee, cube, *, finger=FINGER_UPPER, cube_yaw=0.0, yaw=0.0) -> WorldTruth:
    return WorldTruth(
        0.0,
        0,
        "pick",
        {"red_cube": Pose(np.array(cube, dtype=float), yawed(cube_yaw))},
        Pose(np.array(ee, dtype=float), yawed(yaw) @ DOWN),
        finger,
        False,
    )


def chunk(truth: WorldTruth, task: str = "pick") -> Label:
    """Label of an arm at rest: the command is where the gripper is."""
    return label(truth, truth.ee, task)


CUBE = np.array([0.27, 0.05, 0.0175])
START = np.array([0.22, -0.04, 0.16])


def test_a_label_starts_at_the_commanded_pose_and_keeps_to_its_speeds():
    truth = truth_of(START, CUBE, cube_yaw=0.6)
    commanded = Pose(START + np.array([0.01, 0.02, -0.015]), so3_exp([0.1, -0.1, 0.3]) @ DOWN)
    for task in ("reach", "pick"):
        made = label(truth, commanded, task)
        assert made.positions.shape == (30, 3)
        assert made.rotations.shape == (30, 3, 3)
        path = np.vstack([commanded.position, made.positions])
        steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
        assert steps.max() <= LINEAR_SPEED * DT + 1e-9
        assert steps[0] == pytest.approx(LINEAR_SPEED * DT), "it sets off at once"
        turns = [commanded.rotation, *made.rotations]
        angles = [rotation_angle(a, b) for a, b in pairwise(turns)]
        assert max(angles) <= ANGULAR_SPEED * DT + 1e-9
        assert set(np.unique(made.gripper)) <= {0.0, 1.0}


def test_reach_ends_above_the_cube_aligned_and_open():
    made = chunk(truth_of(START, CUBE, cube_yaw=0.6), "reach")
    assert made.positions[-1] == pytest.approx(CUBE + np.array([0.0, 0.0, 0.0575]), abs=1e-3)
    assert rotation_angle(made.rotations[-1], yawed(0.6) @ DOWN) < 1e-2
    assert not made.gripper.any()


def test_pick_goes_down_closes_waits_and_lifts():
    made = chunk(truth_of(START, CUBE))
    first = int(np.argmax(made.gripper))
    assert made.gripper[:first].sum() == 0.0
    assert made.gripper[first:].all(), "once closed it stays closed"
    assert np.hypot(*(made.positions[first] - CUBE)[:2]) < 0.008
    assert abs(made.positions[first][2] - (CUBE + GRASP)[2]) < 0.012
    lift = first + int(np.argmax(made.positions[first:, 2] > (CUBE + GRASP)[2] + 0.015))
    assert 2 <= lift - first <= 5, "time for the fingers to close"
    assert made.positions[-1][2] == pytest.approx(0.15, abs=1e-3)
    assert made.positions[-1][:2] == pytest.approx(CUBE[:2], abs=2e-3)


def test_the_gripper_is_high_enough_while_it_is_not_above_the_cube():
    """The tips are 22 mm below the ee frame, the cube 35 mm high."""
    for start in (START, [0.33, 0.10, 0.05], [0.20, 0.05, 0.03]):
        made = chunk(truth_of(start, CUBE))
        opened = made.gripper == 0.0
        near = np.hypot(*(made.positions - CUBE)[:, :2].T)
        over = opened & (near < 0.04) & (near > 0.015)
        assert (made.positions[over, 2] > 0.035 + 0.0224 - 0.012).all()


def test_a_held_cube_is_lifted_at_once():
    made = chunk(truth_of(CUBE + GRASP, CUBE, finger=ON_CUBE))
    assert made.gripper.all()
    assert np.diff(made.positions[:5, 2]).min() > 0.015


def test_a_cube_between_open_fingers_is_grasped_without_further_motion():
    made = chunk(truth_of(CUBE + GRASP, CUBE))
    assert made.gripper.all()
    assert made.positions[:2] == pytest.approx(np.tile(CUBE + GRASP, (2, 1)), abs=1e-6)


def test_the_lift_waits_the_longer_the_further_the_fingers_still_have_to_go():
    def lift_step(finger: float) -> int:
        made = chunk(truth_of(CUBE + GRASP, CUBE, finger=finger))
        return int(np.argmax(made.positions[:, 2] > (CUBE + GRASP)[2] + 0.01))

    waits = [lift_step(f) for f in (0.0275, 0.0305, 0.0335, 0.037)]
    assert waits == sorted(waits)
    assert waits[0] == 0
    assert waits[-1] >= 2


def test_a_gripper_that_closed_on_nothing_opens_rises_and_tries_again():
    beside = CUBE + GRASP + [0.0, 0.03, 0.0]
    made = chunk(truth_of(beside, CUBE, finger=0.015))
    assert made.gripper[0] == 0.0
    assert made.positions[:4, 2].max() > beside[2] + 0.03
    assert made.gripper[-1] == 1.0
    assert made.positions[-1][2] > 0.06


def test_an_empty_closed_gripper_over_the_cube_opens_before_it_comes_down():
    above = CUBE + np.array([0.0, 0.0, 0.07])
    shut = chunk(truth_of(above, CUBE, finger=0.015))
    opened = chunk(truth_of(above, CUBE))
    assert shut.gripper[0] == 0.0
    assert shut.positions[2][2] > opened.positions[2][2] + 0.01
    assert shut.gripper[-1] == 1.0


def test_a_lifted_cube_that_is_held_stays_held_high():
    at = np.array([0.27, 0.05, 0.15])
    made = chunk(truth_of(at, at - GRASP, finger=ON_CUBE))
    assert made.gripper.all()
    assert made.positions == pytest.approx(np.tile(at, (30, 1)), abs=1e-6)


def test_the_turn_is_the_nearest_of_the_cubes_four_and_a_turn_begun_is_finished():
    near_45 = chunk(truth_of(START, CUBE, cube_yaw=np.radians(44.0))).rotations[-1]
    assert rotation_angle(near_45, yawed(np.radians(44.0)) @ DOWN) < 0.02
    quarter = chunk(truth_of(START, CUBE, cube_yaw=np.radians(44.0 - 90.0))).rotations[-1]
    assert rotation_angle(near_45, quarter) < 0.02, "the same cube to the eye"
    begun = chunk(truth_of(START, CUBE, cube_yaw=np.radians(44.0), yaw=np.radians(-10.0)))
    assert rotation_angle(begun.rotations[-1], yawed(np.radians(-46.0)) @ DOWN) < 0.02


def test_a_tipped_cube_is_grasped_by_its_faces_all_the_same():
    upright = truth_of(START, CUBE, cube_yaw=0.3)
    tipped = replace(
        upright, objects={"red_cube": Pose(CUBE, yawed(0.3) @ so3_exp([0.0, np.pi / 2, 0.0]))}
    )
    assert rotation_angle(chunk(upright).rotations[-1], chunk(tipped).rotations[-1]) < 1e-6


@pytest.mark.parametrize("task", ["reach", "pick"])
def test_a_hair_of_difference_in_what_is_seen_changes_the_label_by_little(task):
    """No threshold between two motions: steps may come one earlier, not elsewhere."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        cube = np.array([*rng.uniform([0.2, -0.12], [0.32, 0.12]), 0.0175])
        start = rng.uniform([0.18, -0.14, 0.03], [0.34, 0.14, 0.2])
        finger = rng.uniform(0.027, 0.037)
        truth = truth_of(start, cube, finger=finger, cube_yaw=rng.uniform(-0.7, 0.7))
        moved = truth_of(start, cube + 1e-4, finger=finger, cube_yaw=0.0)
        moved = replace(moved, objects={"red_cube": Pose(cube + 1e-4, truth.cube.rotation)})
        first, second = chunk(truth, task), chunk(moved, task)
        assert np.abs(first.positions - second.positions).max() < 1.1 * LINEAR_SPEED * DT
        assert np.abs(first.gripper - second.gripper).sum() <= 1


def test_the_label_depends_on_nothing_but_its_arguments():
    truth = truth_of(START, CUBE)
    first = chunk(truth)
    chunk(truth_of(CUBE + GRASP, CUBE, finger=ON_CUBE))
    again = chunk(replace(truth, task="reach", seed=9, time=7.0))
    assert np.array_equal(first.positions, again.positions)
    with pytest.raises(ValueError, match="not 'fly'"):
        chunk(truth, "fly")


def test_labels_stay_inside_the_reachable_box_whatever_the_cube_does():
    for cube in ([0.7, 0.6, 0.0175], [0.0, 0.0, -0.7], [0.25, 0.0, 1.0]):
        made = chunk(truth_of(START, cube))
        assert np.isfinite(made.positions).all()
        assert (made.positions > [0.1, -0.2, 0.0]).all()
        assert (made.positions < [0.45, 0.2, 0.3]).all()


class Executor:
    """Executes labels as chunks: one every half second, `latency` late, through IK at 50 Hz."""

    PERIOD, TICK = 0.5, 0.02

    def __init__(self, world: SimWorld, latency: float) -> None:
        self.world, self.latency = world, latency

    def run(self, task: str, seed: int, limit: float = 10.0) -> float | None:
        """Seconds until the task's test holds, or None."""
        world = self.world
        world.reset(seed, task)
        joints = world.commanded_joints()
        plan = Plan(0.0, DT, (ARM.fk(joints),), (0.0,))
        waiting: tuple[float, Plan] | None = None
        ticks_per_chunk = round(self.PERIOD / self.TICK)
        for tick in range(round(limit / self.TICK)):
            now = tick * self.TICK
            if tick % ticks_per_chunk == 0:
                truth = world.state()
                if truth.success:
                    return now
                # The first chunk counts from its arrival: nothing was running before.
                start = now if tick else now + self.latency
                waiting = (now + self.latency, self.plan(truth, plan.at(now), start))
            if waiting and now >= waiting[0] - 1e-9:
                plan, waiting = waiting[1], None
            pose, gripper = plan.at(now)
            found = ARM.ik(pose, joints)
            assert found is not None, f"out of reach: {pose.position}"
            joints = found
            world.command_arm(joints)
            world.command_gripper(finger_from_closed(gripper))
            world.step(self.TICK)
        return None

    @staticmethod
    def plan(truth: WorldTruth, commanded: tuple[Pose, float], start: float) -> Plan:
        pose, gripper = commanded
        made = label(truth, pose, truth.task)
        poses = (pose, *map(Pose, made.positions, made.rotations))
        return Plan(start, DT, poses, (gripper, *made.gripper))


@pytest.mark.parametrize("task", ["reach", "pick"])
def test_the_expert_succeeds_from_a_hundred_starts_through_lagging_servos(world, task):
    executor = Executor(world, latency=0.14)
    times = {seed: executor.run(task, seed) for seed in range(100)}
    assert [seed for seed, t in times.items() if t is None] == []


def test_the_expert_recovers_when_it_sees_the_cube_a_few_millimetres_aside(world, monkeypatch):
    rng = np.random.default_rng(1)
    executor = Executor(world, latency=0.14)

    def blurred(truth, commanded, start):
        aside = rng.normal(0.0, [0.005, 0.005, 0.002])
        cube = Pose(truth.cube.position + aside, truth.cube.rotation)
        finger = truth.finger + rng.normal(0.0, 0.001)
        seen = replace(truth, objects={"red_cube": cube}, finger=finger)
        return Executor.plan(seen, commanded, start)

    monkeypatch.setattr(executor, "plan", blurred)
    assert sum(executor.run("pick", seed, limit=15.0) is not None for seed in range(20)) >= 19
