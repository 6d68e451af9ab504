"""Parameters of the scheduler's back end for Interbotix' driver xs_sdk."""

from __future__ import annotations

from dataclasses import dataclass

from xvla_ros.arm.xs_driver import LINEAR_POSITION, PWM
from xvla_ros.parameters.parameter import Parameter, Values

XS_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "xs.profile_velocity_ms",
        100,
        "Time in which the motors run to each command; written once, at configuration.",
        "ms",
        20,
        1000,
        read_only=True,
    ),
    Parameter(
        "xs.profile_acceleration_ms",
        40,
        "Part of it for speeding up, and again for braking; at most half.",
        "ms",
        0,
        500,
        read_only=True,
    ),
    Parameter(
        "xs.gripper_mode",
        PWM,
        "How the gripper is driven: pwm = push until it is there or grasps, as the driver's own "
        "mode file has it; linear_position = to a gap. Another mode than the driver's costs the "
        "gripper its torque for a moment.",
        choices=(PWM, LINEAR_POSITION),
        read_only=True,
    ),
    Parameter(
        "xs.gripper_pwm",
        250,
        "PWM of the moving gripper; with linear_position its bound.",
        "",
        100,
        885,
        read_only=True,
    ),
    Parameter(
        "xs.gripper_hold_pwm",
        150,
        "PWM that goes on pressing what has been grasped, with pwm only.",
        "",
        0,
        350,
        read_only=True,
    ),
    Parameter(
        "xs.motor_check_s",
        1.0,
        "Every motor's error status is read once in this time, one motor after another.",
        "s",
        0.2,
        10.0,
        read_only=True,
    ),
    Parameter(
        "xs.driver_timeout_s",
        20.0,
        "How long configuration waits for the driver.",
        "s",
        1.0,
        120.0,
        read_only=True,
    ),
)


@dataclass(frozen=True)
class XsParams:
    """The values by field."""

    profile_velocity_ms: int
    profile_acceleration_ms: int
    gripper_mode: str
    gripper_pwm: int
    gripper_hold_pwm: int
    motor_check_s: float
    driver_timeout_s: float

    def __post_init__(self) -> None:
        if 2 * self.profile_acceleration_ms > self.profile_velocity_ms:
            raise ValueError(
                f"xs.profile_acceleration_ms {self.profile_acceleration_ms} is above half of "
                f"xs.profile_velocity_ms {self.profile_velocity_ms}"
            )
        if self.gripper_hold_pwm > self.gripper_pwm:
            raise ValueError(
                f"xs.gripper_hold_pwm {self.gripper_hold_pwm} is above "
                f"xs.gripper_pwm {self.gripper_pwm}"
            )


def xs_params(values: Values) -> XsParams:
    """The parameters that the declared values stand for.

    Raises:
        ValueError: two values do not fit together.
    """
    of_xs = {k.removeprefix("xs."): v for k, v in values.items() if k.startswith("xs.")}
    return XsParams(**of_xs)  # type: ignore[arg-type]
