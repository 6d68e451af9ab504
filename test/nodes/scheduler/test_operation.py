"""What an operator does with chunk_scheduler, and what it shows."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path as NavPath

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Refusal
from xvla_ros.msg import SchedulerStatus

MODULE = "xvla_ros.nodes.scheduler_node"
NODE = names.SCHEDULER_NODE


def test_a_chunk_becomes_a_continuous_motion_once_actuation_is_on(rig):
    rig.start()
    rig.add_policy()
    rig.wait_status(lambda s: s.chunks_accepted > 2, "chunks in a dry run")
    assert not rig.status.actuating
    assert rig.status.message == ""
    assert rig.robot.commands == []
    rig.run_until_moving()
    count = len(rig.robot.commands)
    rig.wait_for(lambda: len(rig.robot.commands) > count + 100, what="a hundred commands")
    rig.assert_continuous()
    status = rig.wait_status(lambda s: s.actuating and s.period_p50 > 0.0, "a period")
    assert status.period_p50 == pytest.approx(0.02, abs=0.005)
    assert status.priority in ("SCHED_FIFO 20", "nice -15", "normal")
    assert rig.robot.fingers[-1] == pytest.approx(constants.FINGER_UPPER)
    # The wire carries the policy's motion: 5 cm/s in x and nothing else.
    arm = WidowX250s()
    first, last = (arm.fk(rig.robot.commands[i][1]) for i in (count, count + 50))
    moved = last.position - first.position
    assert np.abs(moved[1:]).max() < 2e-3
    assert abs(moved[0]) > 0.02


def test_the_process_never_imports_torch(rig):
    process = rig.start()
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert "libfastrtps" in maps or "rmw" in maps
    assert "torch" not in maps


def test_stop_in_mid_motion_latches_and_a_chunk_in_flight_never_runs(rig):
    rig.start()
    policy = rig.add_policy()
    rig.run_until_moving()
    in_flight = policy.chunk()
    policy.paused = True
    before = rig.refusals().get(Refusal.OLD_EPOCH.value, 0)
    position = rig.robot.commands[-1][1]
    assert rig.trigger(names.STOP).success
    policy.send(in_flight)
    rig.wait_rest()
    rig.wait_status(lambda s: s.state == SchedulerStatus.STOPPED, "STOPPED")
    rig.wait_for(lambda: rig.refusals().get(Refusal.OLD_EPOCH.value, 0) > before)
    stopped_at = rig.robot.commands[-1][1]
    assert np.abs(stopped_at - position).max() < 0.1
    # What the policy makes after the stop does not run either.
    rig.wait_for(lambda: policy.plans[-1].epoch > in_flight.epoch, what="the new epoch")

    def refused_as_stopped() -> int:
        policy.send()
        return rig.refusals().get(Refusal.STOPPED.value, 0)

    rig.wait_for(refused_as_stopped, what="a refusal because of the stop")
    assert rig.status.epoch > in_flight.epoch
    assert np.array_equal(rig.robot.commands[-1][1], stopped_at)
    # Stopped is not limp: the arm is still being told where to stay.
    assert rig.status.actuating
    assert rig.trigger(names.CLEAR_STOP).success
    policy.paused = False
    rig.wait_moving()


def test_stop_holds_through_states_in_which_nothing_moves(rig):
    rig.start(active=False)
    assert rig.trigger(names.STOP).success
    assert rig.ros.transition(rig.observer, NODE, "configure")
    assert rig.status.state == SchedulerStatus.STOPPED
    assert rig.ros.transition(rig.observer, NODE, "activate")
    rig.wait_for(lambda: "stopped" in rig.enable().message)
    assert not rig.status.actuating
    assert rig.trigger(names.CLEAR_STOP).success
    rig.actuate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_brakes_and_leaves_the_arm_with_a_hold_command(rig, number):
    rig.start()
    rig.add_policy()
    rig.run_until_moving()
    count = len(rig.robot.commands)
    rig.process.send(number)
    assert rig.process.wait() == 0
    rig.wait_for(lambda: np.abs(rig.robot.commands[-1][2]).max() == 0.0, what="a command at rest")
    rig.assert_continuous(count - 20)
    assert "Traceback" not in rig.process.output


def test_deactivate_sends_the_hold_command_and_a_new_activation_has_actuation_off(rig):
    rig.start("start_actuation:=true")
    rig.add_policy()
    rig.wait_moving()
    assert rig.ros.transition(rig.observer, NODE, "deactivate")
    count = len(rig.robot.commands)
    assert np.abs(rig.robot.commands[-1][2]).max() == 0.0
    rig.statuses.clear()
    rig.wait_status(lambda s: "not active" in s.message, "an inactive status")
    assert rig.ros.transition(rig.observer, NODE, "activate")
    rig.wait_status(lambda s: "not active" not in s.message and s.chunks_accepted, "chunks")
    assert not rig.status.actuating
    assert len(rig.robot.commands) == count
    assert rig.ros.transition(rig.observer, NODE, "deactivate")
    assert rig.ros.transition(rig.observer, NODE, "cleanup")
    assert rig.ros.transition(rig.observer, NODE, "configure")
    assert rig.ros.transition(rig.observer, NODE, "activate")
    rig.actuate()


def test_an_arm_outside_its_workspace_is_not_actuated_until_it_has_been_led_back(rig):
    rig.robot.joints = np.array(constants.HOME)
    rig.start()
    rig.wait_for(lambda: "outside the workspace" in rig.enable().message)
    message = rig.enable().message
    # At home the end effector is at (0.458, 0, 0.361) m, and the box ends at (0.45, _, 0.30).
    assert "+0.008 m in x" in message
    assert "+0.061 m in z" in message
    assert "~/go_ready" in message
    assert rig.robot.commands == []
    assert rig.trigger(names.GO_READY).success
    rig.wait_for(
        lambda: np.abs(rig.robot.joints - np.array(constants.READY)).max() < 1e-3,
        30.0,
        "the ready pose",
    )
    rig.assert_continuous()
    rig.wait_status(lambda s: not s.actuating, "actuation off after the way to ready")
    rig.actuate()
    assert rig.trigger(names.STOP).success
    assert "stopped" in rig.trigger(names.GO_SLEEP).message


def test_poses_path_and_diagnostics_can_be_watched(rig):
    seen: dict[str, Any] = {}

    def keep(name: str):
        return lambda message: seen.__setitem__(name, message)

    for name, kind, topic in (
        ("target", PoseStamped, names.of(NODE, names.TARGET_POSE)),
        ("current", PoseStamped, names.of(NODE, names.CURRENT_POSE)),
        ("path", NavPath, names.of(NODE, names.PLANNED_PATH)),
        ("diagnostics", DiagnosticArray, names.DIAGNOSTICS),
    ):
        rig.observer.create_subscription(kind, topic, keep(name), 1)
    rig.start()
    rig.add_policy()
    rig.run_until_moving()
    rig.wait_for(lambda: len(seen) == 4 and len(seen["path"].poses) > 3, what="every topic")
    frames = {seen[name].header.frame_id for name in ("target", "current", "path")}
    assert frames == {"wx250s/base_link"}
    # The test robot follows within a period or two, so both poses are nearly the same.
    target, current = (seen[name].pose.position for name in ("target", "current"))
    assert (current.x, current.y, current.z) == pytest.approx(
        (target.x, target.y, target.z), abs=0.02
    )
    path_x = [pose.pose.position.x for pose in seen["path"].poses]
    assert abs(path_x[-1] - path_x[0]) > 0.01
    states = {status.name: status for status in seen["diagnostics"].status}
    assert set(states) == {
        f"chunk_scheduler: {what}"
        for what in ("commands", "command stream", "limits", "tracking", "chunks", "joint states")
    }
    values = {v.key: v.value for v in states["chunk_scheduler: commands"].values}
    assert values["drivers"] == "1"


def test_a_parameter_is_tuned_live_and_a_wrong_one_is_refused(rig):
    rig.start()
    taken, reason = rig.ros.set_parameter(rig.observer, NODE, "limits.max_linear_speed", 5.0)
    assert not taken
    assert "0.01" in reason
    assert rig.ros.parameter(rig.observer, NODE, "limits.max_linear_speed") == 0.25
    taken, reason = rig.ros.set_parameter(rig.observer, NODE, "gripper.open_below", 0.9)
    assert not taken
    assert "gripper.close_above" in reason
    taken, reason = rig.ros.set_parameter(rig.observer, NODE, "stratgy", "sync")
    assert not taken
    assert "did you mean 'strategy'?" in reason
    # A speed limit that is set while the arm moves slows it.
    rig.add_policy(speed=0.05)
    rig.run_until_moving()
    assert rig.ros.set_parameter(rig.observer, NODE, "limits.max_linear_speed", 0.02) == (True, "")
    count = len(rig.robot.commands)
    rig.wait_for(lambda: len(rig.robot.commands) > count + 60)
    arm = WidowX250s()
    travelled = [
        arm.fk(joints).position[0] for _, joints, _ in rig.robot.commands[count + 20 : count + 60]
    ]
    assert np.abs(np.diff(travelled)).max() <= 0.02 * 0.04 + 1e-4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strategi: sync", "has no parameter 'strategi'; did you mean 'strategy'?"),
        ("limits: {max_linear_speed: 9.0}", "'limits.max_linear_speed' cannot be 9"),
    ],
)
def test_a_wrong_parameter_file_ends_the_process_with_one_line(ros, tmp_path, text, message):
    path = tmp_path / "scheduler.yaml"
    path.write_text(f"chunk_scheduler:\n  ros__parameters:\n    {text}\n")
    process = ros.spawn(MODULE, "--ros-args", "--params-file", str(path))
    assert process.wait() == 2
    lines = process.output.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert str(path) in lines[0]


def test_a_wrong_override_ends_the_process_with_one_line(ros):
    process = ros.spawn(MODULE, "--ros-args", "-p", "fade:=0.4")
    assert process.wait() == 2
    assert process.output.strip() == (
        "chunk_scheduler: chunk_scheduler has no parameter 'fade'; did you mean 'fade_s'?"
    )
