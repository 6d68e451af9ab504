"""chunk_scheduler with the back end `xs` and a simulated xs_sdk, and what becomes of each fault."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
from interbotix_xs_msgs.msg import JointGroupCommand, JointSingleCommand
from interbotix_xs_msgs.srv import OperatingModes, Reboot, RegisterValues
from rclpy.node import Node
from sensor_msgs.msg import JointState

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.msg import SchedulerStatus
from xvla_ros.nodes import qos
from xvla_ros.nodes.conversions import seconds
from xvla_ros.srv import ResetWorld

SIM = names.SIM_NODE
XS = "backend:=xs"
LOWER, UPPER = np.array(constants.JOINT_LOWER), np.array(constants.JOINT_UPPER)


class XsArm(Node):
    """What goes to and comes from the driver.

    Attributes:
        commands: (monotonic time of arrival, joints in our order, zeros) of every group command.
        order: the joints as the driver's group has them.
        states: every joint state.
        gripper: every command to the gripper's motor.
    """

    def __init__(self, context) -> None:
        super().__init__("onlooker", context=context)
        self.order: tuple[str, ...] = constants.ARM_JOINTS
        self.commands: list[tuple[float, np.ndarray, np.ndarray]] = []
        self.states: list[JointState] = []
        self.gripper: list[float] = []
        self.create_subscription(JointGroupCommand, names.xs_joint_group(), self._command, 200)
        self.create_subscription(JointSingleCommand, names.xs_joint_single(), self._single, 200)
        self.create_subscription(
            JointState, names.joint_states(), self.states.append, qos.JOINT_STATES
        )

    def _command(self, message: JointGroupCommand) -> None:
        assert message.name == "arm"
        values = dict(zip(self.order, message.cmd, strict=True))
        joints = np.array([values[name] for name in constants.ARM_JOINTS])
        self.commands.append((time.monotonic(), joints, np.zeros(6)))

    def _single(self, message: JointSingleCommand) -> None:
        assert message.name == "gripper"
        self.gripper.append(message.cmd)

    def steps(self, since: int = 0) -> np.ndarray:
        positions = np.array([command[1] for command in self.commands[since:]])
        return np.abs(np.diff(positions, axis=0)).max(axis=1)

    def position(self, joint: str) -> float:
        message = self.states[-1]
        return float(message.position[list(message.name).index(joint)])

    def velocity(self) -> np.ndarray:
        """Of every joint over the last ten joint states, rad/s."""
        first, last = self.states[-10], self.states[-1]
        elapsed = seconds(last.header.stamp) - seconds(first.header.stamp)
        return np.subtract(last.position[:6], first.position[:6]) / elapsed

    def joints(self) -> np.ndarray:
        return np.array([self.position(name) for name in constants.ARM_JOINTS])

    def assert_inside(self) -> None:
        """No command has ever left the joint limits."""
        joints = np.array([command[1] for command in self.commands])
        assert ((joints >= LOWER) & (joints <= UPPER)).all()


@pytest.fixture
def make_xs(ros, make_rig):
    """A simulated xs_sdk in a process of its own, with parameters of it."""

    def make(*parameters: str):
        arm = XsArm(ros.context)
        rig = make_rig(robot=arm)
        arguments = [word for p in ("driver:=xs", *parameters) for word in ("-p", p)]
        rig.sim = ros.spawn("xvla_ros.nodes.sim_node", "--ros-args", *arguments)
        ros.wait_for(lambda: arm.states, 60.0, "the simulated arm")
        return rig

    return make


def register(rig, motor: str, name: str) -> list[int]:
    request = RegisterValues.Request(cmd_type="single", name=motor, reg=name)
    service = names.xs_service("get_motor_registers")
    return list(rig.ros.call(rig.observer, RegisterValues, service, request).values)


def set_mode(rig, mode: str) -> None:
    request = OperatingModes.Request(cmd_type="group", name="arm", mode=mode, profile_type="time")
    rig.ros.call(rig.observer, OperatingModes, names.xs_service("set_operating_modes"), request)


def set_sim(rig, name: str, value) -> None:
    assert rig.ros.set_parameter(rig.observer, SIM, name, value) == (True, "")


def stopped_by(rig, reason: str) -> SchedulerStatus:
    return rig.wait_status(
        lambda s: s.state == SchedulerStatus.STOPPED and reason in s.message and not s.actuating,
        f"a stop by '{reason}'",
    )


def test_the_loop_runs_whatever_the_driver_s_order_mode_and_silence_until_its_mode_is_changed(
    make_xs,
):
    rig = make_xs("xs.reverse_joints:=true", "xs.positions_only:=true")
    arm = rig.robot
    arm.order = constants.ARM_JOINTS[::-1]
    set_mode(rig, "velocity")
    rig.start(XS)
    assert "the arm is in mode 'velocity'" in rig.process.output
    assert register(rig, "elbow", "Operating_Mode") == [3]
    assert register(rig, "elbow_shadow", "Profile_Velocity") == [100]
    policy = rig.add_policy()
    rig.run_until_moving()
    count = len(arm.commands)
    rig.wait_for(lambda: len(arm.commands) > count + 60, what="a second of motion")
    rig.assert_continuous()
    arm.assert_inside()
    assert list(arm.states[-1].name)[:6] == list(arm.order)
    assert not arm.states[-1].velocity
    # Every joint goes where its own command goes.
    policy.paused = True
    rig.wait_rest()
    rig.wait_for(
        lambda: np.abs(arm.joints() - arm.commands[-1][1]).max() < 0.02, what="the arm to arrive"
    )
    assert np.abs(arm.commands[-1][1] - arm.commands[0][1]).max() > 0.05
    # Closed on nothing the motor rests; the driver would let it push for ever.
    policy.send(policy.chunk(), gripper=np.ones(30))
    rig.wait_for(lambda: arm.position("left_finger") < 0.0165, what="the gripper to close")
    rig.wait_for(lambda: arm.gripper[-1] == 0.0, what="no PWM")
    assert {-250.0, 0.0} <= set(arm.gripper) <= {-250.0, -150.0, 0.0, 250.0}
    # Written once: nothing but commands since.
    assert register(rig, "elbow", "Profile_Velocity") == [100]
    policy.paused = False
    rig.wait_moving()
    set_mode(rig, "velocity")
    stopped_by(rig, "is in operating mode 1, not 3: another node has set it")
    # What the driver took for speeds is ended: no joint turns on for ever.
    rig.wait_for(lambda: not arm.commands[-1][1].any(), what="zero speeds")
    rig.wait_for(lambda: abs(arm.velocity()).max() < 0.02, what="an arm at rest")
    refused = rig.trigger(names.CLEAR_STOP)
    count = len(arm.commands)
    assert not refused.success
    assert "operating mode 1" in refused.message
    assert "operating mode 1" in rig.enable().message
    assert len(arm.commands) == count
    arm.assert_inside()


def test_a_motor_that_dies_stops_the_arm_with_its_name_and_the_arm_goes_on_after_the_mend(make_xs):
    rig = make_xs()
    arm = rig.robot
    rig.start(XS, "xs.gripper_mode:=linear_position")
    assert "the gripper is in mode 'pwm'" in rig.process.output
    assert register(rig, "gripper", "Operating_Mode") == [3]
    assert register(rig, "gripper", "Goal_PWM") == [250]
    rig.add_policy()
    rig.run_until_moving()
    # A joint that does not fall, so that the arm stays inside its workspace.
    set_sim(rig, "xs.broken_motor", "waist")
    stopped_by(rig, "motor 'waist' has shut down (overload)")
    assert "the stop remains: motor 'waist'" in rig.trigger(names.CLEAR_STOP).message
    ended = len(arm.commands)
    request = Reboot.Request(cmd_type="group", name="arm", enable=True, smart_reboot=True)
    rig.ros.call(rig.observer, Reboot, names.xs_service("reboot_motors"), request)
    rig.wait_for(lambda: rig.trigger(names.CLEAR_STOP).success, what="the stop to be released")
    here = arm.joints()
    assert len(arm.commands) == ended, "nothing is sent to an arm that was mended"
    rig.policy.paused = True
    rig.actuate()
    rig.wait_for(lambda: len(arm.commands) > ended, what="a command")
    assert arm.commands[ended][1] == pytest.approx(here, abs=0.06)
    rig.policy.paused = False
    rig.wait_moving()
    # Open: a gap of two fingers.
    assert arm.gripper[-1] == pytest.approx(2 * 0.037)

    # One that answers as ever and does nothing, and one that does not answer at all.
    for motor, failure, reason in (
        ("shoulder", "frozen", "motor 'shoulder' is dead: commanded"),
        ("wrist_angle", "unplugged", "motor 'wrist_angle' does not answer"),
    ):
        set_sim(rig, "xs.failure", failure)
        set_sim(rig, "xs.broken_motor", motor)
        stopped_by(rig, reason)
        reset = ResetWorld.Request(seed=0)
        rig.ros.call(rig.observer, ResetWorld, names.of(SIM, names.RESET_WORLD), reset)
        rig.wait_for(lambda: rig.trigger(names.CLEAR_STOP).success, what="the stop to be released")
        rig.actuate()
        rig.wait_moving()
    arm.assert_inside()


def test_another_arm_and_an_absent_driver_end_configure_with_the_reason(make_xs):
    rig = make_xs("xs.robot_model:=vx300s")
    rig.start(XS, active=False)
    assert not rig.ros.transition(rig.observer, names.SCHEDULER_NODE, "configure")
    assert "configure failed: shoulder: the driver's limits are -1.85 to 1.257" in (
        rig.process.output
    )
    rig.process.send(signal.SIGINT)
    assert rig.process.wait() == 0
    rig.start(XS, "robot_name:=other", "xs.driver_timeout_s:=1.0", active=False)
    assert not rig.ros.transition(rig.observer, names.SCHEDULER_NODE, "configure")
    assert "no service /other/get_robot_info within 1 s: start the arm's driver" in (
        rig.process.output
    )
    assert rig.robot.commands == []
