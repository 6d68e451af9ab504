"""One child process: started, watched, and ended step by step; its output goes to a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from xvla_ros.nodes.process import ENDS_WITH_INPUT

# Each signal with the seconds that it is given: rclpy nodes end in order on the first.
_ENDING = ((signal.SIGINT, 10.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0))


class Child:
    """A process in a session of its own, so that a terminal's Ctrl-C reaches only its parent.

    A node of this package ends in order when this process dies, however that happens: its standard
    input ends then.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Starts the process; its output is appended to `log`."""
        self.log = log
        self._start_of_output = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment, "PYTHONUNBUFFERED": "1", ENDS_WITH_INPUT: "1"},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """Exit code; negative for a signal; None while it runs."""
        return self._popen.poll()

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.code is None

    def last_line(self) -> str:
        """The last line that this process wrote, for a message about its end."""
        with self.log.open("rb") as stream:
            stream.seek(self._start_of_output)
            lines = stream.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def send(self, number: int) -> None:
        """Sends a signal to the process and to what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, number)

    def end(self) -> int | None:
        """Asks the process to end, then insists; returns the exit code."""
        for number, seconds in _ENDING:
            if not self.running:
                break
            self.send(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(seconds)
        return self.code
