"""chunk_scheduler with the back end `jtc` where the controllers are absent or set up wrongly."""

from __future__ import annotations

import pytest
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from xvla_ros import names
from xvla_ros.arm import constants


class Recorder(Node):
    """Listens to every command, as a recorder does, and is no driver."""

    def __init__(self, context) -> None:
        super().__init__(names.RECORDER_NODE, context=context)
        self.commands: list[JointTrajectory] = []
        for topic in (names.arm_trajectory(), names.gripper_trajectory()):
            self.create_subscription(JointTrajectory, topic, self.commands.append, 10)


class Controller(Node):
    """A joint_trajectory_controller, as far as others see it."""

    def __init__(self, context, topic: str, joints: list[str], **parameters) -> None:
        namespace, name, _ = topic.rsplit("/", 2)
        super().__init__(name, namespace=namespace, context=context)
        self.declare_parameter("joints", joints)
        for parameter, value in parameters.items():
            self.declare_parameter(parameter, value)
        self.create_subscription(JointTrajectory, topic, lambda _: None, 10)


@pytest.fixture
def rig(ros, make_rig):
    return make_rig(robot=Recorder(ros.context))


def test_without_a_controller_nothing_is_commanded_and_the_reason_names_who_listens(rig, ros):
    rig.start()
    told = "no driver listens: no joint_trajectory_controller on {} (only /xvla_recorder, which is"
    rig.wait_for(lambda: told.format(names.arm_trajectory()) in rig.enable().message)
    rig.wait_for(lambda: told.format(names.arm_trajectory()) in rig.process.output)
    assert told.format(names.arm_trajectory()) in rig.trigger(names.GO_READY).message

    arm = [*constants.ARM_JOINTS[:5], "wrist"]
    options = {"interpolate_from_desired_state": False}
    ros.add(Controller(ros.context, names.arm_trajectory(), arm, **options))
    rig.wait_for(lambda: told.format(names.gripper_trajectory()) in rig.enable().message)
    ros.add(Controller(ros.context, names.gripper_trajectory(), ["left_finger"], **options))
    rig.wait_for(
        lambda: (
            "/wx250s/arm_controller moves waist, shoulder, elbow, forearm_roll, wrist_angle, wrist,"
            in rig.enable().message
        ),
        what="a refusal that names the joints",
    )
    rig.wait_for(
        lambda: (
            "arm_controller starts each trajectory from the measured position" in rig.process.output
        )
    )
    assert rig.robot.commands == []
