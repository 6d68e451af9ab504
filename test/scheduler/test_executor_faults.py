"""Joint states that fail, a stop, an arm that does not follow, a policy that is lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import ChunkRefused, Refusal
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.scheduler.params import ExecutorParams, TrackingParams
from xvla_ros.scheduler.setpoint import SchedulerState

ARM = WidowX250s()
READY = np.array(constants.READY)
SLEEP = np.array(constants.SLEEP)
PERIOD = 0.02


def test_stale_joint_states_rest_the_arm_and_stop_publishing(rig, kit):
    rig.enable()
    rig.tick()
    rig.send(kit, (0.1, 0, 0))
    rig.run(0.8)
    rig.joint_states = False
    commands = rig.run(1.0)
    stale = [c for c in commands if c.state is SchedulerState.SUSPENDED]
    # 0.3 s until they count as stale, then 0.1 s to come to rest.
    assert len(commands) - len(stale) == pytest.approx(0.3 / PERIOD, abs=1.5)
    steps = np.array([a.pose.distance(b.pose)[0] for a, b in pairwise(stale)])
    assert (steps[6:] == 0.0).all()
    assert not any(c.publish for c in stale[8:])
    assert "old" in rig.last.message
    with pytest.raises(ChunkRefused) as refused:
        rig.send(kit)
    assert refused.value.reason is Refusal.BUSY


def test_when_joint_states_come_back_the_loop_goes_on_from_the_last_command(rig, kit):
    rig.enable()
    rig.tick()
    rig.send(kit, (0.1, 0, 0))
    rig.run(0.8)
    rig.joint_states = False
    rig.run(1.0)
    held, epoch = rig.last.joints, rig.scheduler.epoch
    rig.joint_states = True
    rig.joints = held + 0.02
    rig.tick()
    assert rig.last.publish
    np.testing.assert_allclose(rig.last.joints, held, atol=1e-12)
    assert rig.scheduler.epoch > epoch
    rig.send(kit, (0.05, 0, 0))
    rig.run(0.3)
    assert rig.last.state is SchedulerState.EXECUTING


def test_joint_states_that_come_back_while_the_command_brakes_make_it_brake_on(rig, kit):
    """The arm lags behind the command: to step back to where it was measured would be a jerk."""
    rig.enable()
    rig.tick()
    rig.send(kit, (0.2, 0, 0))
    rig.run(0.8)
    rig.joint_states = False
    while rig.tick().state is not SchedulerState.SUSPENDED:
        pass
    moving = rig.last
    rig.joint_states = True
    assert np.abs(rig.joints - moving.joints).max() > 0.05
    commands = [moving, *rig.run(0.5)]
    assert all(c.publish for c in commands)
    steps = [a.pose.distance(b.pose)[0] for a, b in pairwise(commands)]
    assert all(later <= before + 1e-9 for before, later in pairwise(steps))
    assert steps[0] > 1e-3
    assert steps[1] > 0.3e-3
    assert steps[-1] == 0.0
    # It has only come to rest: the next chunk goes on.
    rig.send(kit, (0.1, 0, 0))
    rig.run(0.3)
    assert rig.last.state is SchedulerState.EXECUTING


def test_an_arm_moved_while_joint_states_were_away_is_continued_where_it_is(rig):
    rig.enable()
    rig.run(0.2)
    rig.joint_states = False
    rig.run(1.0)
    rig.joint_states = True
    rig.joints = READY + np.array([0.4, 0.2, 0, 0, 0, 0])
    np.testing.assert_allclose(rig.tick().joints, rig.joints, atol=1e-12)
    assert rig.last.publish


def test_an_arm_carried_out_of_the_workspace_meanwhile_is_no_longer_actuated(rig):
    rig.enable()
    rig.run(0.2)
    rig.joint_states = False
    rig.run(1.0)
    rig.joint_states = True
    rig.joints = np.zeros(6)
    rig.run(0.1)
    assert not rig.executor.actuating
    assert not rig.last.publish
    assert "switched off" in rig.last.message


@pytest.mark.parametrize(
    "spoil",
    [
        lambda m: replace(m, positions=np.full(6, np.nan)),
        lambda m: replace(m, positions=m.positions[:5]),
        lambda m: replace(m, stamp=m.stamp + 100.0),
        lambda m: replace(m, stamp=float("nan")),
        lambda m: None,
    ],
    ids=["NaN", "five joints", "from the future", "no stamp", "none"],
)
def test_joint_states_that_say_nothing_are_no_joint_states(rig, spoil):
    rig.enable()
    rig.tick()
    good = rig.measured
    rig.measured = lambda: spoil(good())
    rig.run(0.3)
    assert rig.last.state is SchedulerState.SUSPENDED
    assert not rig.last.publish
    assert not rig.executor.set_actuation(True, rig.now, None).accepted or rig.executor.actuating


def test_without_any_joint_states_there_is_no_command(kit):
    rig = kit.Rig()
    command = rig.executor.tick(0.0, None)
    assert not command.publish
    assert command.joints is None
    assert "joint states" in command.message
    assert rig.executor.status().message == command.message
    assert not rig.executor.set_actuation(True, 0.0, None).accepted
    assert rig.executor.hold(0.0) is None
    assert rig.tick().message == ""


def test_a_stop_in_mid_motion_rests_at_once_and_latches(rig, kit):
    rig.enable()
    rig.tick()
    rig.send(kit, (0.2, 0, 0))
    rig.run(0.8)
    in_flight = kit.line_chunk(
        rig.scheduler.pose, stamp=rig.now, sequence=10**6, epoch=rig.scheduler.epoch
    )
    rig.executor.stop(rig.now)
    commands = rig.run(0.5)
    assert {c.state for c in commands} == {SchedulerState.STOPPED}
    steps = [a.pose.distance(b.pose)[0] for a, b in pairwise(commands)]
    assert sum(steps) < 0.2 * 0.1
    assert max(steps[7:]) == 0.0
    with pytest.raises(ChunkRefused):
        rig.executor.submit(in_flight, rig.now)
    for outcome in (
        rig.executor.go_to(SLEEP, rig.now, rig.measured()),
        rig.executor.set_actuation(False, rig.now, rig.measured()),
        rig.executor.set_actuation(True, rig.now, rig.measured()),
    ):
        assert outcome.accepted == (outcome.message == "actuation is off")
    rig.executor.clear_stop(rig.now)
    assert rig.executor.set_actuation(True, rig.now, rig.measured()).accepted


def test_a_blocked_arm_freezes_then_the_command_backs_off_to_it(rig, kit):
    rig.enable()
    rig.tick()
    rig.stiff = False  # The servos no longer move.
    epoch = rig.scheduler.epoch
    rig.send(kit, (0.2, 0, 0))
    rig.run(1.1)
    assert rig.executor.limits["tracking_error"] == 1
    assert "blocked" in rig.last.message
    frozen = rig.last.pose
    with pytest.raises(ChunkRefused):
        rig.send(kit)
    rig.run(3.5)
    assert rig.last.pose.distance(ARM.fk(rig.joints))[0] < 1e-3
    assert rig.last.pose.distance(frozen)[0] > 0.05
    assert rig.scheduler.epoch > epoch
    assert rig.executor.limits["tracking_error"] == 1
    rig.stiff = True
    rig.send(kit, (0.05, 0, 0))
    rig.run(0.3)
    assert rig.last.state is SchedulerState.EXECUTING


def test_a_straining_joint_freezes_the_arm(rig, kit):
    rig.enable()
    rig.tick()
    rig.efforts = np.array([0, -1800.0, 0, 0, 0, 0])
    rig.run(0.6)
    assert rig.executor.limits["effort"] == 1
    rig.efforts = np.zeros(6)
    rig.run(1.0)
    rig.send(kit, (0.05, 0, 0))


def test_a_short_strain_is_no_block(rig):
    rig.enable()
    for k in range(100):
        rig.efforts = np.full(6, 5000.0 if k % 20 < 15 else 0.0)
        rig.tick()
    assert rig.executor.limits == {}


def test_the_lag_of_the_servos_at_full_speed_is_no_block(rig, kit):
    rig.enable()
    rig.tick()
    for k in range(8):
        direction = 1.0 if k % 2 else -1.0
        rig.send(kit, (0.0, direction * 0.25, 0.0))
        rig.run(0.5)
    assert rig.executor.limits["tracking_error"] == 0
    assert 0.0 < rig.executor.status().tracking_error[0] < 0.06


def test_a_lost_policy_rests_the_arm_and_the_next_chunk_goes_on(rig, kit):
    rig.enable()
    rig.tick()
    rig.send(kit, (0.1, 0, 0))
    rig.run(0.6)
    rig.executor.policy_lost(rig.now)
    rig.run(0.5)
    assert rig.last.state is SchedulerState.STARVED
    assert kit.fractions(rig.run(0.2)).max() == 0.0
    rig.send(kit, (0.1, 0, 0), sequence=1)
    rig.run(0.3)
    assert rig.last.state is SchedulerState.EXECUTING


def test_a_small_tracking_bound_is_kept_to(kit):
    rig = kit.Rig(
        params=ExecutorParams(tracking=TrackingParams(max_error_m=0.005, max_duration_s=0.1))
    )
    rig.enable()
    rig.tick()
    rig.send(kit, (0.2, 0, 0))
    rig.run(0.6)
    assert rig.executor.limits["tracking_error"] >= 1


def test_a_turned_tool_is_tracked_too(rig, kit):
    rig.enable()
    rig.tick()
    rig.joints = ARM.ik(
        Pose(rig.scheduler.pose.position, rig.scheduler.pose.rotation @ so3_exp([0.5, 0, 0])),
        READY,
    )
    rig.stiff = False
    rig.run(0.7)
    assert rig.executor.limits["tracking_error"] == 1
