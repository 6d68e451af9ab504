"""Brings a lifecycle node of another process up, whatever discovery does meanwhile.

After a death and a respawn the services of the dead process look alive until their lease ends, and
a request can reach nobody. So nothing is asked for before the node has told its state, and a
request without an answer is checked against the state and repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from lifecycle_msgs.msg import Transition as TransitionMsg
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.client import Client
from rclpy.node import Node

from xvla_ros.nodes.bringup import Transition

_IDS = {
    "configure": TransitionMsg.TRANSITION_CONFIGURE,
    "activate": TransitionMsg.TRANSITION_ACTIVATE,
    "deactivate": TransitionMsg.TRANSITION_DEACTIVATE,
    "cleanup": TransitionMsg.TRANSITION_CLEANUP,
}
_ON_THE_WAY = {
    "configure": "configuring",
    "activate": "activating",
    "deactivate": "deactivating",
    "cleanup": "cleaningup",
}
_STATE_TIMEOUT_S = 1.0
_CHECK_S = 5.0


class LifecycleClient:
    """Asks one lifecycle node; blocks, so `node` must be spun by another thread."""

    def __init__(self, node: Node, target: str, running: Callable[[], bool]) -> None:
        """Makes the clients.

        Args:
            node: through which is asked.
            target: full name of the lifecycle node.
            running: whether it is worth waiting on: the process lives, nobody is shutting down.
        """
        self.target = target
        self._node = node
        self.running = running
        self._get = node.create_client(GetState, f"{target}/get_state")
        self._change = node.create_client(ChangeState, f"{target}/change_state")

    def close(self) -> None:
        """Destroys the clients."""
        self._node.destroy_client(self._get)
        self._node.destroy_client(self._change)

    def state(self) -> str | None:
        """Label of the state, or None without an answer within a second."""
        response = self._call(self._get, GetState.Request(), _STATE_TIMEOUT_S)
        return None if response is None else str(response.current_state.label)

    def request(self, label: str) -> bool:
        """Whether the transition went through; takes as long as the node takes for it."""
        before = self.state()
        while self.running():
            request = ChangeState.Request(transition=TransitionMsg(id=_IDS[label]))
            response = self._call(self._change, request, _CHECK_S, self._settled)
            if response is not None:
                return bool(response.success)
            state = self.state()
            if state not in (None, before, _ON_THE_WAY[label]):
                return True
        return False

    def _settled(self) -> bool:
        """Whether the node answers and is in no transition: request or response were lost."""
        state = self.state()
        return state is not None and state not in _ON_THE_WAY.values()

    def _call(
        self,
        client: Client,
        request: Any,
        patience: float,
        give_up: Callable[[], bool] = lambda: True,
    ) -> Any | None:
        """The response; None once `give_up` says so, asked each time that patience runs out."""
        while not client.wait_for_service(timeout_sec=_STATE_TIMEOUT_S):
            if not self.running():
                return None
        answered = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _future: answered.set())
        while not answered.wait(patience):
            if not self.running() or give_up():
                client.remove_pending_request(future)
                return None
        return future.result()


def follow(client: LifecycleClient, transitions: Sequence[Transition]) -> str | None:
    """Carries out the transitions that follow from the start of the process.

    Returns:
        Label of the state in the end; None if waiting became pointless.
    """
    state = _told(client)
    left = ""
    while state is not None:
        due = next(
            (t.request for t in transitions if (t.start_state, t.goal_state) == (left, state)), None
        )
        if due is None:
            return state
        went_through = client.request(due)
        state, left = _told(client), _ON_THE_WAY[due]
        if not went_through:
            return state
    return None


def _told(client: LifecycleClient) -> str | None:
    while client.running():
        state = client.state()
        if state is not None:
            return state
    return None
