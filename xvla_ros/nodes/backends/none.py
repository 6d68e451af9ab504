"""Commands that reach nobody: there is no publisher, so nothing can move."""

from __future__ import annotations

from numpy.typing import NDArray

from xvla_ros.nodes.backends.base import Health, Send
from xvla_ros.nodes.lifecycle import LifecycleNode
from xvla_ros.parameters.parameter import Values
from xvla_ros.scheduler.arm_io import JointMeasurement


class NoBackend:
    """For replaying recordings into the nodes."""

    def ready(
        self, joints: NDArray, velocities: NDArray, gripper_closed: float, ahead: float
    ) -> Send:
        """Nothing is sent."""
        return _nothing

    def watch(self, measured: JointMeasurement | None, sent: bool) -> None:
        """There is nothing to look after."""

    def missing(self) -> str:
        """Nobody is commanded, whoever listens."""
        return "no driver listens to the commands: the back end is 'none'"

    def drain(self, timeout: float) -> bool:
        """There is nothing to wait for."""
        return True

    def listeners(self) -> int:
        """Nobody listens."""
        return 0

    def health(self) -> Health | None:
        """There is no hardware."""
        return None

    def close(self) -> None:
        """There is nothing to free."""


def _nothing() -> None:
    return


def make(_node: LifecycleNode, _values: Values) -> NoBackend:
    """The back end; the node gets no publisher."""
    return NoBackend()
