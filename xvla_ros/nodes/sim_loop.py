"""A thread that does the same thing at a steady rate, and never in bursts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def _nothing() -> None:
    pass


def next_deadline(due: float, period: float, now: float) -> float:
    """Time of the tick after the one that was due at `due`; seconds.

    A tick that is a little late does not delay the next one. What a stall has missed is given up,
    but for one tick at once.
    """
    return max(due + period, now - period)


class PeriodicThread:
    """Calls `tick` at absolute deadlines; after a stall at most one tick follows at once.

    Args:
        name: of the thread.
        period: seconds until the next tick; asked each time, so that it can change.
        tick: the work; an exception ends the thread and goes to `on_error`.
        on_error: told of it, in the thread.
        set_up: called in the thread before the first tick; its exception comes out of `start`.
        tear_down: called in the thread at its end.
    """

    def __init__(
        self,
        name: str,
        period: Callable[[], float],
        tick: Callable[[], None],
        on_error: Callable[[Exception], None],
        *,
        set_up: Callable[[], None] = _nothing,
        tear_down: Callable[[], None] = _nothing,
    ) -> None:
        self._period = period
        self._tick = tick
        self._on_error = on_error
        self._set_up = set_up
        self._tear_down = tear_down
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread and waits for its set-up, whose exception is raised here."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self, timeout: float = 5.0) -> None:
        """Lets the tick in progress end and waits for the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._set_up()
        except Exception as error:
            self._failure = error
            return
        finally:
            self._ready.set()
        try:
            self._loop()
        except Exception as error:
            self._on_error(error)
        finally:
            self._tear_down()

    def _loop(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(due - time.monotonic(), 0.0)):
            self._tick()
            due = next_deadline(due, self._period(), time.monotonic())
