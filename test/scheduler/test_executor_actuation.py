"""What switching actuation on and off does to the arm and its gripper."""

from __future__ import annotations

import numpy as np
import pytest

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.scheduler.arm_io import HeldCommand
from xvla_ros.scheduler.setpoint import SchedulerState

ARM = WidowX250s()
READY = np.array(constants.READY)


def test_nothing_is_published_before_actuation_is_switched_on(rig, kit):
    rig.run(0.2)
    rig.send(kit, (0.1, 0, 0))
    rig.run(1.0)
    assert not any(c.publish for c in rig.commands)
    np.testing.assert_array_equal(rig.joints, READY)


def test_a_dry_run_shows_the_plan_from_the_measured_pose_on(rig, kit):
    rig.run(0.2)
    chunk = rig.send(kit, (0.05, 0, 0))
    rig.run(0.1)
    plan = rig.executor.plan(rig.now)
    assert not plan.actuating
    np.testing.assert_allclose(plan.poses[-1].position - chunk.positions[9], 0, atol=0.01)
    # The next one starts again where the arm really is.
    rig.run(0.5)
    rig.send(kit, (0.05, 0, 0), start=ARM.fk(READY))
    rig.tick()
    assert rig.last.pose.distance(ARM.fk(READY))[0] < 1e-3


def test_without_actuation_the_command_follows_an_arm_moved_by_hand(rig):
    rig.run(0.1)
    for k in range(20):
        rig.joints = READY + 0.02 * k * np.array([1, 1, 0, 0, 0, 1])
        rig.tick()
    rig.tick()
    np.testing.assert_allclose(rig.last.joints, rig.joints)
    rig.enable()
    np.testing.assert_allclose(rig.tick().joints, rig.joints, atol=1e-12)


def test_switching_on_never_moves_the_arm(rig):
    rig.enable()
    commands = rig.run(1.0)
    assert all(c.publish for c in commands)
    for c in commands:
        np.testing.assert_allclose(c.joints, READY, atol=1e-12)
        assert c.state is SchedulerState.HOLDING


def test_the_first_command_is_the_last_one_if_the_arm_is_still_there(kit):
    """A sagging arm is not let down further by a restart."""
    told = READY + np.array([0, 0.03, -0.02, 0, 0.01, 0])
    rig = kit.Rig(READY, last_command=HeldCommand(told, 0.0))
    rig.enable()
    np.testing.assert_allclose(rig.tick().joints, told, atol=1e-12)


def test_a_gripper_that_holds_something_keeps_its_command_through_a_restart(kit):
    """It is measured open by the width of the thing; told to stay there, it would let go."""
    rig = kit.Rig(READY, last_command=HeldCommand(READY, 1.0))
    rig.gripper = 0.4
    rig.enable()
    assert {c.gripper_closed for c in rig.run(0.5)} == {1.0}


def test_the_first_command_is_the_measured_pose_if_the_arm_has_been_moved(kit):
    rig = kit.Rig(READY, last_command=HeldCommand(READY + 0.3, 1.0))
    rig.gripper = 0.4
    rig.enable()
    command = rig.tick()
    np.testing.assert_allclose(command.joints, READY, atol=1e-12)
    assert command.gripper_closed == 0.4


def test_an_arm_moved_by_hand_further_than_it_sags_is_not_stepped_back(kit):
    """By default 0.05 rad: the way back to the last command has no speed limit."""
    told = READY + np.array([0.06, 0, 0, 0, 0, 0])
    for last, first in ((told, READY), (READY + 0.04, READY + 0.04)):
        rig = kit.Rig(READY, last_command=HeldCommand(last, 0.0))
        rig.enable()
        np.testing.assert_allclose(rig.tick().joints, first, atol=1e-12)


def test_outside_the_workspace_actuation_is_refused_with_the_way_back(kit):
    rig = kit.Rig(np.zeros(6))
    rig.tick()
    outcome = rig.executor.set_actuation(True, rig.now, rig.measured())
    assert not outcome.accepted
    # All joints at zero: the hand is 0.4583 m ahead and 0.3607 m up.
    assert "+0.008 m in x" in outcome.message
    assert "+0.061 m in z" in outcome.message
    assert "go_ready" in outcome.message
    assert not any(c.publish for c in rig.run(0.5))


def test_switching_off_stops_publishing_at_once(rig, kit):
    rig.enable()
    rig.tick()
    rig.send(kit, (0.1, 0, 0))
    rig.run(0.5)
    assert rig.executor.set_actuation(False, rig.now, rig.measured()).accepted
    assert not any(c.publish for c in rig.run(0.5))


def test_the_hold_before_a_shutdown_is_the_last_command(rig, kit):
    rig.enable()
    rig.tick()
    rig.send(kit, (0.1, 0, 0))
    last = rig.run(0.5)[-1]
    hold = rig.executor.hold(rig.now)
    assert hold is not None
    assert hold.publish
    np.testing.assert_array_equal(hold.joints, last.joints)
    np.testing.assert_array_equal(hold.velocities, 0.0)


def test_the_gripper_starts_as_it_was_found_and_follows_decisions(rig, kit):
    rig.gripper = 0.43
    rig.enable()
    assert rig.tick().gripper_closed == pytest.approx(0.43)
    rig.send(kit, gripper=0.99)
    rig.run(1.0)
    assert rig.last.gripper_closed == 1.0
    # A grasped object keeps the fingers apart: the command stays closed over a back-off.
    rig.joint_states = False
    rig.run(0.6)
    rig.joint_states = True
    rig.tick()
    assert rig.last.gripper_closed == 1.0


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_a_gripper_that_says_nothing_is_commanded_as_before(rig, kit, unknown):
    """Some drivers leave the finger's state at NaN."""
    rig.gripper = unknown
    rig.enable()
    assert rig.tick().gripper_closed == 0.0
    rig.send(kit, gripper=0.99)
    rig.run(1.0)
    assert rig.last.gripper_closed == 1.0
    rig.executor.set_actuation(False, rig.now, rig.measured())
    rig.run(0.2)
    rig.enable()
    assert rig.tick().gripper_closed == 1.0
