"""ROS messages to and from the package's own types; the only place that knows both.

Seconds are float64: at today's epoch they resolve 0.24 microseconds. Where a stamp must come back
to the nanosecond (to find an image in a bag again) the original message's stamp is handed along.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Quaternion
from geometry_msgs.msg import Pose as PoseMsg
from rclpy.clock import Clock
from sensor_msgs.msg import CompressedImage, Image

from xvla_ros import ee6d, images
from xvla_ros.chunk import Chunk, ChunkRefused, Plan, Provenance, Refusal
from xvla_ros.geometry import Pose, matrix_from_quaternion, quaternion_from_matrix
from xvla_ros.msg import ActionChunk
from xvla_ros.msg import Plan as PlanMsg

_NANO = 1_000_000_000
_PLAN_NUMBERS = 8
# What cv_bridge turns into rgb8 in its C++ and in its pure Python build alike.
_CV_BRIDGE = ("rgb8", "bgr8", "rgba8", "bgra8", "mono8")


def seconds(stamp: Time) -> float:
    """Seconds of a stamp, rounded once."""
    return float(stamp.sec) + stamp.nanosec * 1e-9


def time_msg(time: float) -> Time:
    """The stamp nearest to a time in seconds; `seconds` gives exactly that time back.

    Whole seconds are split off first: multiplied by 1e9 a float of today's epoch loses 256 ns.

    Raises:
        ValueError: the time is not finite or does not fit a stamp.
    """
    if not math.isfinite(time):
        raise ValueError(f"not a time: {time}")
    whole = math.floor(time)
    nanoseconds = round((time - whole) * _NANO)
    if nanoseconds == _NANO:
        whole, nanoseconds = whole + 1, 0
    if not -(2**31) <= whole < 2**31:
        raise ValueError(f"time {time} s does not fit a stamp")
    return Time(sec=whole, nanosec=nanoseconds)


def now_seconds(clock: Clock) -> float:
    """Seconds of a clock."""
    whole, rest = divmod(clock.now().nanoseconds, _NANO)
    return float(whole) + rest * 1e-9


def pose_msg(pose: Pose) -> PoseMsg:
    """The pose as a message."""
    x, y, z = (float(v) for v in pose.position)
    qx, qy, qz, qw = (float(v) for v in quaternion_from_matrix(pose.rotation))
    return PoseMsg(position=Point(x=x, y=y, z=z), orientation=Quaternion(x=qx, y=qy, z=qz, w=qw))


def pose_from_msg(message: PoseMsg) -> Pose:
    """The pose of a message.

    Raises:
        ValueError: a number is not finite, or the quaternion has no direction.
    """
    p, q = message.position, message.orientation
    position = np.array([p.x, p.y, p.z])
    if not np.isfinite(position).all():
        raise ValueError(f"not a position: {position.tolist()}")
    return Pose(position, matrix_from_quaternion([q.x, q.y, q.z, q.w]))


def chunk_msg(chunk: Chunk, stamps: Iterable[Time] = ()) -> ActionChunk:
    """The chunk as a message.

    Args:
        chunk: canonical.
        stamps: stamps of the messages that went into the observation; wherever a time of the
            chunk is one of them, it is written to the nanosecond.
    """
    exact = {seconds(stamp): stamp for stamp in stamps}

    def stamp(time: float) -> Time:
        if math.isnan(time):
            return Time()
        return exact.get(time) or time_msg(time)

    origin = chunk.provenance
    message = ActionChunk(
        t_ref=stamp(chunk.t_ref),
        step_dt=chunk.step_dt,
        horizon=chunk.horizon,
        ee6d=chunk.ee6d().astype(np.float32).ravel().tolist(),
        ee_frame=chunk.ee_frame,
        gripper_threshold=chunk.gripper_threshold,
        gripper_open_below=chunk.gripper_open_below,
        sequence=chunk.sequence,
        epoch=chunk.epoch,
        view_stamps=[stamp(time) for time in origin.view_stamps],
        proprio=np.asarray(origin.proprio or np.zeros(ee6d.DIM), dtype=np.float32),
        proprio_source=origin.proprio_source,
        noise_seed=origin.noise_seed,
        time_grid=list(origin.time_grid),
        approximation=origin.approximation,
        model_hash=origin.model_hash,
        instruction=origin.instruction,
        domain_id=origin.domain_id,
        prefix=list(origin.prefix),
        prefix_weights=list(origin.prefix_weights),
        inference_start=time_msg(origin.inference_start),
        inference_end=time_msg(origin.inference_end),
    )
    message.header.stamp = stamp(chunk.stamp)
    message.header.frame_id = chunk.frame_id
    return message


def chunk_from_msg(message: ActionChunk) -> Chunk:
    """The chunk of a message.

    Raises:
        ChunkRefused: the numbers do not fit the horizon, are not finite, or are no poses.
    """
    values = np.asarray(message.ee6d, dtype=np.float64)
    if message.horizon == 0 or values.size != message.horizon * ee6d.DIM:
        raise ChunkRefused(
            Refusal.SHAPE, f"{values.size} numbers for horizon {message.horizon} x {ee6d.DIM}"
        )
    for name in ("gripper_threshold", "gripper_open_below"):
        value = getattr(message, name)
        if not 0.0 <= value <= 1.0:
            raise ChunkRefused(Refusal.NON_FINITE, f"{name} {value}")
    return Chunk.from_ee6d(
        values.reshape(message.horizon, ee6d.DIM),
        stamp=seconds(message.header.stamp),
        t_ref=seconds(message.t_ref),
        step_dt=message.step_dt,
        frame_id=message.header.frame_id,
        ee_frame=message.ee_frame,
        gripper_threshold=message.gripper_threshold,
        gripper_open_below=message.gripper_open_below,
        sequence=message.sequence,
        epoch=message.epoch,
        provenance=_provenance(message),
    )


def _provenance(message: ActionChunk) -> Provenance:
    return Provenance(
        view_stamps=tuple(
            seconds(stamp) if stamp.sec or stamp.nanosec else math.nan
            for stamp in message.view_stamps
        ),
        proprio=tuple(float(v) for v in message.proprio),
        proprio_source=message.proprio_source,
        noise_seed=message.noise_seed,
        time_grid=tuple(message.time_grid),
        approximation=message.approximation,
        model_hash=message.model_hash,
        instruction=message.instruction,
        domain_id=message.domain_id,
        prefix=tuple(message.prefix),
        prefix_weights=tuple(message.prefix_weights),
        inference_start=seconds(message.inference_start),
        inference_end=seconds(message.inference_end),
    )


def plan_msg(plan: Plan, stamp: float, frame_id: str) -> PlanMsg:
    """The plan as a message, published at `stamp`."""
    rows = np.empty((len(plan.poses), _PLAN_NUMBERS), dtype=np.float32)
    for row, pose, gripper in zip(rows, plan.poses, plan.gripper, strict=True):
        row[:3] = pose.position
        row[3:7] = quaternion_from_matrix(pose.rotation)
        row[7] = gripper
    message = PlanMsg(
        start=time_msg(plan.start),
        dt=plan.dt,
        poses=rows.ravel().tolist(),
        sequence=plan.sequence,
        epoch=plan.epoch,
        latency=plan.latency,
        holding=plan.holding,
        actuating=plan.actuating,
        strategy=plan.strategy,
    )
    message.header.stamp = time_msg(stamp)
    message.header.frame_id = frame_id
    return message


def plan_from_msg(message: PlanMsg) -> Plan:
    """The plan of a message.

    Raises:
        ValueError: no poses, wrong sizes, or numbers that are no poses.
    """
    values = np.asarray(message.poses, dtype=np.float64)
    if values.size == 0 or values.size % _PLAN_NUMBERS:
        raise ValueError(f"a plan needs rows of {_PLAN_NUMBERS} numbers, got {values.size} numbers")
    if not (math.isfinite(message.dt) and message.dt > 0.0 and np.isfinite(values).all()):
        raise ValueError("a plan with a number that is not finite, or without a period")
    rows = values.reshape(-1, _PLAN_NUMBERS)
    return Plan(
        start=seconds(message.start),
        dt=message.dt,
        poses=tuple(Pose(row[:3], matrix_from_quaternion(row[3:7])) for row in rows),
        gripper=tuple(float(row[7]) for row in rows),
        sequence=message.sequence,
        epoch=message.epoch,
        latency=message.latency,
        holding=message.holding,
        actuating=message.actuating,
        strategy=message.strategy,
    )


def image_to_rgb(message: Image | CompressedImage, topic: str) -> images.Rgb:
    """An image message as RGB uint8 (height, width, 3).

    cv_bridge converts what each of its builds converts alike; everything else, padded rows
    included (which its pure Python build ignores), OpenCV does.

    Raises:
        images.ImageError: with the topic and the encoding.
    """
    compressed = isinstance(message, CompressedImage)
    bridge = None if compressed or not _fits_cv_bridge(message) else _cv_bridge()
    if bridge is not None:
        return np.ascontiguousarray(bridge.imgmsg_to_cv2(message, "rgb8"))
    return images.from_message(message, topic)


def _fits_cv_bridge(message: Image) -> bool:
    if message.encoding not in _CV_BRIDGE:
        return False
    tight = images.row_bytes(message.encoding, message.width)
    whole = len(message.data) == message.height * tight > 0
    return whole and message.step == tight


@lru_cache(maxsize=1)
def _cv_bridge() -> Any | None:
    """cv_bridge if it works: a build for another numpy fails at import or at the first image."""
    try:
        from cv_bridge import CvBridge

        bridge = CvBridge()
        bridge.imgmsg_to_cv2(Image(height=1, width=1, encoding="bgr8", step=3, data=[1, 2, 3]))
    except (ImportError, AttributeError, TypeError):
        return None
    return bridge
