"""The camera pictures that belong to predictions, out of the recordings once more."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from xvla_ros import images
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.discovery import View
from xvla_ros.evaluation.bag.files import LEROBOT, BagError, find
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.events import ImageSeen
from xvla_ros.evaluation.lerobot.layout import Dataset
from xvla_ros.evaluation.lerobot.source import LeRobotRecording
from xvla_ros.evaluation.report import calibration
from xvla_ros.evaluation.report.calibration import CameraModel
from xvla_ros.parameters.parameter import Values

Rgb = NDArray[np.uint8]

MAIN_WIDTH = 480
SIDE_WIDTH = 320
_QUALITY = 72


@dataclass(eq=False)
class Pictures:
    """JPEG pictures and cameras of one recording."""

    jpeg: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """By view slot and the time under which the recording holds the image, ns."""
    cameras: dict[int, CameraModel] = field(default_factory=dict)
    """By view slot, as far as they are calibrated."""
    note: str = ""
    """Why there are no pictures, in one line; empty = there are."""


class FrameSource(Protocol):
    """Finds the pictures of a recording."""

    def pictures(self, bag: Mapping[str, Any], wanted: Iterable[tuple[int, int]]) -> Pictures:
        """The pictures by slot and time that a bag's entry of the summary has."""


@dataclass(frozen=True)
class BagFrames:
    """Pictures out of the bags that a summary names.

    Attributes:
        parameters: section `xvla_evaluate`, which may describe cameras.
        folder: against which a relative path of a bag is taken.
    """

    parameters: Values = field(default_factory=dict)
    folder: Path = Path()

    def pictures(self, bag: Mapping[str, Any], wanted: Iterable[tuple[int, int]]) -> Pictures:
        """See `FrameSource`; a bag that is no longer there has none."""
        views = {int(view["slot"]): view for view in bag["views"]}
        try:
            files = find([self.folder / bag["path"]])
            chosen = next((f for f in files if f.path == self.folder / bag["path"]), files[0])
            if chosen.format == LEROBOT:
                return self._read_dataset(chosen.path, views, set(wanted))
            with Bag(chosen) as opened:
                return self._read(opened, views, set(wanted))
        except (UsageError, BagError, OSError, ValueError) as error:
            return Pictures(note=f"no pictures: {error}")

    def _read(
        self, bag: Bag, views: Mapping[int, Mapping[str, Any]], wanted: set[tuple[int, int]]
    ) -> Pictures:
        result = Pictures()
        slots = {str(view["topic"]): slot for slot, view in views.items()}
        in_bag = calibration.from_bag(bag, slots)
        for topic, slot in slots.items():
            model = calibration.from_values(self.parameters, slot) or in_bag.get(topic)
            if model is not None:
                result.cameras[slot] = model
        for raw in bag.messages(slots):
            slot = slots[raw.topic]
            if (slot, raw.time_ns) not in wanted:
                continue
            try:
                rgb = images.from_message(bag.decode(raw), raw.topic)
            except (BagError, images.ImageError):
                continue
            result.jpeg[slot, raw.time_ns] = _shown(rgb, slot, views)
        return result

    def _read_dataset(
        self, path: Path, views: Mapping[int, Mapping[str, Any]], wanted: set[tuple[int, int]]
    ) -> Pictures:
        result = Pictures()
        for slot in views:
            model = calibration.from_values(self.parameters, slot)
            if model is not None:
                result.cameras[slot] = model
        used = [View(slot, str(v["topic"]), str(v["type"])) for slot, v in views.items()]
        for event in LeRobotRecording(Dataset(path), used).events():
            if not isinstance(event, ImageSeen) or (event.slot, event.image.log_ns) not in wanted:
                continue
            try:
                rgb = event.image.decode()
            except images.ImageError:
                continue
            result.jpeg[event.slot, event.image.log_ns] = _shown(rgb, event.slot, views)
        return result


def _shown(rgb: Rgb, slot: int, views: Mapping[int, Mapping[str, Any]]) -> bytes:
    """A view's picture for the page, upright."""
    if views[slot]["rotate_180"]:
        rgb = np.ascontiguousarray(rgb[::-1, ::-1])
    return jpeg(rgb, width_of(slot, views))


def width_of(slot: int, views: Iterable[int]) -> int:
    """Pixels across the picture of a view: the first is the large one."""
    return MAIN_WIDTH if slot == min(views) else SIDE_WIDTH


def jpeg(rgb: Rgb, width: int, quality: int = _QUALITY) -> bytes:
    """The picture as JPEG, no wider than asked for."""
    if rgb.shape[1] > width:
        height = round(rgb.shape[0] * width / rgb.shape[1])
        rgb = np.asarray(cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
    options: Sequence[int] = [cv2.IMWRITE_JPEG_QUALITY, quality]
    _, data = cv2.imencode(".jpg", bgr, options)
    return bytes(np.asarray(data).tobytes())


def data_uri(data: bytes) -> str:
    """A JPEG as the address of a picture inside the page."""
    return "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")
