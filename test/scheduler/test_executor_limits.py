"""Chunks in joint commands: followed as far as speed, workspace and joints allow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import ChunkRefused
from xvla_ros.geometry import Pose
from xvla_ros.scheduler.blending import Box
from xvla_ros.scheduler.params import ExecutorParams, LimitParams, SchedulerParams

ARM = WidowX250s()
READY = np.array(constants.READY)
SLEEP = np.array(constants.SLEEP)
PERIOD = 0.02


def test_a_chunk_is_followed_by_the_joints(rig, kit):
    rig.enable()
    rig.tick()
    start = rig.scheduler.pose
    rig.send(kit, (0.05, 0.02, 0.0))
    commands = rig.run(1.5)
    for c in commands:
        metres, radians = ARM.fk(c.joints).distance(c.pose)
        assert metres < 1e-6
        assert radians < 1e-5
    moved = rig.last.pose.position - start.position
    np.testing.assert_allclose(moved / moved[0], [1.0, 0.4, 0.0], atol=1e-6)
    assert rig.last.limits == ()
    assert rig.executor.limits == {}


@pytest.mark.parametrize(
    ("velocity", "angular", "name"),
    [((0.4, 0.0, 0.0), (0, 0, 0), "linear_speed"), ((0, 0, 0), (2.0, 0, 0), "angular_speed")],
)
def test_a_speed_limit_slows_the_plan_and_keeps_the_path(rig, kit, velocity, angular, name):
    rig.enable()
    rig.tick()
    start = rig.scheduler.pose
    chunk = rig.send(kit, velocity, angular=angular)
    commands = rig.run(1.0)
    pairs = list(pairwise(commands))
    steps = np.array([a.pose.distance(b.pose) for a, b in pairs]) / PERIOD
    assert steps[:, 0].max() <= 0.25 + 1e-9
    assert steps[:, 1].max() <= 1.25 + 1e-6
    # It runs at the limit, not below.
    assert steps[20:40, 0 if name == "linear_speed" else 1].min() > 0.99 * (
        0.25 if name == "linear_speed" else 1.25
    )
    assert rig.executor.limits[name] > 10
    assert name in commands[30].limits
    for c in commands:
        k = np.linalg.norm(c.pose.position - start.position) / 0.4
        if name == "linear_speed":
            expected = start.position + k * np.array(velocity)
            np.testing.assert_allclose(c.pose.position, expected, atol=1e-6)
    assert chunk.horizon == 30


def test_the_workspace_is_never_left(rig, kit):
    rig.enable()
    rig.tick()
    for _ in range(6):
        rig.send(kit, (0.0, 0.2, 0.1))
        commands = rig.run(0.5)
        for c in commands:
            assert c.pose.position[1] <= 0.25 + 1e-9
            assert c.pose.position[2] <= 0.30 + 1e-9
    assert rig.executor.limits["workspace"] > 0


def test_a_path_beyond_the_reach_ends_at_rest_before_it(kit):
    """The box is made larger than the arm's reach; the arm brakes instead of failing."""
    params = ExecutorParams(limits=LimitParams(workspace_max=(1.0, 0.25, 0.5)))
    rig = kit.Rig(READY, params)
    rig.enable()
    rig.tick()
    commands = []
    for _ in range(8):
        try:
            rig.send(kit, (0.15, 0.0, 0.0))
        except ChunkRefused as refusal:
            pytest.fail(str(refusal))
        commands += rig.run(0.5)
    speeds = np.array([a.pose.distance(b.pose)[0] for a, b in pairwise(commands)]) / PERIOD
    # Braking, not a dead stop: no two commands differ in speed by more than the bounds allow.
    assert np.abs(np.diff(speeds)).max() < 0.06
    assert speeds[-20:].max() < 0.01
    assert rig.executor.limits["inverse_kinematics"] + rig.executor.limits["joint_limit"] > 0
    assert "beyond a limit" in rig.executor.status().message


def test_the_joints_keep_their_margin_and_their_speed(kit):
    rig = kit.Rig(READY)
    rig.enable()
    rig.tick()
    commands = []
    for _ in range(10):
        rig.send(kit, (0.0, 0.0, 0.0), angular=(0.9, 0.0, 0.0))
        commands += rig.run(0.5)
    joints = np.array([c.joints for c in commands])
    assert (joints <= ARM.upper - 0.05 + 1e-9).all()
    assert (joints >= ARM.lower + 0.05 - 1e-9).all()
    assert kit.fractions(commands).max() <= 2.0 + 1e-9
    assert rig.executor.limits["joint_limit"] > 0
    # It brakes before the limit: 5 /s^2 times 0.9 rad/s, not from 0.9 rad/s to 0 in a period.
    speeds = np.array([a.pose.distance(b.pose)[1] for a, b in pairwise(commands)]) / PERIOD
    assert speeds.max() > 0.8
    assert np.abs(np.diff(speeds)).max() < 0.2


def test_an_arm_that_starts_inside_the_margin_may_only_leave_it(kit):
    """Asleep, the elbow is 0.056 rad from its limit; with a margin of 0.1 it is inside."""
    params = ExecutorParams(limits=LimitParams(joint_margin_rad=0.1))
    rig = kit.Rig(SLEEP, params)
    rig.enable()
    rig.tick()
    rig.send(kit, (0.05, 0.0, 0.05))
    rig.run(1.0)
    assert rig.last.joints[2] < SLEEP[2] - 0.05


def test_a_jump_under_timestamp_is_caught_at_the_speed_limit(kit):
    rig = kit.Rig(scheduler=SchedulerParams(strategy="timestamp"))
    rig.enable()
    rig.tick()
    aside = Pose(rig.scheduler.pose.position + np.array([0, 0.06, 0]), rig.scheduler.pose.rotation)
    rig.send(kit, (0.05, 0, 0), start=aside)
    commands = rig.run(1.0)
    steps = np.array([a.pose.distance(b.pose)[0] for a, b in pairwise(commands)]) / PERIOD
    assert steps.max() <= 0.25 + 1e-9
    assert rig.last.pose.position[1] == pytest.approx(aside.position[1], abs=1e-9)
    assert rig.executor.limits["linear_speed"] > 5


def test_parameters_may_be_changed_while_running(rig, kit):
    rig.enable()
    rig.tick()
    rig.send(kit, (0.2, 0, 0))
    rig.run(0.6)
    rig.executor.params = replace(rig.executor.params, limits=LimitParams(max_linear_speed=0.05))
    commands = rig.run(0.4)
    steps = np.array([a.pose.distance(b.pose)[0] for a, b in pairwise(commands)]) / PERIOD
    assert steps.max() <= 0.05 + 1e-9


def test_a_joint_speed_limit_slows_the_plan_and_is_counted(kit):
    """0.2 m/s across, 7 cm from the waist's axis, are 2.9 rad/s of the waist."""
    params = ExecutorParams(limits=LimitParams(workspace_min=(0.05, -0.2, -0.01)))
    near = ARM.ik(Pose(np.array([0.07, -0.1, 0.2]), ARM.fk(READY).rotation), READY)
    assert near is not None
    rig = kit.Rig(near, params)
    rig.enable()
    rig.tick()
    rig.send(kit, (0.0, 0.2, 0.0))
    commands = rig.run(1.6)
    assert kit.fractions(commands).max() <= 2.0 + 1e-9
    assert kit.fractions(commands).max() > 1.98
    assert rig.executor.limits["joint_speed"] > 5
    # The way is the chunk's, only slower.
    positions = np.array([c.pose.position for c in commands])
    assert np.ptp(positions[:, [0, 2]], axis=0).max() < 1e-9
    assert (np.diff(positions[:, 1]) >= -1e-12).all()


@pytest.mark.parametrize("seed", range(6))
def test_no_limit_bends_the_path(kit, seed):
    """Commands lie on the way that the chunk takes without limits, whatever slows them down."""
    rng = np.random.default_rng(seed)
    rig = kit.Rig()
    rig.enable()
    rig.tick()
    start = rig.scheduler.pose
    chunk = kit.wild_chunk(
        rng, start, stamp=rig.now, speed=0.5, angular_speed=2.5, epoch=rig.scheduler.epoch
    )
    free = kit.started(pose=start)
    free.set_workspace(Box(np.array(LimitParams().workspace_min), np.array([0.45, 0.25, 0.3])))
    free.submit(replace(chunk, epoch=free.epoch, stamp=0.0, t_ref=0.0), 0.0)
    way = [start] + [free.sample(0.002 * i).pose for i in range(1100)]
    rig.executor.submit(chunk, rig.now)
    commands = rig.run(2.0)
    assert sum(rig.executor.limits.values()) > 20
    places = np.array([pose.position for pose in way])
    for c in commands[::5]:
        nearest = int(np.argmin(np.linalg.norm(places - c.pose.position, axis=1)))
        metres, radians = way[nearest].distance(c.pose)
        # Between two samples of the way lie 1 mm and 5 mrad at most.
        assert metres < 1e-3
        assert radians < 1e-2
