"""Base of the package's lifecycle nodes: what a transition does when something goes wrong.

rclpy turns an exception in a transition callback into ERROR without a word, and a request for an
impossible transition into an exception that ends the node. Here the reason is logged, a failed
`configure` or `activate` leaves the node in the state before so that it can be tried again, and an
impossible request is refused.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.lifecycle.node import LifecycleNodeMixin
from rclpy.node import Node

SUCCESS = TransitionCallbackReturn.SUCCESS
FAILURE = TransitionCallbackReturn.FAILURE
ERROR = TransitionCallbackReturn.ERROR


class LifecycleNode(LifecycleNodeMixin, Node):
    """A lifecycle node whose transitions are plain methods that raise when they fail.

    A subclass overrides `configure`, `activate`, `deactivate` and `cleanup`. `cleanup` must cope
    with whatever a failed `configure` left behind. The lifecycle services have a callback group
    of their own, so that with more than one thread `get_state` answers during a long configure.
    """

    expected_errors: tuple[type[Exception], ...] = (ValueError, OSError)
    """Errors whose message says it all; any other is logged with its traceback."""

    def __init__(self, name: str, **options: Any) -> None:
        Node.__init__(self, name, **options)
        self.lifecycle_group = ReentrantCallbackGroup()
        LifecycleNodeMixin.__init__(self, callback_group=self.lifecycle_group)
        service = self._service_change_state
        service.callback = self._refuse_impossible(service.callback)

    # What subclasses override.

    def configure(self) -> None:
        """Unconfigured to inactive. An exception leaves the node unconfigured."""

    def activate(self) -> None:
        """Inactive to active; managed publishers are active already."""

    def deactivate(self) -> None:
        """Active to inactive; managed publishers are still active."""

    def cleanup(self) -> None:
        """Frees what `configure` made; also called after a failed `configure` and at the end."""

    # What rclpy calls.

    @property
    def is_active(self) -> bool:
        """Whether the node is in the state active."""
        return bool(self._state_machine.current_state[1] == "active")

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Configures; a failure is logged and leaves the node unconfigured."""
        if self._done("configure", self.configure) and super().on_configure(state) == SUCCESS:
            return SUCCESS
        self._done("cleanup", self.cleanup)
        return FAILURE

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Activates; a failure is logged and leaves the node inactive."""
        if super().on_activate(state) == SUCCESS and self._done("activate", self.activate):
            return SUCCESS
        super().on_deactivate(state)
        return FAILURE

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Deactivates; a failure is logged and frees everything."""
        done = self._done("deactivate", self.deactivate)
        result = super().on_deactivate(state)
        # Half deactivated is not a state to go on from: error processing frees everything.
        return result if done else ERROR

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Cleans up; a failure is logged and frees everything."""
        done = self._done("cleanup", self.cleanup)
        result = super().on_cleanup(state)
        return result if done else ERROR

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Deactivates if need be and cleans up, whatever fails on the way."""
        if state.label == "active":
            self._done("deactivate", self.deactivate)
            super().on_deactivate(state)
        self._done("cleanup", self.cleanup)
        super().on_shutdown(state)
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Frees everything; the node is unconfigured then and can be configured again."""
        return SUCCESS if self._done("cleanup", self.cleanup) else FAILURE

    def shut_down(self) -> None:
        """Brings the node to its final state, whatever state it is in."""
        if self._state_machine.current_state[1] in ("unconfigured", "inactive", "active"):
            self.trigger_shutdown()

    def _done(self, name: str, step: Callable[[], None]) -> bool:
        """Whether the step went through; its failure is logged."""
        try:
            step()
        except self.expected_errors as error:
            self.get_logger().error(f"{name} failed: {error}")
        except Exception:
            self.get_logger().error(f"{name} failed:\n{traceback.format_exc()}")
        else:
            return True
        return False

    def _refuse_impossible(self, change_state: Callable[..., Any]) -> Callable[..., Any]:
        def callback(request: Any, response: Any) -> Any:
            try:
                return change_state(request, response)
            except rclpy_implementation.RCLError:
                wanted = request.transition.label or request.transition.id
                state = self._state_machine.current_state[1]
                self.get_logger().warning(f"transition {wanted} is not possible from '{state}'")
                response.success = False
                return response

        return callback
