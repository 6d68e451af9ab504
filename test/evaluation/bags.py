"""Bags for tests: a WidowX that turns its waist, seen by cameras that show the time.

Everything is a function of time, so that a test knows what must come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from xvla_ros.arm.constants import ARM_JOINTS

STORE = get_typestore(Stores.ROS2_JAZZY)
T = STORE.types
START = 1_700_000_000.0
READY = np.array([-0.13192, -0.76239, 0.44485, -0.01994, 1.75641, -0.15953])
TURNING = 0.2
"""rad/s of the waist."""
INSTRUCTION = "pick up the red cube"
JOINTS, FRONT, WRIST, TOLD = "/wx250s/joint_states", "/front/image_raw", "/wrist/image_raw", "/task"
NAMES = (*ARM_JOINTS, "gripper", "left_finger", "right_finger")


@dataclass(frozen=True)
class Message:
    """One message with the time of its arrival in seconds."""

    topic: str
    time: float
    message: Any


def ns(time: float) -> int:
    return round(time * 1e9)


def header(time: float) -> Any:
    whole, rest = divmod(ns(time), 1_000_000_000)
    stamp = T["builtin_interfaces/msg/Time"](sec=whole, nanosec=rest)
    return T["std_msgs/msg/Header"](stamp=stamp, frame_id="")


def angles(time: float) -> np.ndarray:
    return READY + np.array([TURNING * (time - START), 0.0, 0.0, 0.0, 0.0, 0.0])


def joint_state(
    stamp: float,
    joints: Iterable[float],
    finger: float = 0.037,
    names: Sequence[str] = NAMES,
    extra: dict[str, float] | None = None,
) -> Any:
    values = dict(zip(ARM_JOINTS, (float(q) for q in joints), strict=True))
    values |= {"gripper": 0.0, "left_finger": finger, "right_finger": -finger, **(extra or {})}
    chosen = [name for name in names if name in values]
    return T["sensor_msgs/msg/JointState"](
        header=header(stamp),
        name=chosen,
        position=np.array([values[name] for name in chosen]),
        velocity=np.zeros(0),
        effort=np.zeros(0),
    )


def picture(time: float, height: int = 48, width: int = 64) -> np.ndarray:
    """RGB whose three channels are told apart and change with time."""
    tone = round(10.0 * (time - START)) % 60
    image = np.empty((height, width, 3), np.uint8)
    image[:] = (190 + tone, 100 + tone, 20 + tone)
    return image


def image(stamp: float, rgb: np.ndarray, encoding: str = "rgb8", padding: int = 0) -> Any:
    pixels = rgb if encoding == "rgb8" else rgb[..., ::-1]
    rows = np.ascontiguousarray(pixels).reshape(len(rgb), -1)
    padded = np.pad(rows, ((0, 0), (0, padding)), constant_values=77)
    return raw_image(stamp, encoding, rgb.shape[1], rgb.shape[0], padded.shape[1], padded.ravel())


def raw_image(
    stamp: float,
    encoding: str,
    width: int,
    height: int,
    step: int,
    data: np.ndarray,
    bigendian: int = 0,
) -> Any:
    return T["sensor_msgs/msg/Image"](
        header=header(stamp),
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=bigendian,
        step=step,
        data=np.frombuffer(data.tobytes(), np.uint8),
    )


def compressed(stamp: float, rgb: np.ndarray, kind: str = "jpeg") -> Any:
    ok, data = cv2.imencode(f".{kind}", np.ascontiguousarray(rgb[..., ::-1]))
    assert ok
    return T["sensor_msgs/msg/CompressedImage"](
        header=header(stamp), format=kind, data=np.frombuffer(data.tobytes(), np.uint8)
    )


def text(value: str) -> Any:
    return T["std_msgs/msg/String"](data=value)


def times(seconds: float, hz: float, start: float = START, phase: float = 0.0) -> np.ndarray:
    return start + phase + np.arange(round(seconds * hz)) / hz


def joints(seconds: float, hz: float = 50.0, start: float = START) -> Iterator[Message]:
    for t in times(seconds, hz, start):
        yield Message(JOINTS, t, joint_state(t, angles(t)))


def camera(
    seconds: float,
    topic: str = FRONT,
    hz: float = 10.0,
    start: float = START,
    phase: float = 0.0,
    make: Callable[[float], Any] | None = None,
) -> Iterator[Message]:
    for t in times(seconds, hz, start, phase):
        # A message arrives a little after its stamp.
        yield Message(topic, t + 0.004, (make or (lambda s: image(s, picture(s))))(t))


def told(value: str = INSTRUCTION, time: float = START) -> Iterator[Message]:
    yield Message(TOLD, time, text(value))


def normal(seconds: float = 8.0) -> list[Message]:
    """What a good recording has."""
    return [*told(), *joints(seconds), *camera(seconds), *camera(seconds, WRIST)]


def write(
    folder: Path,
    messages: Iterable[Message],
    *,
    storage: StoragePlugin = StoragePlugin.MCAP,
    compression: CompressionMode | None = None,
    custom: dict[str, str] | None = None,
    version: Literal[8, 9] = 9,
    in_order: bool = True,
    **connection: Any,
) -> Path:
    """Writes a bag and returns its folder."""
    writer = Writer(folder, version=version, storage_plugin=storage)
    if compression is not None:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    for key, value in (custom or {}).items():
        writer.set_custom_data(key, value)
    with writer:
        connections: dict[str, Any] = {}
        ordered = sorted(messages, key=lambda m: m.time) if in_order else messages
        for one in ordered:
            kind = one.message.__msgtype__
            if one.topic not in connections:
                connections[one.topic] = writer.add_connection(
                    one.topic, kind, typestore=STORE, **connection
                )
            data = STORE.serialize_cdr(one.message, kind)
            writer.write(connections[one.topic], ns(one.time), bytes(data))
    return folder
