"""What the command loop makes of a back end that tells about its hardware."""

from __future__ import annotations

import time

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.nodes.backends.base import Health
from xvla_ros.nodes.command_loop import CommandLoop
from xvla_ros.nodes.diagnostics import Level
from xvla_ros.nodes.last_command import LastCommand
from xvla_ros.nodes.period import PeriodMeter
from xvla_ros.nodes.scheduler_report import diagnostics, status
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


def motors(loop):
    message = status(Header(), loop.executor, None, PeriodMeter(), "normal")
    states = diagnostics(message.header.stamp, message, loop, time.monotonic()).status
    return next((state for state in states if state.name == "chunk_scheduler: motors"), None)


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
