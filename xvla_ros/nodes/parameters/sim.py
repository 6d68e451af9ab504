"""Parameters of the node `sim_wx250s`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xvla_ros import names
from xvla_ros.parameters.parameter import Parameter, Values
from xvla_ros.sim import cameras
from xvla_ros.sim.tasks import TASKS

_CAMERA_ENABLED = "cameras.{}.enabled"

SIM_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "robot_name",
        names.ROBOT,
        "Namespace of the simulated driver's topics and prefix of the frames.",
        read_only=True,
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


def settings(values: Values) -> SimSettings:
    """The settings that the declared values stand for."""
    plain: dict[str, Any] = {k: v for k, v in values.items() if not k.startswith("cameras.")}
    enabled = frozenset(n for n in cameras.NAMES if values[_CAMERA_ENABLED.format(n)])
    return SimSettings(enabled=enabled, **plain)
