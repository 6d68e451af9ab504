"""A bag that is written while its messages come in."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import StoragePlugin, Writer, WriterError

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.storage import Record, typestore

# Messages that wait for the disk: with JPEG images some 20 s of two cameras.
_BACKLOG = 4000


class StreamWriter:
    """Writes an mcap bag in a thread of its own.

    Attributes:
        counts: messages written by topic.
        dropped: messages for which there was no room.

    Args:
        folder: of the bag; must not exist.

    Raises:
        UsageError: the folder exists or cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self.dropped = 0
        self.fault = ""
        try:
            self._writer = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
            self._writer.open()
        except (WriterError, OSError) as error:
            raise UsageError(f"{folder}: a bag cannot be made there: {error}") from error
        self._connections: dict[str, Any] = {}
        self._waiting: queue.Queue[Record | None] = queue.Queue(_BACKLOG)
        self._thread = threading.Thread(target=self._run, name="bag", daemon=True)
        self._thread.start()

    def put(self, record: Record) -> None:
        """Takes a message, from any thread; never waits."""
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def close(self, custom: dict[str, str]) -> None:
        """Writes what waits, and the custom data; the bag is complete after this.

        Raises:
            OSError: the disk did not take everything.
        """
        self._waiting.put(None)
        self._thread.join()
        for key, value in custom.items():
            self._writer.set_custom_data(key, value)
        self._writer.close()
        if self.fault:
            raise OSError(self.fault)

    def _run(self) -> None:
        while (record := self._waiting.get()) is not None:
            if self.fault:
                self.dropped += 1
                continue
            try:
                self._write(record)
            except (OSError, WriterError) as error:
                self.fault = f"{self.folder}: {error}"

    def _write(self, record: Record) -> None:
        if record.topic not in self._connections:
            self._connections[record.topic] = self._writer.add_connection(
                record.topic, record.type_name, typestore=typestore()
            )
        self._writer.write(self._connections[record.topic], record.time_ns, record.data)
        self.counts[record.topic] += 1
