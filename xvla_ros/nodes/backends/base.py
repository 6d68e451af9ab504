"""What a back end is: the last step, from joint numbers to the topics of one kind of driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from numpy.typing import NDArray

from xvla_ros.nodes.diagnostics import Level
from xvla_ros.nodes.lifecycle import LifecycleNode
from xvla_ros.parameters.parameter import Values
from xvla_ros.scheduler.arm_io import JointMeasurement

# Message packages of a driver may be absent, so a back end is imported only when it is chosen.
_MODULES = {
    "jtc": "xvla_ros.nodes.backends.jtc",
    "xs": "xvla_ros.nodes.backends.xs",
    "none": "xvla_ros.nodes.backends.none",
}
_INSTALL = {
    "interbotix_xs_msgs": "build github.com/Interbotix/interbotix_ros_core in your workspace and "
    "source it (docs/widowx.md)",
}


Send = Callable[[], None]


@dataclass(frozen=True)
class Health:
    """What a driver last told about its hardware, for /diagnostics and as a reason to stop."""

    level: Level
    message: str
    """One line that an operator understands: `shoulder: overload`."""
    values: Mapping[str, object] = field(default_factory=dict)
    """Figures by name, units in the name: `shoulder temperature [C]`."""
    hardware_id: str = ""
    fault: str = ""
    """Why the arm must not move, with the mend; it stops, latched, and the stop cannot be released
    while this lasts. Empty = it may move."""


class Backend(Protocol):
    """Commands one arm and its gripper. Nothing is sent before the first command is."""

    def ready(
        self, joints: NDArray, velocities: NDArray, gripper_closed: float, ahead: float
    ) -> Send:
        """Makes a command ready; calling the result sends it.

        What takes time is done here, so that commands leave as evenly as they are due.

        Args:
            joints: (6,), rad.
            velocities: (6,), rad/s.
            gripper_closed: 0 with the gripper open, 1 with it closed.
            ahead: seconds after sending in which the joints are to be reached.
        """

    def watch(self, measured: JointMeasurement | None, sent: bool) -> None:
        """Looks after the driver, once per period and after the command.

        Args:
            measured: the newest joint states; None where they are missing or too old.
            sent: whether a command was sent in this period.
        """

    def missing(self) -> str:
        """Why commands would reach no driver, or empty."""

    def drain(self, timeout: float) -> bool:
        """Waits until the driver has taken what was sent; whether it did within `timeout` s."""

    def listeners(self) -> int:
        """Number of drivers that listen to the arm's commands."""

    def health(self) -> Health | None:
        """State of the hardware as last polled, None where the driver tells nothing.

        Asked in every command period: returns what is known and waits for nothing.
        """

    def close(self) -> None:
        """Frees the publishers."""


class BackendError(RuntimeError):
    """A back end that cannot be used on this machine; says what is missing."""


def make_backend(name: str, node: LifecycleNode, values: Values) -> Backend:
    """The back end of that name, with its publishers on the node.

    Args:
        name: one of `parameters.scheduler.BACKENDS`.
        node: is not being spun meanwhile.
        values: parameters of the scheduler node.

    Raises:
        BackendError: unknown name, its message package is not installed, or the driver is absent.
        ValueError: the driver runs another arm.
    """
    if name not in _MODULES:
        raise BackendError(f"no back end '{name}'; there is {', '.join(_MODULES)}")
    try:
        module = import_module(_MODULES[name])
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        mend = f": {_INSTALL[package]}" if package in _INSTALL else ""
        raise BackendError(f"back end '{name}' needs {package}, which is missing{mend}") from error
    make: Callable[[LifecycleNode, Values], Backend] = module.make
    return make(node, values)
