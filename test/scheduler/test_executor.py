"""The command tick of the real arm's kinematics, from joint states to joint commands."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import ChunkRefused, Refusal
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.scheduler.arm_io import HeldCommand, JointMeasurement
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.params import ExecutorParams, LimitParams, SchedulerParams, TrackingParams
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import SchedulerState

ARM = WidowX250s()
READY = np.array(constants.READY)
SLEEP = np.array(constants.SLEEP)
PERIOD = 0.02


class Rig:
    """An executor on an arm whose servos follow with a lag of about 0.1 s."""

    def __init__(self, joints=READY, params=None, scheduler=None, last_command=None):
        self.executor = ArmExecutor(
            ChunkScheduler(scheduler, epoch=1), ARM, params, last_command=last_command
        )
        self.joints = np.array(joints, dtype=float)
        self.efforts = np.zeros(6)
        self.gripper = 0.0
        self.now = 0.0
        self.stiff = True
        self.joint_states = True
        self.commands = []

    @property
    def scheduler(self):
        return self.executor.scheduler

    @property
    def last(self):
        return self.commands[-1]

    def measured(self):
        return JointMeasurement(self.now, self.joints.copy(), self.efforts, self.gripper)

    def tick(self):
        if self.joint_states:
            self._measured = self.measured()
        command = self.executor.tick(self.now, self._measured)
        self.commands.append(command)
        if command.publish and self.stiff:
            self.joints = self.joints + 0.18 * (command.joints - self.joints)
        self.now += PERIOD
        return command

    def run(self, seconds):
        return [self.tick() for _ in range(round(seconds / PERIOD))]

    def enable(self):
        self.tick()
        outcome = self.executor.set_actuation(True, self.now, self.measured())
        assert outcome.accepted, outcome.message

    def send(self, kit, velocity=(0.0, 0.0, 0.0), **fields):
        """A chunk of uniform motion from the present command, observed now."""
        fields = {"sequence": round(100 * self.now) + 1, **fields}
        chunk = kit.line_chunk(
            fields.pop("start", self.scheduler.pose),
            velocity,
            stamp=self.now,
            epoch=self.scheduler.epoch,
            **fields,
        )
        self.executor.submit(chunk, self.now)
        return chunk


@pytest.fixture
def rig():
    return Rig()


def fractions(commands):
    """Largest joint speed of each command, rad/s."""
    return np.array([np.abs(c.velocities).max() for c in commands])


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


def test_the_first_command_is_the_last_one_if_the_arm_is_still_there():
    """A sagging arm is not let down further by a restart."""
    told = READY + np.array([0, 0.03, -0.02, 0, 0.01, 0])
    rig = Rig(READY, last_command=HeldCommand(told, 0.0))
    rig.enable()
    np.testing.assert_allclose(rig.tick().joints, told, atol=1e-12)


def test_a_gripper_that_holds_something_keeps_its_command_through_a_restart():
    """It is measured open by the width of the thing; told to stay there, it would let go."""
    rig = Rig(READY, last_command=HeldCommand(READY, 1.0))
    rig.gripper = 0.4
    rig.enable()
    assert {c.gripper_closed for c in rig.run(0.5)} == {1.0}


def test_the_first_command_is_the_measured_pose_if_the_arm_has_been_moved():
    rig = Rig(READY, last_command=HeldCommand(READY + 0.3, 1.0))
    rig.gripper = 0.4
    rig.enable()
    command = rig.tick()
    np.testing.assert_allclose(command.joints, READY, atol=1e-12)
    assert command.gripper_closed == 0.4


def test_outside_the_workspace_actuation_is_refused_with_the_way_back():
    rig = Rig(np.zeros(6))
    rig.tick()
    outcome = rig.executor.set_actuation(True, rig.now, rig.measured())
    assert not outcome.accepted
    # All joints at zero: the hand is 0.4583 m ahead and 0.3607 m up.
    assert "+0.008 m in x" in outcome.message
    assert "+0.061 m in z" in outcome.message
    assert "go_ready" in outcome.message
    assert not any(c.publish for c in rig.run(0.5))


def test_from_outside_the_workspace_the_ready_move_is_the_way_back():
    rig = Rig(np.zeros(6))
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
    assert fractions(commands).max() <= 0.5 + 1e-6
    assert not rig.executor.moving
    assert rig.last.message == ""
    rig.send(kit)


def test_a_move_that_would_go_through_the_table_is_refused(kit):
    """Shoulder and elbow lowered until the hand would be 7 cm below the base's foot."""
    low = np.array([0.0, 0.35, 0.9, 0.0, 0.3, 0.0])
    assert ARM.fk(low).position[2] < -0.05
    rig = Rig(READY)
    rig.enable()
    rig.tick()
    outcome = rig.executor.go_to(low, rig.now, rig.measured(), "a low pose")
    assert not outcome.accepted
    assert "move the arm up" in outcome.message
    assert not rig.executor.moving


def test_a_far_move_keeps_the_linear_speed(kit):
    """At 0.5 rad/s the hand would go faster than 0.1 m/s."""
    params = ExecutorParams(limits=LimitParams(max_linear_speed=0.1))
    rig = Rig(READY, params)
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
    rig = Rig(READY, params)
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
    rig = Rig(READY)
    rig.enable()
    rig.tick()
    commands = []
    for _ in range(10):
        rig.send(kit, (0.0, 0.0, 0.0), angular=(0.9, 0.0, 0.0))
        commands += rig.run(0.5)
    joints = np.array([c.joints for c in commands])
    assert (joints <= ARM.upper - 0.05 + 1e-9).all()
    assert (joints >= ARM.lower + 0.05 - 1e-9).all()
    assert fractions(commands).max() <= 2.0 + 1e-9
    assert rig.executor.limits["joint_limit"] > 0
    # It brakes before the limit: 5 /s^2 times 0.9 rad/s, not from 0.9 rad/s to 0 in a period.
    speeds = np.array([a.pose.distance(b.pose)[1] for a, b in pairwise(commands)]) / PERIOD
    assert speeds.max() > 0.8
    assert np.abs(np.diff(speeds)).max() < 0.2


def test_an_arm_that_starts_inside_the_margin_may_only_leave_it(kit):
    """Asleep, the elbow is 0.056 rad from its limit; with a margin of 0.1 it is inside."""
    params = ExecutorParams(limits=LimitParams(joint_margin_rad=0.1))
    rig = Rig(SLEEP, params)
    rig.enable()
    rig.tick()
    rig.send(kit, (0.05, 0.0, 0.05))
    rig.run(1.0)
    assert rig.last.joints[2] < SLEEP[2] - 0.05


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


def test_without_any_joint_states_there_is_no_command():
    rig = Rig()
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
    assert fractions(rig.run(0.2)).max() == 0.0
    rig.send(kit, (0.1, 0, 0), sequence=1)
    rig.run(0.3)
    assert rig.last.state is SchedulerState.EXECUTING


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


def test_a_jump_under_timestamp_is_caught_at_the_speed_limit(kit):
    rig = Rig(scheduler=SchedulerParams(strategy="timestamp"))
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


def test_a_small_tracking_bound_is_kept_to(kit):
    rig = Rig(params=ExecutorParams(tracking=TrackingParams(max_error_m=0.005, max_duration_s=0.1)))
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
