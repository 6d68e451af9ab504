"""Whether a joint_trajectory_controller is set up for a stream of short trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

JOINTS, FROM_DESIRED = "joints", "interpolate_from_desired_state"


class ControllerSettings:
    """Asks a controller for its parameters once, as soon as it is there.

    A driver without such parameters, as the simulated robot, is taken as it is.

    Args:
        node: whose executor takes the answer.
        topic: of the commands; the controller is the node above it.
        joints: that are commanded.

    Attributes:
        fault: why the controller would not carry the commands out, or empty.
    """

    def __init__(self, node: Node, topic: str, joints: Sequence[str]) -> None:
        self._node = node
        self._joints = joints
        self._controller = topic.rpartition("/")[0]
        self._client = node.create_client(GetParameters, f"{self._controller}/get_parameters")
        self._asked = False
        self.fault = ""

    def ask(self) -> None:
        """Asks when there is somebody to ask; once for each appearance of the controller."""
        there = self._client.service_is_ready()
        if there and not self._asked:
            request = GetParameters.Request(names=[JOINTS, FROM_DESIRED])
            self._client.call_async(request).add_done_callback(self._answer)
        if not there:
            self.fault = ""
        self._asked = there

    def close(self) -> None:
        """Frees the client."""
        self._node.destroy_client(self._client)

    def _answer(self, future: Any) -> None:
        values = [parameter_value_to_python(value) for value in future.result().values]
        # A parameter that was never declared makes the whole answer empty.
        if len(values) != 2:
            return
        joints, from_desired = values
        if joints is not None and sorted(joints) != sorted(self._joints):
            self.fault = (
                f"{self._controller} moves {', '.join(joints)}, not {', '.join(self._joints)}: "
                f"mend its parameter '{JOINTS}'"
            )
        if from_desired is False:
            self._node.get_logger().warning(
                f"{self._controller} starts each trajectory from the measured position, so the arm "
                f"lags and sags: set its parameter '{FROM_DESIRED}' to true"
            )
