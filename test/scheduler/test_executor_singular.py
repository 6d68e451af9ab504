"""Paths through and along the wrist's singularity, and to the end of the arm's reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import ChunkRefused
from xvla_ros.scheduler.limits import IK, JOINT_LIMIT

ARM = WidowX250s()
PERIOD = 0.02
LOW, HIGH = np.array([0.10, -0.20, -0.01]), np.array([0.45, 0.25, 0.30])
seeds = st.integers(0, 2**32 - 1)


def singular_joints(rng: np.random.Generator, bend: float) -> np.ndarray:
    """Joints inside the workspace with the gripper within `bend` rad of the forearm's line."""
    while True:
        low, high = ARM.lower + 0.3, ARM.upper - 0.3
        joints = rng.uniform(low, high)
        joints[4] = rng.uniform(-bend, bend)
        position = ARM.fk(joints).position
        if ((position > LOW + 0.03) & (position < HIGH - 0.03)).all():
            return joints


def commands_of(rig, kit, rng, chunks, speed=0.12, turn=0.7):
    """Commands under chunks in random directions, one every half second."""
    rig.enable()
    for _ in range(chunks):
        velocity = rng.normal(size=3)
        angular = rng.normal(size=3)
        try:
            rig.send(
                kit,
                speed * velocity / np.linalg.norm(velocity),
                angular=turn * angular / np.linalg.norm(angular),
            )
        except ChunkRefused:
            # The arm is still being held up by the one before.
            rig.run(0.2)
        rig.run(0.5)
    return [command for command in rig.commands if command.joints is not None]


@given(seeds, st.sampled_from([1e-6, 1e-3, 0.02, 0.15]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_no_joint_flips_on_any_path_near_the_straight_wrist(kit, seed, bend):
    rng = np.random.default_rng(seed)
    start = singular_joints(rng, bend)
    commands = commands_of(kit.Rig(joints=start), kit, rng, 5)
    joints = np.array([command.joints for command in commands])
    # No joint goes faster than it may; a flip of the wrist would be half a turn.
    assert np.abs(np.diff(joints, axis=0)).max() <= 2.0 * PERIOD + 1e-9
    assert (joints >= ARM.lower + 0.05 - 1e-6).all()
    assert (joints <= ARM.upper - 0.05 + 1e-6).all()
    positions = np.array([command.pose.position for command in commands])
    assert (positions >= LOW - 1e-9).all()
    assert (positions <= HIGH + 1e-9).all()
    for command in commands:
        # The joints are where the pose is: 1e-3 rad and 0.2 mm are given up at the singularity.
        metres, radians = ARM.fk(command.joints).distance(command.pose)
        assert metres < 3e-4
        assert radians < 2e-3


@given(seeds)
@settings(max_examples=6, deadline=None, derandomize=True)
def test_the_arm_rests_where_its_reach_ends_says_why_and_comes_back(kit, seed):
    rng = np.random.default_rng(seed)
    rig = kit.Rig(joints=singular_joints(rng, 1.2))
    rig.enable()
    # Turning the hand backwards on the spot ends at a joint's limit or beyond every solution.
    axis = rng.choice([-1.0, 1.0])
    blocked = set()
    for _ in range(12):
        try:
            rig.send(kit, angular=(0.0, 1.0 * axis, 0.0))
        except ChunkRefused:
            rig.run(0.2)
        for command in rig.run(0.5):
            blocked |= {IK, JOINT_LIMIT} & set(command.limits)
        if blocked:
            break
    assert blocked
    rig.run(1.0)
    still = rig.run(0.3)
    assert np.ptp([command.joints for command in still], axis=0).max() < 1e-9
    assert "the chunk leads beyond a limit" in still[-1].message
    before = rig.last.pose
    rig.send(kit, angular=(0.0, -0.5 * axis, 0.0), sequence=10_000)
    rig.run(1.5)
    assert before.distance(rig.last.pose)[1] > 0.1


@pytest.mark.parametrize("away", [(0.7, 0.0, 0.2), (0.0, 0.0, 0.9), (-0.2, 0.0, 0.02)])
def test_a_pose_out_of_reach_has_no_solution_from_any_seed(away):
    rng = np.random.default_rng(0)
    pose = ARM.fk(np.zeros(6))
    target = type(pose)(np.array(away), pose.rotation)
    for _ in range(50):
        assert ARM.ik(target, rng.uniform(ARM.lower, ARM.upper)) is None
