"""Commands that reach nobody: there is no publisher, so nothing can move."""

from __future__ import annotations

from numpy.typing import NDArray
from rclpy.lifecycle.node import LifecycleNodeMixin

from xvla_ros.nodes.backends.base import Health


class NoBackend:
    """For replaying recordings into the nodes."""

    def send(
        self, joints: NDArray, velocities: NDArray, gripper_closed: float, ahead: float
    ) -> None:
        """Nothing is sent."""

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


def make(_node: LifecycleNodeMixin, _robot: str) -> NoBackend:
    """The back end; the node gets no publisher."""
    return NoBackend()
