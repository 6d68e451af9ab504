"""Whether an xs_sdk drives the arm that is meant, and what its registers say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from xvla_ros.arm import constants as c
from xvla_ros.arm import xs_driver as xs
from xvla_ros.arm.xs_driver import DriverMismatch, RobotInfo, arm_order, check_gripper, motor_fault

# As interbotix_xsarm_control/config/wx250s.yaml and wx250s.urdf.xacro have them, in degrees.
IDS = (1, 2, 4, 6, 7, 8)
LOWER = tuple(map(math.radians, (-180.0, -108.0, -123.0, -180.0, -100.0, -180.0)))
UPPER = tuple(map(math.radians, (180.0, 114.0, 92.0, 180.0, 123.0, 180.0)))
ARM = RobotInfo("position", "time", c.ARM_JOINTS, IDS, LOWER, UPPER, (3.1415927,) * 6)
GRIPPER = RobotInfo("pwm", "velocity", ("left_finger",), (9,), (0.015,), (0.037,), (1.0,))


def reordered(info: RobotInfo, order: list[int]) -> RobotInfo:
    def pick(values: tuple) -> tuple:
        return tuple(values[i] for i in order)

    return RobotInfo(
        info.mode,
        info.profile_type,
        *map(pick, (info.joints, info.ids, info.lower, info.upper, info.max_speed)),
    )


def test_the_published_arm_is_recognised_in_whatever_order_its_joints_come():
    assert arm_order(ARM) == (0, 1, 2, 3, 4, 5)
    shuffled = reordered(ARM, [4, 2, 0, 5, 1, 3])
    assert arm_order(shuffled) == (4, 2, 0, 5, 1, 3)
    check_gripper(GRIPPER, IDS)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (RobotInfo("", "", (), (), (), (), ()), "no joint group 'arm'"),
        (
            reordered(ARM, [0, 1, 2, 4, 5]),
            "is waist, shoulder, elbow, wrist_angle, wrist_rotate; a WidowX 250S has",
        ),
        (
            replace(ARM, lower=(*ARM.lower[:2], math.radians(-101.0), *ARM.lower[3:])),
            "elbow: the driver's limits are -1.763 to 1.606, those of a WidowX 250S -2.147 to",
        ),
        (replace(ARM, lower=(), upper=(), max_speed=()), "gives no limits"),
        (replace(ARM, max_speed=(1.0,) * 6), "waist: the driver's URDF allows 1.00 rad/s"),
    ],
)
def test_another_arm_is_refused_with_what_differs(info, message):
    with pytest.raises(DriverMismatch, match=message):
        arm_order(info)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (replace(GRIPPER, ids=(8,)), "gripper is motor 8, which is a joint of the arm too"),
        (replace(GRIPPER, lower=(0.021,), upper=(0.057,)), "limits are 0.021 to 0.057"),
        (replace(GRIPPER, joints=("wrist_rotate",)), "moves wrist_rotate, not left_finger"),
    ],
)
def test_another_gripper_is_refused(info, message):
    with pytest.raises(DriverMismatch, match=message):
        check_gripper(info, IDS)


@pytest.mark.parametrize(
    ("register", "values", "expected", "message"),
    [
        (xs.HARDWARE_ERROR, [0], 0, ""),
        (xs.HARDWARE_ERROR, [0x20], 0, "'elbow' has shut down (overload)"),
        (xs.HARDWARE_ERROR, [0x24], 0, "(overheating, overload)"),
        (xs.HARDWARE_ERROR, [0x80], 0, "(Hardware_Error_Status 0x80)"),
        (xs.HARDWARE_ERROR, [], 0, "'elbow' does not answer"),
        (xs.TORQUE, [0], 1, "has no torque"),
        (xs.OPERATING_MODE, [1], 3, "operating mode 1, not 3"),
        (
            xs.PROFILE_VELOCITY,
            [2000],
            100,
            "Profile_Velocity 2000, not 100: the driver",
        ),
    ],
)
def test_a_register_that_is_not_as_it_must_be_is_told_with_motor_and_mend(
    register, values, expected, message
):
    fault = motor_fault("elbow", register, values, expected)
    assert bool(fault) == bool(message)
    assert message in fault


def test_both_motors_of_shoulder_and_elbow_are_watched():
    motors = xs.expected_registers("pwm", 100)
    assert len(motors) == 9
    assert motors["shoulder_shadow"] == motors["elbow_shadow"] == motors["shoulder"]
    # Numbers of the modes in the e-manual: 3 position, 16 PWM.
    assert motors["waist"][xs.OPERATING_MODE] == 3
    assert motors["gripper"][xs.OPERATING_MODE] == 16
    assert xs.expected_registers("linear_position", 100)["gripper"][xs.OPERATING_MODE] == 3
