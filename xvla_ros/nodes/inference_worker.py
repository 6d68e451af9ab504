"""The one thread that touches the device: initialisation, warm-up, inference, teardown.

Accelerator contexts belong to a thread, and callbacks must not wait for a network. The thread is
a daemon: a device that hangs can delay the end of the process by a bound, not for ever.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

Result = TypeVar("Result")


_POLL_S = 0.1


class InferenceWorker:
    """Runs functions one after the other in a thread of its own."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Queues a function; its result or exception comes through the future."""
        future: Future[Result] = Future()
        self._jobs.put((future, job))
        return future

    def call(self, job: Callable[[], Result]) -> Result:
        """Runs a function in the thread and waits for its result.

        Raises:
            CancelledError: the worker has been abandoned meanwhile.
        """
        future = self.submit(job)
        while not self.abandoned:
            if wait([future], _POLL_S).done:
                return future.result()
        raise CancelledError("given up because of the shutdown")

    def abandon(self) -> None:
        """Nobody waits any longer for what the thread is doing."""
        self._abandoned.set()

    @property
    def abandoned(self) -> bool:
        """Whether `abandon` was called."""
        return self._abandoned.is_set()

    def close(self, timeout: float) -> bool:
        """Ends the thread after what is queued; false if that takes longer than `timeout` s."""
        self._jobs.put(None)
        self._thread.join(0.0 if self.abandoned else timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:  # it is the caller's, whatever it is
                future.set_exception(error)
            # A result may hold images and device memory: do not keep it until the next job.
            del item, future, job
