"""What Interbotix' driver xs_sdk says of an arm and its motors, and whether that is as needed.

Names, units and values: Interbotix/interbotix_ros_core, `interbotix_xs_msgs` and
`interbotix_xs_sdk`; registers: the e-manual of Dynamixel's X series (emanual.robotis.com,
XM430-W350).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xvla_ros.arm import constants as c

ARM_GROUP = "arm"
SHADOWS = {"shoulder": "shoulder_shadow", "elbow": "elbow_shadow"}
"""Second motors of the two joints that have two; known to the driver by names of their own."""

POSITION, LINEAR_POSITION, PWM = "position", "linear_position", "pwm"
VELOCITY = "velocity"
TIME_PROFILE = "time"
MODE_REGISTER = {POSITION: 3, LINEAR_POSITION: 3, PWM: 16, VELOCITY: 1}
"""Number in Operating_Mode by the driver's name of the mode; a linear position is the driver's own
conversion in front of a position."""

HARDWARE_ERROR, TORQUE = "Hardware_Error_Status", "Torque_Enable"
OPERATING_MODE, GOAL_PWM = "Operating_Mode", "Goal_PWM"
PROFILE_VELOCITY, PROFILE_ACCELERATION = "Profile_Velocity", "Profile_Acceleration"

_ERROR_BITS = {
    0x01: "input voltage",
    0x04: "overheating",
    0x08: "motor encoder",
    0x10: "electrical shock",
    0x20: "overload",
}
# The driver reads its limits as 32-bit numbers from a URDF of few digits.
_LIMIT_RAD = 1e-3
_LIMIT_M = 1e-4


class DriverMismatch(ValueError):
    """The driver runs another arm, or cannot say which; one line with the mend."""


@dataclass(frozen=True)
class RobotInfo:
    """Answer to get_robot_info, for a group or for one joint."""

    mode: str
    profile_type: str
    joints: tuple[str, ...]
    """In the order in which the driver takes the group's commands."""
    ids: tuple[int, ...]
    lower: tuple[float, ...]
    """rad, or m for a finger; empty where the driver has no URDF."""
    upper: tuple[float, ...]
    max_speed: tuple[float, ...]
    """rad/s."""


def arm_order(info: RobotInfo) -> tuple[int, ...]:
    """Which of our joints stands at each place of the driver's arm command.

    Raises:
        DriverMismatch: the group is not the six joints of a WidowX 250S with its limits.
    """
    if not info.joints:
        raise DriverMismatch(f"the driver has no joint group '{ARM_GROUP}'")
    if sorted(info.joints) != sorted(c.ARM_JOINTS):
        raise DriverMismatch(
            f"the driver's group '{ARM_GROUP}' is {', '.join(info.joints)}; a WidowX 250S has "
            f"{', '.join(c.ARM_JOINTS)}: start the driver with robot_model:=wx250s"
        )
    order = tuple(c.ARM_JOINTS.index(name) for name in info.joints)
    _check_limits(
        info, [c.JOINT_LOWER[i] for i in order], [c.JOINT_UPPER[i] for i in order], _LIMIT_RAD
    )
    for name, i, speed in zip(info.joints, order, info.max_speed, strict=True):
        if speed < c.JOINT_MAX_SPEED[i] - 0.01:
            raise DriverMismatch(
                f"{name}: the driver's URDF allows {speed:.2f} rad/s, that of a WidowX 250S "
                f"{c.JOINT_MAX_SPEED[i]:.2f} rad/s: start the driver with robot_model:=wx250s"
            )
    return order


def check_gripper(info: RobotInfo, arm_ids: Sequence[int]) -> None:
    """Whether the driver's gripper is a WidowX 250S' and no joint of the arm.

    Raises:
        DriverMismatch: it is not.
    """
    if info.joints != (c.LEFT_FINGER,):
        raise DriverMismatch(
            f"the driver's gripper moves {', '.join(info.joints) or 'nothing'}, not {c.LEFT_FINGER}"
        )
    _check_limits(info, [c.FINGER_LOWER], [c.FINGER_UPPER], _LIMIT_M)
    if info.ids[0] in arm_ids:
        raise DriverMismatch(
            f"the driver's gripper is motor {info.ids[0]}, which is a joint of the arm too: "
            "start the driver with robot_model:=wx250s"
        )


def _check_limits(
    info: RobotInfo, lower: Sequence[float], upper: Sequence[float], tolerance: float
) -> None:
    count = len(info.joints)
    if {len(info.ids), len(info.lower), len(info.upper), len(info.max_speed)} != {count}:
        raise DriverMismatch(
            f"the driver gives no limits for {', '.join(info.joints)}, so whose they are cannot be "
            "checked: start it with interbotix_xsarm_control's launch file, which gives it the URDF"
        )
    for name, low, high, ours, theirs in zip(
        info.joints, info.lower, info.upper, lower, upper, strict=True
    ):
        if abs(low - ours) > tolerance or abs(high - theirs) > tolerance:
            raise DriverMismatch(
                f"{name}: the driver's limits are {low:.4g} to {high:.4g}, those of a WidowX 250S "
                f"{ours:.4g} to {theirs:.4g}: start the driver with robot_model:=wx250s"
            )


def motor_fault(motor: str, register: str, values: Sequence[int], expected: int) -> str:
    """What an answer to get_motor_registers says is wrong with a motor, or empty.

    A motor that does not answer the driver is missing from the answer, nothing else tells.
    """
    if len(values) != 1:
        return (
            f"motor '{motor}' does not answer: check its cable and power, then restart the driver"
        )
    value = values[0]
    if value == expected:
        return ""
    if register == HARDWARE_ERROR:
        return (
            f"motor '{motor}' has shut down ({_errors(value)}): relieve the arm, call reboot_motors"
        )
    if register == TORQUE:
        return f"motor '{motor}' has no torque: hold the arm and call torque_enable"
    if register == OPERATING_MODE:
        return (
            f"motor '{motor}' is in operating mode {value}, not {expected}: another node has set "
            "it; deactivate, clean up and configure again"
        )
    return (
        f"motor '{motor}' has {register} {value}, not {expected}: the driver was restarted or "
        "another node has set it; deactivate, clean up and configure again"
    )


def _errors(value: int) -> str:
    known = [text for bit, text in _ERROR_BITS.items() if value & bit]
    return ", ".join(known) or f"{HARDWARE_ERROR} {value:#04x}"


Expected = Mapping[str, Mapping[str, int]]
"""By motor and register, the value it must have."""


def expected_registers(gripper_mode: str, profile_velocity_ms: int) -> Expected:
    """What every motor's registers hold while the arm is streamed to."""
    arm = {
        HARDWARE_ERROR: 0,
        TORQUE: 1,
        OPERATING_MODE: MODE_REGISTER[POSITION],
        PROFILE_VELOCITY: profile_velocity_ms,
    }
    gripper = {HARDWARE_ERROR: 0, TORQUE: 1, OPERATING_MODE: MODE_REGISTER[gripper_mode]}
    motors: dict[str, Mapping[str, int]] = dict.fromkeys(c.ARM_JOINTS, arm)
    motors |= dict.fromkeys(SHADOWS.values(), arm)
    return {**motors, c.GRIPPER_JOINT: gripper}
