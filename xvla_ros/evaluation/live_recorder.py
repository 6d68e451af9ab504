"""Records topics of a running system without disturbing it.

A callback only keeps the bytes that came; images are compressed in a thread that takes what
processor time nobody else wants.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import cv2
import numpy as np
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image

from xvla_ros import names
from xvla_ros.evaluation.bag.storage import Record
from xvla_ros.nodes import conversions

_COMPRESSED_TYPE = "sensor_msgs/msg/CompressedImage"
# A best-effort subscription hears every publisher and never holds one back; the depth bridges a
# pause of this process.
_IMAGE_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
_QOS = QoSProfile(depth=200, reliability=ReliabilityPolicy.BEST_EFFORT)
# What was said once, before the recording began, belongs to it.
_LATCHED_QOS = QoSProfile(
    depth=50,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
# Raw frames that wait for compression: 200 MB, seven seconds of two cameras.
_BACKLOG = 220
_NICE = 15


class LiveRecorder:
    """Keeps what is published, from its making until `close`.

    Args:
        node: gets the subscriptions.
        topics: names and types of what is kept as it comes.
        images: names of raw image topics, kept as JPEG under `<name>/compressed`.
        jpeg_quality: of the images.
        sink: takes the records, from several threads; None keeps them until `close`.
        clock: nanoseconds under which a message is recorded; 0 = not yet, nothing is kept. Without
            it that is the time at which the message was published, so that a pause of this
            process does not look like a burst of the publisher.
        latched: names of topics, out of `topics`, whose last message is kept for late comers.
    """

    def __init__(
        self,
        node: Node,
        topics: Iterable[tuple[str, type]],
        images: Iterable[str],
        jpeg_quality: int = 85,
        *,
        sink: Callable[[Record], None] | None = None,
        clock: Callable[[], int] | None = None,
        latched: Collection[str] = (),
    ) -> None:
        self.keep_images = False
        """Images are kept only while this is set."""
        self.images_dropped = 0
        """Images that came faster than this process could compress them."""
        self._quality = jpeg_quality
        self._records: list[Record] = []
        self._sink = self._records.append if sink is None else sink
        self._clock = clock
        self._backlog: queue.Queue[tuple[str, int, bytes] | None] = queue.Queue(_BACKLOG)
        self._subscriptions = []
        for topic, kind in topics:
            resolved = node.resolve_topic_name(topic)
            keep = partial(self._keep, resolved, type_name(kind))
            profile = _LATCHED_QOS if topic in latched else _QOS
            if kind is Image:
                profile = _IMAGE_QOS
            self._subscriptions.append(
                node.create_subscription(kind, topic, keep, profile, raw=True)
            )
        for topic in images:
            queue_up = partial(self._queue_image, node.resolve_topic_name(topic))
            self._subscriptions.append(
                node.create_subscription(Image, topic, queue_up, _IMAGE_QOS, raw=True)
            )
        self._worker = threading.Thread(target=self._compress, name="recorder", daemon=True)
        self._worker.start()

    @property
    def topics(self) -> int:
        """How many are listened to."""
        return len(self._subscriptions)

    def close(self) -> list[Record]:
        """Ends recording, waits until all images are compressed, and returns what was kept."""
        self.keep_images = False
        self._backlog.put(None)
        self._worker.join()
        return self._records

    def _time(self, info: Mapping[str, Any]) -> int:
        """Nanoseconds under which a message is recorded."""
        return self._clock() if self._clock else info["source_timestamp"] or time.time_ns()

    def _keep(self, topic: str, type_name: str, data: bytes, info: Mapping[str, Any]) -> None:
        now = self._time(info)
        if now > 0:
            self._sink(Record(topic, type_name, now, bytes(data)))

    def _queue_image(self, topic: str, data: bytes, info: Mapping[str, Any]) -> None:
        now = self._time(info)
        if not self.keep_images or now <= 0:
            return
        try:
            self._backlog.put_nowait((topic, now, data))
        except queue.Full:
            self.images_dropped += 1

    def _compress(self) -> None:
        # On Linux the priority set for a thread's id is that thread's alone.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (item := self._backlog.get()) is not None:
            topic, time_ns, data = item
            image = deserialize_message(data, Image)
            jpeg = serialize_message(compressed(image, topic, self._quality))
            self._sink(Record(names.compressed(topic), _COMPRESSED_TYPE, time_ns, jpeg))


def compressed(image: Image, topic: str, quality: int) -> CompressedImage:
    """The image as JPEG, in the words of image_transport's compressed plugin."""
    bgr = cv2.cvtColor(conversions.image_to_rgb(image, topic), cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    message = CompressedImage(header=image.header, format="rgb8; jpeg compressed bgr8")
    message.data = np.asarray(data).tobytes()
    return message


def type_name(kind: type) -> str:
    """Like sensor_msgs/msg/Image."""
    package, folder, *_ = kind.__module__.split(".")
    return f"{package}/{folder}/{kind.__name__}"
