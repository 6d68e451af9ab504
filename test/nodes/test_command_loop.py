"""What the command loop makes of a back end that tells about its hardware."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Refusal
from xvla_ros.nodes.backends.base import Health
from xvla_ros.nodes.command_loop import CommandLoop
from xvla_ros.nodes.deadman import DeadMan
from xvla_ros.nodes.diagnostics import Level
from xvla_ros.nodes.last_command import LastCommand
from xvla_ros.nodes.period import PeriodMeter
from xvla_ros.nodes.scheduler_diagnostics import SchedulerDiagnostics
from xvla_ros.nodes.scheduler_report import status
from xvla_ros.scheduler.executor import ArmExecutor
from xvla_ros.scheduler.scheduler import ChunkScheduler
from xvla_ros.scheduler.setpoint import SchedulerState

FAULT = "motor elbow: overload: call ~/clear_error"


class Driver:
    """A back end whose motors can fail."""

    def __init__(self) -> None:
        self.sent: list[np.ndarray] = []
        self.told: Health | None = None

    def ready(self, joints, velocities, gripper_closed, ahead):
        return lambda: self.sent.append(joints)

    def drain(self, timeout):
        return True

    def listeners(self):
        return 1

    def health(self):
        return self.told

    def watch(self, measured, sent):
        pass

    def missing(self):
        return ""

    def close(self):
        pass


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def loop(driver, tmp_path):
    executor = ArmExecutor(ChunkScheduler(), WidowX250s())
    loop = CommandLoop(executor, driver, LastCommand(tmp_path / "last"), time.time)
    see(loop)
    loop.tick()
    return loop


def see(loop) -> None:
    """Joint states of an arm in the ready pose, just measured."""
    stamp = time.time()
    message = JointState(
        name=list(constants.ARM_JOINTS),
        position=list(constants.READY),
    )
    message.header.stamp = Time(sec=int(stamp), nanosec=int(stamp % 1.0 * 1e9))
    loop.joints.take(message, time.time(), time.monotonic())


class Watch:
    """The diagnostics of a loop, by what they are about."""

    def __init__(self, loop) -> None:
        self.meter = PeriodMeter()
        self._loop = loop
        self._judge = SchedulerDiagnostics(loop, self.meter)

    def observe(self, command) -> None:
        self._judge.observe(command)

    def report(self, command=None, priority="normal", **changes):
        message = status(Header(), self._loop.executor, command, self.meter, priority)
        for name, value in changes.items():
            setattr(message, name, value)
        array = self._judge.report(message.header.stamp, message, time.monotonic())
        return {s.name.removeprefix("chunk_scheduler: "): s for s in array.status}


def motors(loop):
    return Watch(loop).report().get("motors")


def figures(state) -> dict[str, str]:
    return {value.key: value.value for value in state.values}


def test_a_motor_that_fails_stops_the_arm_until_it_is_mended(loop, driver):
    assert loop.set_actuation(True).accepted
    epoch = loop.executor.scheduler.epoch
    driver.told = Health(Level.ERROR, "elbow: overload", {"elbow temperature [C]": 71}, "", FAULT)
    command = loop.tick()
    assert command.state is SchedulerState.STOPPED
    assert command.message == f"stopped ({FAULT}): call ~/clear_stop to go on"
    assert loop.executor.scheduler.epoch > epoch
    refused = loop.clear_stop()
    assert not refused.accepted
    assert FAULT in refused.message
    # At rest nothing is sent any more: a motor that is mended must not find a command waiting.
    count = len(driver.sent)
    assert not loop.tick().publish
    assert not loop.executor.actuating
    assert len(driver.sent) == count
    driver.told = Health(Level.OK, "7 motors", {})
    assert loop.clear_stop().accepted
    assert loop.tick().state is SchedulerState.HOLDING


def test_a_fault_that_passes_before_the_arm_rests_ends_actuation_all_the_same(loop, driver):
    assert loop.set_actuation(True).accepted
    driver.told = Health(Level.ERROR, "", {}, "", FAULT)
    command = loop.decide()
    driver.told = None
    loop.send(command)
    assert not loop.executor.actuating
    assert loop.clear_stop().accepted
    assert loop.set_actuation(True).accepted
    loop.tick()
    assert loop.executor.actuating


def test_holding_the_dead_man_s_button_again_does_not_release_a_fault(driver, tmp_path):
    button = DeadMan(timeout=60.0)
    executor = ArmExecutor(ChunkScheduler(), WidowX250s())
    loop = CommandLoop(executor, driver, LastCommand(tmp_path / "last"), time.time, button)
    see(loop)
    button.take(False, time.monotonic())
    assert "is not held" in loop.tick().message
    driver.told = Health(Level.ERROR, "", {}, "", FAULT)
    loop.tick()
    button.take(True, time.monotonic())
    assert FAULT in loop.tick().message
    driver.told = None
    assert loop.tick().state is SchedulerState.STOPPED
    assert loop.clear_stop().accepted


def test_a_stop_by_hand_keeps_its_own_words_after_one_by_the_hardware(loop, driver):
    driver.told = Health(Level.ERROR, "elbow: overload", {}, "", FAULT)
    loop.tick()
    driver.told = None
    loop.clear_stop()
    loop.stop()
    assert loop.tick().message == "stopped: call ~/clear_stop to go on"


def test_what_the_driver_tells_of_its_motors_is_a_state_of_its_own(loop, driver):
    assert motors(loop) is None
    driver.told = Health(Level.WARN, "elbow: 68 C", {"elbow temperature [C]": 68}, "wx250s")
    told = motors(loop)
    assert told.level == Level.WARN.value
    assert told.message == "elbow: 68 C"
    assert told.hardware_id == "wx250s"
    assert [(v.key, v.value) for v in told.values] == [("elbow temperature [C]", "68")]


def test_everything_an_operator_mends_has_a_state_of_its_own(loop):
    states = Watch(loop).report()
    assert set(states) == {
        "commands",
        "command stream",
        "limits",
        "tracking",
        "chunks",
        "joint states",
    }
    assert all(state.message for state in states.values())
    assert figures(states["limits"])["inverse_kinematics"] == "0"


def test_commands_that_are_late_say_so_and_what_to_do(loop):
    watch = Watch(loop)
    for tick in range(200):
        watch.meter.tick(0.02 * tick, 0.0005)
    assert watch.report()["command stream"].level == Level.OK.value
    for tick in range(200, 400):
        watch.meter.tick(0.02 * tick, 0.03)
    late = watch.report()["command stream"]
    assert late.level == Level.WARN.value
    assert "30 ms" in late.message
    assert "docs/operation.md" in late.message
    # Where the priority is there, the advice to permit it would be none.
    assert "docs" not in watch.report(priority="SCHED_FIFO 20")["command stream"].message


def test_missed_periods_are_news_once(loop):
    watch = Watch(loop)
    watch.meter.missed = 3
    assert watch.report()["command stream"].level == Level.WARN.value
    after = watch.report()["command stream"]
    assert after.level == Level.OK.value
    assert figures(after)["missed periods"] == "3"


def test_limits_that_act_are_named_and_an_unreachable_pose_is_a_warning(loop):
    watch = Watch(loop)
    loop.executor.limits.update({"linear_speed": 7})
    state = watch.report()["limits"]
    assert (state.level, state.message) == (Level.OK.value, "linear_speed 7 times")
    loop.executor.limits.update({"inverse_kinematics": 2})
    state = watch.report()["limits"]
    assert (state.level, state.message) == (Level.WARN.value, "inverse_kinematics 2 times")
    assert watch.report()["limits"].message == "no limit acts"
    assert figures(state)["linear_speed"] == "7"


def test_the_overlap_is_what_was_left_of_the_old_chunk_when_the_new_one_took_over(loop):
    watch = Watch(loop)
    command = loop.tick()
    for sequence, remaining in ((1, 1.5), (1, 1.2), (2, 1.7), (2, 1.3)):
        watch.observe(replace(command, sequence=sequence, remaining=remaining))
    chunks = watch.report()["chunks"]
    assert figures(chunks)["overlap [s]"] == "1.2"
    assert chunks.level == Level.OK.value
    # Stopping takes 0.15 s at the default bounds: with less left the arm had begun to brake.
    for sequence, remaining in ((2, 0.1), (3, 1.7)):
        watch.observe(replace(command, sequence=sequence, remaining=remaining))
    late = watch.report()["chunks"]
    assert late.level == Level.WARN.value
    assert late.message == "chunks come late: 0.10 s of the one before was left"
    # Without a change of chunk since then the figure stays and the warning goes.
    assert watch.report()["chunks"].level == Level.OK.value


def test_refusals_since_the_last_message_are_told_with_their_reason(loop):
    watch = Watch(loop)
    loop.executor.scheduler.refusals[Refusal.CLOCKS_DIFFER] += 4
    told = watch.report()["chunks"]
    assert told.level == Level.WARN.value
    assert told.message == f"4 refused: {Refusal.CLOCKS_DIFFER.value}"
    assert watch.report()["chunks"].level == Level.OK.value


def test_joint_states_that_stop_are_stale_and_say_since_when(loop):
    watch = Watch(loop)
    assert watch.report()["joint states"].level == Level.OK.value
    measured = loop.joints.measurement(time.time(), time.monotonic())
    assert measured is not None
    command = loop.executor.tick(measured.stamp + 0.5, measured)
    state = watch.report(command)["joint states"]
    assert state.level == Level.STALE.value
    assert state.message == "joint states are 0.50 s old"
    assert watch.report(command)["commands"].level == Level.ERROR.value


def test_an_arm_that_lags_much_is_a_warning_before_it_is_blocked(loop):
    state = Watch(loop).report(tracking_error_m=0.04)["tracking"]
    assert state.level == Level.WARN.value
    assert state.message == "40 mm, 0.00 rad of 60 mm, 0.35 rad"
