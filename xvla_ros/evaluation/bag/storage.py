"""rosbag2 files (mcap) without a ROS installation, this package's messages included."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from xvla_ros import resources
from xvla_ros.errors import UsageError

PACKAGE = "xvla_ros"


@dataclass(frozen=True)
class Record:
    """One message as it was on the wire."""

    topic: str
    type_name: str
    """Like sensor_msgs/msg/JointState."""
    time_ns: int
    """When it was received."""
    data: bytes
    """CDR."""


@dataclass(frozen=True)
class Entry:
    """One message out of a bag."""

    topic: str
    time: float
    """When it was received, seconds."""
    message: Any


# Fields of github.com/Interbotix/interbotix_ros_core, which whoever reads a bag need not have.
_XS_COMMANDS = {
    "interbotix_xs_msgs/msg/JointGroupCommand": "string name\nfloat32[] cmd\n",
    "interbotix_xs_msgs/msg/JointSingleCommand": "string name\nfloat32 cmd\n",
}


@lru_cache(maxsize=1)
def typestore() -> Typestore:
    """The messages of ROS 2 Jazzy, of this package, and a WidowX driver's commands."""
    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(own_types())
    for name, definition in _XS_COMMANDS.items():
        store.register(get_types_from_msg(definition, name))
    return store


def own_types() -> dict[str, Any]:
    """Definitions of this package's messages."""
    types: dict[str, Any] = {}
    for path in sorted((resources.share_folder() / "msg").glob("*.msg")):
        name = f"{PACKAGE}/msg/{path.stem}"
        types.update(get_types_from_msg(path.read_text(encoding="utf-8"), name))
    return types


def write(folder: Path, records: Iterable[Record], custom: Mapping[str, str] | None = None) -> None:
    """Writes a bag in order of time, with custom data; one that is already there is replaced."""
    if folder.exists():
        shutil.rmtree(folder)
    store = typestore()
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for key, value in (custom or {}).items():
            writer.set_custom_data(key, value)
        connections: dict[str, Any] = {}
        for record in sorted(records, key=lambda record: record.time_ns):
            if record.topic not in connections:
                connections[record.topic] = writer.add_connection(
                    record.topic, record.type_name, typestore=store
                )
            writer.write(connections[record.topic], record.time_ns, record.data)


def read(folder: Path, topics: Collection[str] | None = None) -> Iterator[Entry]:
    """The messages of a bag in order of time, of all or of some topics.

    Raises:
        UsageError: there is no bag.
    """
    if not (folder / "metadata.yaml").is_file():
        raise UsageError(f"{folder}: no rosbag2 (a folder with metadata.yaml)")
    store = typestore()
    with Reader(folder) as reader:
        chosen = [c for c in reader.connections if topics is None or c.topic in topics]
        if not chosen:
            return
        for connection, time_ns, data in reader.messages(connections=chosen):
            message = store.deserialize_cdr(data, connection.msgtype)
            yield Entry(connection.topic, time_ns * 1e-9, message)
