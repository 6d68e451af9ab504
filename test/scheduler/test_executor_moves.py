"""Moves to a joint pose: the ready and the sleep pose."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import ChunkRefused, Refusal
from xvla_ros.scheduler.params import ExecutorParams, LimitParams

ARM = WidowX250s()
READY = np.array(constants.READY)
SLEEP = np.array(constants.SLEEP)
PERIOD = 0.02


def test_from_outside_the_workspace_the_ready_move_is_the_way_back(kit):
    rig = kit.Rig(np.zeros(6))
    rig.tick()
    assert rig.executor.go_to(READY, rig.now, rig.measured(), "the ready pose").accepted
    while rig.executor.moving:
        rig.tick()
    rig.run(0.2)
    assert not rig.last.publish
    assert not rig.executor.actuating
    rig.run(0.5)
    assert np.abs(rig.joints - READY).max() < 0.05
    rig.enable()


def test_inside_the_workspace_a_move_needs_actuation(rig):
    rig.tick()
    outcome = rig.executor.go_to(SLEEP, rig.now, rig.measured())
    assert not outcome.accepted
    assert "enable_actuation" in outcome.message


def test_a_move_is_slow_reaches_its_target_and_refuses_chunks_meanwhile(rig, kit):
    rig.enable()
    rig.tick()
    epoch = rig.scheduler.epoch
    assert rig.executor.go_to(SLEEP, rig.now, rig.measured(), "the sleep pose").accepted
    rig.run(0.5)
    assert "sleep" in rig.last.message
    assert rig.scheduler.epoch > epoch
    with pytest.raises(ChunkRefused) as refused:
        rig.send(kit)
    assert refused.value.reason is Refusal.BUSY
    commands = rig.run(4.5)
    np.testing.assert_allclose(rig.last.joints, SLEEP, atol=1e-9)
    assert kit.fractions(commands).max() <= 0.5 + 1e-6
    assert not rig.executor.moving
    assert rig.last.message == ""
    rig.send(kit)


def test_a_move_that_would_go_through_the_table_is_refused(kit):
    """Shoulder and elbow lowered until the hand would be 7 cm below the base's foot."""
    low = np.array([0.0, 0.35, 0.9, 0.0, 0.3, 0.0])
    assert ARM.fk(low).position[2] < -0.05
    rig = kit.Rig(READY)
    rig.enable()
    rig.tick()
    outcome = rig.executor.go_to(low, rig.now, rig.measured(), "a low pose")
    assert not outcome.accepted
    assert "move the arm up" in outcome.message
    assert not rig.executor.moving


def test_a_far_move_keeps_the_linear_speed(kit):
    """At 0.5 rad/s the hand would go faster than 0.1 m/s."""
    params = ExecutorParams(limits=LimitParams(max_linear_speed=0.1))
    rig = kit.Rig(READY, params)
    rig.enable()
    rig.tick()
    assert rig.executor.go_to(SLEEP, rig.now, rig.measured()).accepted
    commands = [rig.tick()]
    while rig.executor.moving:
        commands.append(rig.tick())
    steps = np.array([a.pose.distance(b.pose)[0] for a, b in pairwise(commands)]) / PERIOD
    assert 0.08 < steps.max() <= 0.103
    np.testing.assert_allclose(rig.last.joints, SLEEP, atol=1e-9)


@pytest.mark.parametrize(
    "target", [np.array([0, 5.0, 0, 0, 0, 0]), np.zeros(5), np.full(6, np.nan)]
)
def test_a_move_to_no_pose_of_the_arm_is_refused(rig, target):
    rig.enable()
    assert not rig.executor.go_to(target, rig.now, rig.measured()).accepted


def test_a_stop_halts_a_move(rig):
    rig.enable()
    rig.tick()
    rig.executor.go_to(SLEEP, rig.now, rig.measured())
    rig.run(1.5)
    rig.executor.stop(rig.now)
    rig.run(0.5)
    halted = rig.last.joints
    rig.run(0.5)
    np.testing.assert_array_equal(rig.last.joints, halted)
    assert np.abs(halted - SLEEP).max() > 0.1
    assert not rig.executor.moving
