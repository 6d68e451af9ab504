"""Where cameras stand and how they see: from a parameter file, a bag, or the simulator's scene."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import radians, tan
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from xvla_ros.arm.constants import EE_FORWARD
from xvla_ros.evaluation.bag.files import BagError
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.geometry import Pose, matrix_from_quaternion
from xvla_ros.names import BASE_LINK, EE_LINK
from xvla_ros.parameters.parameter import Value, Values
from xvla_ros.sim import cameras as sim

Array = NDArray[np.float64]

CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
TF = "tf2_msgs/msg/TFMessage"
WORLD_STATE = "xvla_ros/msg/WorldState"
_STATIC_TOPIC = "/tf_static"
# MuJoCo's cameras look along -z with y up; an optical frame along +z with y down (REP 103).
_TO_OPTICAL = np.diag([1.0, -1.0, -1.0])
# Nearer than this a point is on the lens, and its pixel anywhere.
_NEAREST_M = 0.02


@dataclass(frozen=True, eq=False)
class CameraModel:
    """A calibrated camera.

    Attributes:
        matrix: (3, 3) intrinsics in pixels.
        distortion: coefficients as OpenCV orders them; empty for a pinhole.
        width: of the images that the intrinsics are for.
        height: of the same.
        pose: of the optical frame (x right, y down, z forward) in its parent.
        on_gripper: the parent is the end effector; otherwise it is the base.
        fisheye: the distortion is the equidistant model's.
    """

    matrix: Array
    distortion: Array
    width: int
    height: int
    pose: Pose
    on_gripper: bool = False
    fisheye: bool = False

    def project(self, points: ArrayLike, ee: Pose) -> Array:
        """Pixels (n, 2) as fractions of width and height; NaN behind the camera.

        Args:
            points: (n, 3) in the base frame.
            ee: pose of the end effector when the picture was taken.
        """
        stands = ee @ self.pose if self.on_gripper else self.pose
        local = (np.asarray(points, dtype=np.float64).reshape(-1, 3) - stands.position) @ (
            stands.rotation
        )
        seen = np.isfinite(local).all(axis=1) & (local[:, 2] > _NEAREST_M)
        pixels = np.full((len(local), 2), np.nan)
        if seen.any():
            rows = local[seen].reshape(-1, 1, 3)
            zero = np.zeros(3)
            distort = cv2.fisheye.projectPoints if self.fisheye else cv2.projectPoints
            found = distort(rows, zero, zero, self.matrix, self.distortion)[0].reshape(-1, 2)
            # Far outside of the picture the polynomials of a lens fold back into it.
            angle = np.abs(local[seen, :2] / local[seen, 2:]).max(axis=1)
            found[angle > self._widest()] = np.nan
            pixels[seen] = found
        return pixels / (self.width, self.height)

    def _widest(self) -> float:
        """Tangent of the largest angle that is worth drawing, with a margin."""
        centre = self.matrix[:2, 2]
        focal = np.diag(self.matrix)[:2]
        reach = np.maximum(centre, (self.width, self.height) - centre) / focal
        return 2.0 * float(reach.max())


def from_values(values: Values, slot: int) -> CameraModel | None:
    """The camera of a view slot as a parameter file describes it; None if it does not.

    Raises:
        ValueError: numbers that describe no camera.
    """
    prefix = f"calibration.{slot}."
    given = {key: _numbers(values.get(prefix + key, ())) for key in _KEYS}
    if not any(given["intrinsics"]):
        return None
    fx, fy, cx, cy = given["intrinsics"]
    width, height = given["size"]
    if min(fx, fy, width, height) <= 0.0:
        raise ValueError(f"{prefix}intrinsics and {prefix}size must be positive")
    orientation = given["orientation"]
    if abs(np.linalg.norm(orientation) - 1.0) > 1e-2:
        raise ValueError(f"{prefix}orientation is no unit quaternion (x, y, z, w)")
    matrix = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    pose = Pose(np.array(given["position"]), matrix_from_quaternion(orientation))
    return CameraModel(
        matrix,
        np.array(given["distortion"]),
        int(width),
        int(height),
        pose,
        on_gripper=values.get(f"{prefix}parent") == "ee",
        fisheye=values.get(f"{prefix}model") == "fisheye",
    )


_KEYS = ("intrinsics", "distortion", "size", "position", "orientation")


def _numbers(value: Value | Sequence[float]) -> list[float]:
    return [float(v) for v in value] if isinstance(value, (tuple, list)) else []


def from_bag(bag: Bag, image_topics: Iterable[str]) -> dict[str, CameraModel]:
    """Cameras by image topic, of those whose camera_info and static transforms a bag has.

    A recording of this package's simulator needs neither.
    """
    found: dict[str, CameraModel] = {}
    transforms = _static_transforms(bag)
    simulated = any(topic.type_name == WORLD_STATE for topic in bag.topics.values())
    for topic in image_topics:
        model = _calibrated(bag, topic, transforms)
        if model is None and simulated:
            model = of_simulator(topic)
        if model is not None:
            found[topic] = model
    return found


def of_simulator(topic: str) -> CameraModel | None:
    """The simulator's camera whose name is a part of a topic."""
    parts = topic.split("/")
    camera = next((c for c in (*sim.FIXED, sim.WRIST) if c.name in parts), None)
    if camera is None:
        return None
    focal = 0.5 * sim.HEIGHT / tan(0.5 * radians(camera.fovy))
    matrix = np.array([[focal, 0, sim.WIDTH / 2], [0, focal, sim.HEIGHT / 2], [0, 0, 1.0]])
    pose = Pose(np.array(camera.position), camera.rotation() @ _TO_OPTICAL)
    on_gripper = camera is sim.WRIST
    if on_gripper:
        # It is described in gripper_link, whose x axis leads to the end effector.
        pose = Pose(np.array([-EE_FORWARD, 0.0, 0.0]), np.eye(3)) @ pose
    return CameraModel(matrix, np.zeros(0), sim.WIDTH, sim.HEIGHT, pose, on_gripper)


def _calibrated(
    bag: Bag, topic: str, transforms: Mapping[str, dict[str, Pose]]
) -> CameraModel | None:
    info = _camera_info(bag, topic)
    if info is None:
        return None
    matrix = np.asarray(info.k, dtype=np.float64).reshape(3, 3)
    if not (matrix[0, 0] > 0.0 and info.width and info.height):
        return None
    frame = str(info.header.frame_id).lstrip("/")
    for parent, on_gripper in ((BASE_LINK, False), (EE_LINK, True)):
        pose = _between(transforms, parent, frame)
        if pose is not None:
            return CameraModel(
                matrix,
                np.asarray(info.d, dtype=np.float64),
                int(info.width),
                int(info.height),
                pose,
                on_gripper,
                str(info.distortion_model) in ("equidistant", "fisheye"),
            )
    return None


def _camera_info(bag: Bag, topic: str) -> Any:
    """The first camera_info beside an image topic; None without."""
    plain = topic.removesuffix("/compressed")
    name = f"{plain.rpartition('/')[0]}/camera_info"
    if name not in bag.topics or bag.topics[name].type_name != CAMERA_INFO:
        return None
    try:
        return next((bag.decode(raw) for raw in bag.messages([name])), None)
    except BagError:
        return None


def _static_transforms(bag: Bag) -> dict[str, dict[str, Pose]]:
    """Poses by frame and neighbouring frame: `found[a][b]` is the pose of b in a."""
    found: dict[str, dict[str, Pose]] = {}
    found_names = [
        t.name for t in bag.topics.values() if t.type_name == TF and t.name == _STATIC_TOPIC
    ]
    for raw in bag.messages(found_names) if found_names else ():
        try:
            message = bag.decode(raw)
        except BagError:
            continue
        for one in message.transforms:
            t, q = one.transform.translation, one.transform.rotation
            pose = Pose(np.array([t.x, t.y, t.z]), matrix_from_quaternion([q.x, q.y, q.z, q.w]))
            parent = str(one.header.frame_id).lstrip("/")
            child = str(one.child_frame_id).lstrip("/")
            found.setdefault(parent, {})[child] = pose
            found.setdefault(child, {})[parent] = pose.inverse()
    return found


def _between(transforms: Mapping[str, dict[str, Pose]], ending: str, frame: str) -> Pose | None:
    """Pose of a frame in the one whose name is, or ends with, another; None if not connected."""
    waiting = deque([(frame, Pose.identity())])
    seen = {frame}
    while waiting:
        here, pose = waiting.popleft()
        if here.rpartition("/")[2] == ending:
            return pose.inverse()
        for near, step in transforms.get(here, {}).items():
            if near not in seen:
                seen.add(near)
                # `pose` is that of `here` in `frame`.
                waiting.append((near, pose @ step))
    return None
