"""What holds for every command that reaches the arm, whatever the policy says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import ChunkRefused
from xvla_ros.scheduler.arm_io import JointMeasurement
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.params import STRATEGIES, SchedulerParams
from xvla_ros.scheduler.scheduler import ChunkScheduler

ARM = WidowX250s()
READY = np.array(constants.READY)
PERIOD = 0.02
LOW, HIGH = np.array([0.10, -0.20, -0.01]), np.array([0.45, 0.25, 0.30])
seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=6, deadline=None, derandomize=True)


def run(kit, seed, strategy="anchor_fade", *, speed=0.3, angular_speed=1.5, seconds=4.0, hooks=()):
    """Commands under a policy of random walks, with random latency, losses and a lagging arm."""
    rng = np.random.default_rng(seed)
    executor = ArmExecutor(ChunkScheduler(SchedulerParams(strategy=strategy)), ARM)
    joints, commands, refused = READY, [], 0
    in_flight = None
    for i in range(round(seconds / PERIOD)):
        now = i * PERIOD
        measured = JointMeasurement(now, joints)
        for hook in hooks:
            hook(executor, i, now, measured, rng)
        if in_flight is not None and in_flight[0] <= now:
            try:
                executor.submit(in_flight[1], now)
            except ChunkRefused:
                refused += 1
            in_flight = None
        command = executor.tick(now, measured)
        commands.append(command)
        if i == 1:
            assert executor.set_actuation(True, now, measured).accepted
        if in_flight is None and i > 2 and rng.random() < 0.1:
            start, _ = executor.plan(now).at(now)
            chunk = kit.wild_chunk(
                rng,
                start,
                stamp=now,
                sequence=i,
                epoch=executor.scheduler.epoch,
                speed=speed,
                angular_speed=angular_speed,
                offset=0.03,
            )
            in_flight = (now + rng.choice([0.0, 0.135, 0.4, 0.8]), chunk)
        joints = joints + 0.18 * (command.joints - joints)
    return executor, commands[2:], refused


def check(commands, boxed=True):
    """Every limit, between every two commands; joint moves are not kept in the box."""
    positions = np.array([c.pose.position for c in commands])
    joints = np.array([c.joints for c in commands])
    steps = np.array([a.pose.distance(b.pose) for a, b in pairwise(commands)])
    if boxed:
        assert (positions >= LOW - 1e-9).all()
        assert (positions <= HIGH + 1e-9).all()
        assert steps[:, 1].max() <= 1.25 * PERIOD + 1e-6
    assert positions[:, 2].min() >= LOW[2] - 0.006
    assert steps[:, 0].max() <= 0.25 * PERIOD * (1.0 if boxed else 1.03) + 1e-9
    assert (joints >= ARM.lower + 0.05 - 1e-6).all()
    assert (joints <= ARM.upper - 0.05 + 1e-6).all()
    assert np.abs(np.diff(joints, axis=0)).max() <= 2.0 * PERIOD + 1e-9
    for c in commands[::10]:
        metres, radians = ARM.fk(c.joints).distance(c.pose)
        assert metres < 1e-6
        # The kinematics gives up 1e-3 rad where the wrist is singular.
        assert radians < 2e-3
    assert {c.gripper_closed for c in commands} <= {0.0, 1.0}


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seed=seeds)
@some
def test_no_policy_makes_the_arm_break_a_limit(kit, strategy, seed):
    executor, commands, _ = run(kit, seed, strategy)
    check(commands)
    assert executor.scheduler.accepted > 0
    moved = commands[0].pose.distance(commands[-1].pose)
    assert max(moved) > 0.0


@given(seeds)
@some
def test_stops_moves_losses_and_clock_jumps_break_no_limit_either(kit, seed):
    def chaos(executor, i, now, measured, rng):
        if i < 5 or rng.random() > 0.03:
            return
        calls = [
            executor.stop,
            executor.clear_stop,
            executor.policy_lost,
            lambda t: executor.go_to(READY, t, measured),
        ]
        calls[rng.integers(len(calls))](now)
        if rng.random() < 0.5:
            executor.clear_stop(now)

    _, commands, _ = run(kit, seed, hooks=(chaos,), speed=0.2, angular_speed=0.8)
    check(commands, boxed=False)


@given(seeds)
@some
def test_slow_chunks_meet_no_limit_and_are_followed_exactly(kit, seed):
    rng = np.random.default_rng(seed)
    executor = ArmExecutor(ChunkScheduler(), ARM)
    executor.tick(0.0, JointMeasurement(0.0, READY))
    assert executor.set_actuation(True, 0.0, JointMeasurement(0.0, READY)).accepted
    plain = ChunkScheduler(epoch=executor.scheduler.epoch - 1)
    plain.reset(executor.scheduler.pose, 0.0, 0.0)
    start = executor.scheduler.pose
    velocity = rng.uniform(0.0, 0.03, 3) * [1, 1, -1]
    chunk = kit.line_chunk(start, velocity, epoch=executor.scheduler.epoch)
    executor.submit(chunk, 0.0)
    plain.submit(chunk, 0.0)
    for i in range(1, 100):
        now = i * PERIOD
        limited = executor.tick(now, JointMeasurement(now, READY))
        free = plain.sample(now)
        assert limited.pose is not None
        metres, radians = limited.pose.distance(free.pose)
        assert metres < 1e-9
        assert radians < 1e-7
    assert executor.limits == {}
