"""What chunk_scheduler does when something goes wrong around it."""

from __future__ import annotations

import time

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.chunk import Refusal
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes import bringup

NODE = names.SCHEDULER_NODE


def test_the_policy_is_killed_in_mid_chunk_and_the_arm_comes_to_rest_continuously(rig):
    # With a horizon of 5 s only the lost liveliness can be what stops the arm.
    rig.start("execution_horizon_s:=5.0")
    policy = rig.start_policy_process()
    rig.actuate()
    rig.wait_moving()
    policy.kill()
    killed = time.monotonic()
    at_kill = len(rig.robot.commands)
    rig.wait_rest()
    rested = rig.came_to_rest(at_kill)
    # Liveliness lease 1 s and the fade, with a margin for the end of the process.
    bound = 1.0 + 0.4 + 0.6 + 2.0 * rig.ros.lost(killed)
    assert rested - killed < bound, rig.process.output[-3000:]
    rig.assert_continuous(at_kill - 50)
    # At 50 Hz throughout; a single gap says more about the machine than about the scheduler.
    arrivals = np.array([arrival for arrival, _, _ in rig.robot.commands[at_kill - 50 :]])
    lost = rig.ros.lost(arrivals[0])
    assert np.diff(arrivals).mean() < 0.03 * (1.0 + 2.0 * lost / np.ptp(arrivals))
    # The loop goes on with the next policy process.
    rig.start_policy_process()
    rig.wait_moving()
    rig.assert_continuous(at_kill - 50)


def test_a_chunk_that_must_not_run_is_refused_whole_and_changes_nothing_else(rig):
    rig.start()
    policy = rig.add_policy()
    policy.paused = True
    rig.actuate()
    rig.wait_status(lambda s: s.actuating, "actuation")
    accepted = rig.status.chunks_accepted
    before = [c[1] for c in rig.robot.commands[-1:]]
    good = policy.chunk()
    spoilt = good.positions.copy()
    spoilt[7, 1] = np.nan
    for reason, changes in (
        (Refusal.NON_FINITE, {"positions": spoilt}),
        (Refusal.OLD_EPOCH, {"epoch": good.epoch - 1}),
        (Refusal.WRONG_FRAME, {"frame_id": "other/base_link"}),
        (Refusal.CLOCKS_DIFFER, {"stamp": good.stamp - 1e6, "t_ref": good.t_ref - 1e6}),
        (Refusal.CLOCKS_DIFFER, {"stamp": good.stamp + 1e6, "t_ref": good.t_ref + 1e6}),
        (Refusal.JUMP, {"positions": good.positions + np.array([0.0, 0.2, 0.0])}),
    ):
        count = rig.refusals().get(reason.value, 0)
        policy.send(good, **changes)
        rig.wait_status(
            lambda s, reason=reason, count=count: (
                dict(zip(s.refusal_reasons, s.refusal_counts, strict=True)).get(reason.value)
                == count + 1
            ),
            reason.value,
        )
    assert rig.status.chunks_accepted == accepted
    assert rig.status.state == SchedulerStatus.HOLDING
    assert all(np.array_equal(c[1], before[0]) for c in rig.robot.commands[-20:])
    assert "refused: a number is NaN or infinite: step 7, number 1" in rig.process.output
    # The very same chunk, unspoilt, runs.
    policy.send()
    rig.wait_moving()
    assert rig.status.chunks_accepted == accepted + 1


def test_before_the_first_joint_states_nothing_is_commanded_and_the_status_says_so(rig):
    rig.robot.silent = True
    rig.start("start_actuation:=true")
    rig.wait_status(lambda s: s.state == SchedulerStatus.SUSPENDED, "SUSPENDED")
    assert rig.status.message == "no joint states have come"
    assert "no joint states have come" in rig.enable().message
    assert rig.robot.commands == []


def test_joint_states_stop_and_the_arm_rests_suspended_until_they_are_back(rig):
    rig.start("execution_horizon_s:=5.0")
    policy = rig.add_policy()
    rig.run_until_moving()
    rig.robot.silent = True
    rig.wait_status(lambda s: s.state == SchedulerStatus.SUSPENDED, "SUSPENDED")
    rig.wait_for(lambda: rig.refusals().get(Refusal.BUSY.value, 0) >= 1)
    count = len(rig.robot.commands)
    rig.assert_continuous(count - 50)
    assert "joint states are" in rig.status.message
    policy.paused = True
    rig.robot.silent = False
    # STARVED where they were back before the arm had come to rest.
    rests = (SchedulerStatus.HOLDING, SchedulerStatus.STARVED)
    rig.wait_status(lambda s: s.state in rests, "rest")
    policy.paused = False
    rig.wait_moving()
    rig.assert_continuous(count - 50)


def test_after_a_kill_and_respawn_actuation_is_off_and_the_arm_goes_on_where_it_was(rig):
    rig.start("start_actuation:=true")
    rig.add_policy()
    rig.wait_moving()
    epoch = rig.status.epoch
    rig.process.kill()
    last = rig.robot.commands[-1][1]
    commands, fingers = len(rig.robot.commands), len(rig.robot.fingers)
    # As if something were in the gripper: measured elsewhere than commanded.
    told, rig.robot.finger = rig.robot.finger, 0.025
    rig.statuses.clear()
    respawn = bringup.describe(bringup.Arguments(start_actuation=True)).process(NODE)
    assert respawn.respawn
    rig.start(*(f"{k}:={str(v).lower()}" for k, v in respawn.respawn_parameters.items()))
    rig.wait_status(lambda s: s.chunks_accepted > 1, "chunks in a dry run")
    assert not rig.status.actuating
    assert rig.status.epoch > epoch
    assert len(rig.robot.commands) == commands
    rig.policy.paused = True
    rig.wait_status(lambda s: s.state != SchedulerStatus.EXECUTING, "rest", 20.0)
    rig.actuate()
    rig.wait_for(lambda: len(rig.robot.commands) > commands and len(rig.robot.fingers) > fingers)
    assert np.abs(rig.robot.commands[commands][1] - last).max() < 1e-9
    assert abs(rig.robot.fingers[fingers] - told) < 1e-9


def test_an_arm_that_is_blocked_freezes_backs_off_and_goes_on_once_it_is_free(rig):
    rig.start()
    policy = rig.add_policy()
    rig.run_until_moving()
    epoch = rig.status.epoch
    rig.robot.stuck = True
    status = rig.wait_status(lambda s: s.message.startswith(names.BLOCKED), "a blocked arm")
    assert status.epoch > epoch
    assert status.message.startswith(f"{names.BLOCKED} (tracking_error)")
    rig.wait_for(lambda: policy.plans[-1].epoch > epoch, what="a plan of the new epoch")
    rig.wait_status(lambda s: "backing off" in s.message, "the way back")
    rig.robot.stuck = False
    rig.wait_status(lambda s: not s.message, "the end of the way back")
    assert rig.status.actuating
    rig.wait_moving()
    rig.assert_continuous()


class SimulatedTime:
    """Publishes /clock; `offset` makes it jump."""

    def __init__(self, ros) -> None:
        node = ros.node("clock")
        self.offset = 1000.0
        self._start = time.monotonic()
        self._output = node.create_publisher(Clock, "/clock", 1)
        node.create_timer(0.005, self._publish)

    def _publish(self) -> None:
        whole, rest = divmod(time.monotonic() - self._start + self.offset, 1.0)
        self._output.publish(Clock(clock=Time(sec=int(whole), nanosec=int(rest * 1e9))))


def test_a_clock_that_jumps_back_makes_the_arm_hold_without_a_burst(ros, make_rig):
    clock = SimulatedTime(ros)
    rig = make_rig(parameter_overrides=[Parameter("use_sim_time", value=True)])
    rig.start("use_sim_time:=true", "execution_horizon_s:=5.0")
    policy = rig.add_policy()
    rig.run_until_moving()
    epoch = rig.status.epoch
    policy.paused = True
    count = len(rig.robot.commands)
    jumped = time.monotonic()
    clock.offset -= 10.0
    rig.wait_rest()
    rested = rig.came_to_rest(count)
    # The chunk would have gone on for seconds.
    assert rested - jumped < 1.5 + 2.0 * rig.ros.lost(jumped)
    rig.wait_status(lambda s: s.epoch > epoch, "a new epoch")
    rig.wait_for(lambda: policy.plans[-1].epoch > epoch, what="a plan of the new epoch")
    policy.paused = False
    rig.wait_moving()
    rig.assert_continuous(count - 50)
    # Ten seconds forwards are a pause that was missed, and no reason for a burst either.
    clock.offset += 10.0
    count = len(rig.robot.commands)
    rig.wait_for(lambda: len(rig.robot.commands) > count + 25, what="commands")
    rig.wait_moving()
    rig.assert_continuous(count - 50)


def test_joint_names_in_another_order_are_the_same_arm(rig):
    rig.robot.order = list(reversed(constants.JOINT_STATE_NAMES))
    rig.start()
    rig.add_policy()
    rig.run_until_moving()
    assert np.abs(rig.robot.commands[0][1] - np.array(constants.READY)).max() < 1e-6
    rig.assert_continuous()
