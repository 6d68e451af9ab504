"""The arm's own driver, to be launched together with policy and scheduler. Free of ROS.

Packages, files and arguments are those of Interbotix/interbotix_ros_manipulators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xvla_ros import names
from xvla_ros.nodes.bringup import Arguments, BringUp, BringUpError, describe

ROBOT_MODEL = "wx250s"
DEFAULT_BACKEND = "xs"
_LAUNCH_FILES = {
    "xs": ("interbotix_xsarm_control", "xsarm_control.launch.py"),
    "jtc": ("interbotix_xsarm_ros_control", "xsarm_ros_control.launch.py"),
}
INSTALL = (
    "build Interbotix' interbotix_ros_core, interbotix_ros_manipulators and "
    "interbotix_ros_toolboxes (branch jazzy) in a workspace and source it (docs/widowx.md)"
)

DRIVER_ARGUMENTS: Mapping[str, tuple[str, str]] = {
    "use_rviz": ("false", "the driver's RViz"),
    "load_configs": (
        "true",
        "the driver writes its start-up registers to the motors; needed once, false is faster",
    ),
}
"""By argument of the driver's own launch file: default and description. ros2_control's has no
load_configs, and writes them always."""


@dataclass(frozen=True)
class DriverLaunch:
    """A launch file of another package."""

    package: str
    file: str
    arguments: Mapping[str, str]

    @property
    def absent(self) -> str:
        """What to say where the package is not installed."""
        return f"no package '{self.package}', which drives the arm: {INSTALL}"


def describe_widowx(arguments: Arguments) -> BringUp:
    """Policy and scheduler for the driver that `driver_launch` starts.

    Raises:
        BringUpError: see `describe`.
    """
    return describe(replace(arguments, backend=_backend(arguments), sim=False))


def driver_launch(arguments: Arguments, texts: Mapping[str, str]) -> DriverLaunch:
    """The driver of a real WidowX 250S for the back end that is asked for.

    Args:
        arguments: of the bring-up.
        texts: values of `DRIVER_ARGUMENTS`.

    Raises:
        BringUpError: a back end that no driver belongs to.
    """
    backend = _backend(arguments)
    if backend not in _LAUNCH_FILES:
        raise BringUpError(f"backend:={backend}: a driver belongs to {', '.join(_LAUNCH_FILES)}")
    package, file = _LAUNCH_FILES[backend]
    wanted = {"robot_model": ROBOT_MODEL, "robot_name": arguments.robot_name or names.ROBOT}
    if backend != "xs":
        texts = {name: text for name, text in texts.items() if name != "load_configs"}
    return DriverLaunch(package, file, {**wanted, **texts})


def _backend(arguments: Arguments) -> str:
    return arguments.backend or DEFAULT_BACKEND
