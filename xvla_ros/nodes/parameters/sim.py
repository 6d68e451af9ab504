"""Parameters of the node `sim_wx250s`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xvla_ros import names
from xvla_ros.arm.constants import ARM_JOINTS, GRIPPER_JOINT
from xvla_ros.arm.xs_driver import SHADOWS
from xvla_ros.parameters.nice import NICE
from xvla_ros.parameters.parameter import Parameter, Values
from xvla_ros.sim import cameras
from xvla_ros.sim.tasks import TASKS
from xvla_ros.sim.xs_kinds import FAILURES, LIMITS

_CAMERA_ENABLED = "cameras.{}.enabled"
_MOTORS = (*ARM_JOINTS, *SHADOWS.values(), GRIPPER_JOINT)

SIM_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "robot_name",
        names.ROBOT,
        "Namespace of the simulated driver's topics and prefix of the frames.",
        read_only=True,
    ),
    NICE,
    Parameter(
        "driver",
        "jtc",
        "Interfaces of the arm: jtc = two joint_trajectory_controllers; xs = Interbotix' xs_sdk, "
        "which needs its interbotix_xs_msgs.",
        choices=("jtc", "xs"),
        read_only=True,
    ),
    Parameter(
        "xs.robot_model",
        "wx250s",
        "Whose limits the simulated xs_sdk reports.",
        choices=tuple(LIMITS),
        read_only=True,
    ),
    Parameter(
        "xs.reverse_joints",
        False,
        "The simulated xs_sdk has the arm's joints in reverse order, in its group and in "
        "joint_states.",
        read_only=True,
    ),
    Parameter(
        "xs.positions_only",
        False,
        "joint_states without velocities and efforts, as from Interbotix' own xs_sdk_sim.",
    ),
    Parameter(
        "xs.broken_motor",
        "none",
        "A motor that dies when this is set; ~/reset_world repairs it.",
        choices=("none", *_MOTORS),
    ),
    Parameter(
        "xs.failure",
        FAILURES[0],
        "How it dies: overload = shuts down with an error status; unplugged = answers no more; "
        "frozen = answers as ever and does nothing.",
        choices=FAILURES,
    ),
    Parameter(
        "task",
        "pick",
        "Task of the first episode; ~/reset_world changes it.",
        choices=tuple(TASKS),
        read_only=True,
    ),
    Parameter(
        "seed",
        0,
        "Start state of the first episode; ~/reset_world changes it.",
        minimum=0,
        maximum=2**32 - 1,
        read_only=True,
    ),
    Parameter(
        "jitter",
        True,
        "Light, table colour and camera poses vary a little with the seed.",
        read_only=True,
    ),
    Parameter("distractor", False, "A blue cube lies beside the red one.", read_only=True),
    Parameter(
        "camera_rate_hz",
        15.0,
        "Frames per second of each camera; drawn only while somebody subscribes.",
        "Hz",
        0.5,
        30.0,
    ),
    *(
        Parameter(_CAMERA_ENABLED.format(name), True, f"The camera {name} delivers frames.")
        for name in cameras.NAMES
    ),
    Parameter("jpeg_quality", 90, "Quality of the frames on the compressed topics.", "", 1, 100),
    Parameter(
        "publish_clock",
        False,
        "Publish /clock and stamp with simulated time; the other nodes then need use_sim_time.",
        read_only=True,
    ),
    Parameter(
        "realtime_factor",
        1.0,
        "Simulated seconds per second; other than 1 only with publish_clock.",
        minimum=0.05,
        maximum=10.0,
    ),
)


def check(values: Values) -> str | None:
    """Why the values cannot be so together."""
    if values["realtime_factor"] != 1.0 and not values["publish_clock"]:
        return "'realtime_factor' other than 1 needs 'publish_clock: true'"
    return None


@dataclass(frozen=True)
class SimSettings:
    """The values by field."""

    robot_name: str
    task: str
    seed: int
    jitter: bool
    distractor: bool
    camera_rate_hz: float
    enabled: frozenset[str]
    """Cameras that deliver frames."""
    jpeg_quality: int
    publish_clock: bool
    realtime_factor: float
    driver: str
    robot_model: str
    reverse_joints: bool
    positions_only: bool
    broken_motor: str
    failure: str


def settings(values: Values) -> SimSettings:
    """The settings that the declared values stand for."""
    plain: dict[str, Any] = {
        k.removeprefix("xs."): v
        for k, v in values.items()
        if not k.startswith("cameras.") and k != NICE.name
    }
    enabled = frozenset(n for n in cameras.NAMES if values[_CAMERA_ENABLED.format(n)])
    return SimSettings(enabled=enabled, **plain)
