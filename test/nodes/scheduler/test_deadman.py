"""The dead-man's button: the arm moves only while it is held."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sensor_msgs.msg import Joy

from xvla_ros import cli, names
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes import qos
from xvla_ros.nodes.deadman import DeadMan
from xvla_ros.nodes.deadman_keyboard import HeldKey

REPOSITORY = Path(__file__).resolve().parents[3]
HOLDER = """
import sys, rclpy
from rclpy.node import Node
from sensor_msgs.msg import Joy
rclpy.init()
node = Node("gamepad")
output = node.create_publisher(Joy, "joy", 1)
node.create_timer(0.02, lambda: output.publish(Joy(buttons=[0, 1])))
rclpy.spin(node)
"""


def test_silence_is_a_button_that_was_let_go_whatever_was_said_last():
    button = DeadMan(0.3)
    assert "nothing is heard" in button.released(0.0)
    button.take(True, 10.0)
    assert button.released(10.29) == ""
    assert button.released(10.31) == "nothing is heard of the dead-man's button for 0.3 s"
    button.take(True, 20.0)
    button.take(False, 20.1)
    assert button.released(20.1) == "the dead-man's button is not held"


def test_a_key_counts_until_its_repetitions_cease():
    key = HeldKey(0.7, 0.2)
    assert not key.held(0.0)
    key.press(1.0)
    # The keyboard has not begun to repeat yet.
    assert key.held(1.6)
    for repetition in np.arange(1.5, 3.0, 0.05):
        assert key.held(repetition)
        key.press(repetition)
    assert key.held(3.1)
    assert not key.held(3.3)


class Gamepad:
    """Button 1 of a gamepad, as joy_node repeats it."""

    def __init__(self, rig) -> None:
        self.held = False
        self.mute = False
        node = rig.ros.node("gamepad")
        self._output = node.create_publisher(Joy, names.JOY, qos.JOY_PUBLISHER)
        node.create_timer(0.02, self._publish)

    def _publish(self) -> None:
        if not self.mute:
            self._output.publish(Joy(buttons=[0, int(self.held)]))


PARAMETERS = ("deadman.enabled:=true", "deadman.button:=1", "execution_horizon_s:=5.0")


def test_the_arm_moves_while_the_button_is_held_and_rests_when_it_is_not(rig):
    gamepad = Gamepad(rig)
    rig.start(*PARAMETERS)
    policy = rig.add_policy()
    rig.wait_status(lambda s: s.state == SchedulerStatus.STOPPED, "STOPPED")
    rig.wait_for(lambda: "is not held): hold it first" in rig.enable().message)
    gamepad.held = True
    rig.actuate()
    rig.wait_moving()
    epoch, count = rig.status.epoch, len(rig.robot.commands)
    gamepad.held = False
    rig.wait_rest()
    status = rig.wait_status(lambda s: s.state == SchedulerStatus.STOPPED, "STOPPED")
    assert status.message == "stopped (the dead-man's button is not held): hold it to go on"
    # Resting is not limp, and what the policy had on its way does not run afterwards.
    assert status.actuating
    assert status.epoch > epoch
    rig.assert_continuous(count - 20)
    # A gamepad that says nothing any more, with the button held.
    gamepad.held = True
    rig.wait_moving()
    gamepad.mute = True
    rig.wait_rest()
    rig.wait_status(lambda s: "nothing is heard" in s.message, "the reason")
    gamepad.mute = False
    rig.wait_moving()
    # A stop by hand is not undone by holding the button.
    assert rig.trigger(names.STOP).success
    rig.wait_rest()
    rig.wait_status(lambda s: "call ~/clear_stop" in s.message, "the stop")
    assert rig.trigger(names.CLEAR_STOP).success
    rig.wait_moving()
    # Nor does a move on request go on without it.
    policy.paused = True
    rig.wait_status(lambda s: s.state != SchedulerStatus.EXECUTING, "rest", 20.0)
    assert rig.trigger(names.GO_SLEEP).success
    rig.wait_moving()
    gamepad.held = False
    rig.wait_rest()
    assert "is not held" in rig.trigger(names.GO_READY).message
    rig.assert_continuous(count - 20)


def test_a_gamepad_that_dies_with_the_button_held_lets_go(rig, tmp_path):
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    holder = rig.ros.spawn_script(script)
    rig.start(*PARAMETERS)
    rig.add_policy()
    rig.actuate()
    rig.wait_moving()
    count = len(rig.robot.commands)
    holder.kill()
    rig.wait_rest()
    rig.wait_status(lambda s: "nothing is heard" in s.message, "the reason")
    rig.assert_continuous(count - 20)
    rig.ros.spawn_script(script)
    rig.wait_moving()


def test_the_space_bar_is_a_button_and_the_end_of_the_command_lets_go(ros):
    heard: list[int] = []
    node = ros.node()
    node.create_subscription(Joy, names.JOY, lambda m: heard.append(m.buttons[2]), qos.JOY)
    terminal, descriptor = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "xvla_ros.cli", "deadman", "--button", "2", "--first", "0.4"],
        cwd=REPOSITORY,
        env=ros.environment,
        stdin=descriptor,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        ros.wait_for(lambda: heard[-1:] == [0], what="a released button")
        os.write(terminal, b" ")
        ros.wait_for(lambda: heard[-1:] == [1], what="a held button")
        ros.wait_for(lambda: heard[-1:] == [0], what="a button let go")
        os.write(terminal, b" ")
        ros.wait_for(lambda: heard[-1:] == [1], what="a held button")
        os.write(terminal, b"q")
        assert process.wait(15.0) == 0
        ros.wait_for(lambda: heard[-1:] == [0], what="the last word")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(terminal)
        os.close(descriptor)


def test_without_a_terminal_the_command_says_what_it_needs(monkeypatch, capsys):
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert cli.main(["deadman"]) == 2
    assert "needs a terminal" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--button", "64"], ["--first", "0"]])
def test_wrong_arguments_are_one_line(arguments, capsys):
    assert cli.main(["deadman", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err
