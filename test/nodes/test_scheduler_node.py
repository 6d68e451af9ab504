"""chunk_scheduler as a real process over real DDS, between a test robot and a test policy."""

from __future__ import annotations

import importlib.util
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool, Trigger

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Refusal
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes import qos

MODULE = "xvla_ros.nodes.scheduler_node"
NODE = names.SCHEDULER_NODE
PLAYERS = Path(__file__).with_name("players.py")
# Two periods of 20 ms at the joint speed that 0.05 m/s takes, with a margin.
CONTINUOUS_RAD = 0.03
AT_REST_RAD = 1e-6


def load_players():
    spec = importlib.util.spec_from_file_location("players", PLAYERS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["players"] = module
    spec.loader.exec_module(module)
    return module


players = load_players()


class Rig:
    """The scheduler process with a robot; a policy on request."""

    def __init__(self, ros, **options: Any) -> None:
        self.ros = ros
        self.options = options
        self.observer = ros.node()
        self.robot = ros.add(players.Robot(ros.context, **options))
        self.statuses: list[SchedulerStatus] = []
        self.observer.create_subscription(
            SchedulerStatus, names.of(NODE, names.STATUS), self.statuses.append, qos.STATUS
        )
        self.policy: Any = None
        self.process: Any = None

    def start(self, *parameters: str, active: bool = True):
        arguments = ["--ros-args"]
        for parameter in parameters:
            arguments += ["-p", parameter]
        self.process = self.ros.spawn(MODULE, *(arguments if parameters else ()))
        assert self.ros.state(self.observer, NODE) == "unconfigured"
        if active:
            assert self.ros.transition(self.observer, NODE, "configure"), self.process.output
            assert self.ros.transition(self.observer, NODE, "activate"), self.process.output
        return self.process

    def add_policy(self, **options):
        self.policy = self.ros.add(players.Policy(self.ros.context, **options, **self.options))
        self.ros.wait_for(lambda: self.policy.connected and self.policy.plans, what="a plan")
        return self.policy

    def trigger(self, service: str):
        return self.ros.call(self.observer, Trigger, names.of(NODE, service), Trigger.Request())

    def enable(self, on: bool = True):
        return self.ros.call(
            self.observer, SetBool, names.of(NODE, names.ENABLE_ACTUATION), SetBool.Request(data=on)
        )

    def actuate(self) -> None:
        """Switches actuation on as soon as robot and scheduler know one another."""
        self.ros.wait_for(lambda: self.enable().success, what="actuation")

    @property
    def status(self) -> SchedulerStatus:
        return self.ros.wait_for(lambda: self.statuses and self.statuses[-1], what="a status")

    def wait_status(self, condition, what: str, timeout: float = 15.0) -> SchedulerStatus:
        def newest():
            return self.statuses and condition(self.statuses[-1]) and self.statuses[-1]

        try:
            return self.ros.wait_for(newest, timeout, what)
        except BaseException:
            print(self.process.output[-3000:])
            print(self.statuses[-1:])
            raise

    def run_until_moving(self) -> None:
        """Actuates and waits until the arm has been led for a while."""
        self.actuate()
        self.ros.wait_for(lambda: self.policy is None or self.status.chunks_accepted >= 3)
        self.wait_moving()

    def wait_moving(self) -> None:
        def moving():
            recent = self.robot.commands[-5:]
            return len(recent) == 5 and np.abs(recent[0][1] - recent[-1][1]).max() > 1e-3

        self.ros.wait_for(moving, what="motion")

    def wait_rest(self, timeout: float = 10.0) -> None:
        """Until ten commands in a row have been the same."""

        def resting():
            recent = np.array([command[1] for command in self.robot.commands[-10:]])
            return len(recent) == 10 and np.ptp(recent, axis=0).max() < AT_REST_RAD

        self.ros.wait_for(resting, timeout, "rest")

    def refusals(self) -> dict[str, int]:
        status = self.status
        return dict(zip(status.refusal_reasons, status.refusal_counts, strict=True))


@pytest.fixture
def rig(ros):
    return Rig(ros)


def test_a_chunk_becomes_a_continuous_motion_once_actuation_is_on(rig):
    rig.start()
    rig.add_policy()
    rig.wait_status(lambda s: s.chunks_accepted > 2, "chunks in a dry run")
    assert not rig.status.actuating
    assert rig.robot.commands == []
    rig.run_until_moving()
    count = len(rig.robot.commands)
    rig.ros.wait_for(lambda: len(rig.robot.commands) > count + 100, what="a hundred commands")
    assert rig.robot.steps().max() < CONTINUOUS_RAD
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


def test_the_policy_is_killed_in_mid_chunk_and_the_arm_comes_to_rest_continuously(rig):
    # With a horizon of 5 s only the lost liveliness can be what stops the arm.
    rig.start("execution_horizon_s:=5.0")
    policy = rig.ros.spawn_script(PLAYERS)
    rig.actuate()
    rig.wait_moving()
    policy.kill()
    killed = time.monotonic()
    at_kill = len(rig.robot.commands)
    rig.wait_rest()
    rested = next(
        arrival
        for arrival, joints, _ in rig.robot.commands[at_kill:]
        if np.abs(joints - rig.robot.commands[-1][1]).max() < AT_REST_RAD
    )
    # Liveliness lease 1 s and the fade, with a margin for a busy machine.
    assert rested - killed < 1.0 + 0.4 + 0.6
    assert rig.robot.steps(at_kill - 50).max() < CONTINUOUS_RAD
    gaps = np.diff([arrival for arrival, _, _ in rig.robot.commands[at_kill - 50 :]])
    assert np.median(gaps) == pytest.approx(0.02, abs=0.005)
    # The loop goes on with the next policy process.
    rig.ros.spawn_script(PLAYERS)
    rig.wait_moving()
    assert rig.robot.steps(at_kill - 50).max() < CONTINUOUS_RAD


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


def test_stop_in_mid_motion_latches_and_a_chunk_in_flight_never_runs(rig):
    rig.start()
    policy = rig.add_policy()
    rig.run_until_moving()
    in_flight = policy.chunk()
    policy.paused = True
    position = rig.robot.commands[-1][1]
    assert rig.trigger(names.STOP).success
    policy.send(in_flight)
    rig.wait_rest()
    rig.wait_status(lambda s: s.state == SchedulerStatus.STOPPED, "STOPPED")
    rig.ros.wait_for(lambda: rig.refusals().get(Refusal.OLD_EPOCH.value, 0) == 1)
    stopped_at = rig.robot.commands[-1][1]
    assert np.abs(stopped_at - position).max() < 0.1
    # What the policy makes after the stop does not run either.
    rig.ros.wait_for(lambda: policy.plans[-1].epoch > in_flight.epoch, what="the new epoch")
    policy.send()
    rig.ros.wait_for(lambda: rig.refusals().get(Refusal.STOPPED.value, 0) == 1)
    assert rig.status.epoch > in_flight.epoch
    assert np.array_equal(rig.robot.commands[-1][1], stopped_at)
    assert not rig.enable(True).success or rig.status.actuating
    assert rig.trigger(names.CLEAR_STOP).success
    policy.paused = False
    rig.wait_moving()


def test_stop_holds_through_states_in_which_nothing_moves(rig):
    rig.start(active=False)
    assert rig.trigger(names.STOP).success
    assert rig.ros.transition(rig.observer, NODE, "configure")
    assert rig.status.state == SchedulerStatus.STOPPED
    assert rig.ros.transition(rig.observer, NODE, "activate")
    rig.ros.wait_for(lambda: "stopped" in rig.enable().message)
    assert not rig.status.actuating
    assert rig.trigger(names.CLEAR_STOP).success
    rig.actuate()


def test_joint_states_stop_and_the_arm_rests_suspended_until_they_are_back(rig):
    rig.start("execution_horizon_s:=5.0")
    policy = rig.add_policy()
    rig.run_until_moving()
    rig.robot.silent = True
    rig.wait_status(lambda s: s.state == SchedulerStatus.SUSPENDED, "SUSPENDED")
    rig.ros.wait_for(lambda: rig.refusals().get(Refusal.BUSY.value, 0) >= 1)
    count = len(rig.robot.commands)
    assert rig.robot.steps(count - 50).max() < CONTINUOUS_RAD
    assert "joint states are" in rig.status.message
    policy.paused = True
    rig.robot.silent = False
    rig.wait_status(lambda s: s.state == SchedulerStatus.HOLDING, "HOLDING")
    policy.paused = False
    rig.wait_moving()
    assert rig.robot.steps(count - 50).max() < CONTINUOUS_RAD


def test_after_a_kill_and_respawn_actuation_is_off_and_the_arm_goes_on_where_it_was(rig):
    rig.start("start_actuation:=true")
    rig.add_policy()
    rig.wait_moving()
    epoch = rig.status.epoch
    rig.process.kill()
    last = rig.robot.commands[-1][1]
    commands = len(rig.robot.commands)
    rig.statuses.clear()
    # As a launch system respawns it: the same parent, the same arguments.
    rig.start("start_actuation:=true")
    rig.wait_status(lambda s: s.chunks_accepted > 1, "chunks in a dry run")
    assert not rig.status.actuating
    assert rig.status.epoch > epoch
    assert len(rig.robot.commands) == commands
    assert "start_actuation is ignored" in rig.process.output
    rig.policy.paused = True
    rig.wait_status(lambda s: s.state != SchedulerStatus.EXECUTING, "rest", 20.0)
    rig.actuate()
    rig.ros.wait_for(lambda: len(rig.robot.commands) > commands)
    assert np.abs(rig.robot.commands[commands][1] - last).max() < 1e-9


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


def test_a_clock_that_jumps_back_makes_the_arm_hold_without_a_burst(ros):
    clock = SimulatedTime(ros)
    rig = Rig(ros, parameter_overrides=[Parameter("use_sim_time", value=True)])
    rig.start("use_sim_time:=true", "execution_horizon_s:=5.0")
    policy = rig.add_policy()
    rig.run_until_moving()
    epoch = rig.status.epoch
    policy.paused = True
    count = len(rig.robot.commands)
    jumped = time.monotonic()
    clock.offset -= 20.0
    rig.wait_rest()
    rested = next(
        arrival
        for arrival, joints, _ in rig.robot.commands[count:]
        if np.abs(joints - rig.robot.commands[-1][1]).max() < AT_REST_RAD
    )
    # The chunk would have gone on for seconds.
    assert rested - jumped < 1.5
    rig.wait_status(lambda s: s.epoch > epoch, "a new epoch")
    rig.ros.wait_for(lambda: policy.plans[-1].epoch > epoch, what="a plan of the new epoch")
    policy.paused = False
    rig.wait_moving()
    assert rig.robot.steps(count - 50).max() < CONTINUOUS_RAD


def test_joint_names_in_another_order_are_the_same_arm(rig):
    rig.robot.order = list(reversed(constants.JOINT_STATE_NAMES))
    rig.start()
    rig.add_policy()
    rig.run_until_moving()
    assert np.abs(rig.robot.commands[0][1] - np.array(constants.READY)).max() < 1e-6
    assert rig.robot.steps().max() < CONTINUOUS_RAD


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_brakes_and_leaves_the_arm_with_a_hold_command(rig, number):
    rig.start()
    rig.add_policy()
    rig.run_until_moving()
    count = len(rig.robot.commands)
    rig.process.send(number)
    assert rig.process.wait() == 0
    rig.ros.wait_for(
        lambda: np.abs(rig.robot.commands[-1][2]).max() == 0.0, what="a command at rest"
    )
    assert rig.robot.steps(count - 20).max() < CONTINUOUS_RAD
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
    rig.ros.wait_for(lambda: len(rig.robot.commands) > count + 60)
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
