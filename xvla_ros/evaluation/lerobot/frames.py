"""Pictures of an episode: out of a video, or as the dataset's table holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from xvla_ros.evaluation.lerobot.layout import Clip, Dataset
from xvla_ros.images import ImageError

Rgb = NDArray[np.uint8]


class VideoFrames:
    """Frames of one camera's videos, mostly one after another.

    Seeking by number is not exact in every container, so frames in between are passed over.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._path: Path | None = None
        self._capture: cv2.VideoCapture | None = None
        self._next = 0
        self._last: Rgb | None = None

    def frame(self, clip: Clip, index: int) -> Rgb:
        """RGB (height, width, 3) of the `index`-th frame of an episode.

        Raises:
            ImageError: no such file or frame, or its codec is unknown here.
        """
        wanted = round(clip.start_s * self._dataset.fps) + index
        if clip.path != self._path or wanted < self._next - 1:
            self._open(clip.path)
        if wanted == self._next - 1 and self._last is not None:
            return self._last
        assert self._capture is not None
        while self._next < wanted and self._capture.grab():
            self._next += 1
        good, bgr = self._capture.read() if self._next == wanted else (False, None)
        if not good or bgr is None:
            raise ImageError(self._why(clip.path, wanted))
        self._next = wanted + 1
        self._last = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
        return self._last

    def close(self) -> None:
        """Lets go of the file."""
        if self._capture is not None:
            self._capture.release()
        self._capture, self._path, self._last, self._next = None, None, None, 0

    def _open(self, path: Path) -> None:
        self.close()
        name = self._dataset.name(path)
        if not path.is_file():
            raise ImageError(f"{name} is missing")
        capture = cv2.VideoCapture(str(path))
        if not capture.isOpened():
            raise ImageError(f"{name}: OpenCV cannot open it as a video")
        fps = float(capture.get(cv2.CAP_PROP_FPS))
        if abs(fps - self._dataset.fps) > 0.02 * self._dataset.fps:
            raise ImageError(f"{name}: {fps:g} frames/s, the dataset has {self._dataset.fps:g}")
        self._capture, self._path = capture, path

    def _why(self, path: Path, wanted: int) -> str:
        name = self._dataset.name(path)
        if self._next:
            return f"{name}: ends after {self._next} frames, frame {wanted} is wanted"
        assert self._capture is not None
        number = int(self._capture.get(cv2.CAP_PROP_FOURCC))
        code = number.to_bytes(4, "little", signed=number < 0).decode("ascii", "replace").lower()
        return (
            f"{name}: OpenCV cannot decode its codec {code!r}: convert it, e.g. with "
            f"ffmpeg -i {path.name} -c:v libx264 converted.mp4, and put it in its place"
        )


def stored(value: Any, name: str) -> Rgb:
    """RGB (height, width, 3) of a picture in a table.

    Args:
        value: `{"bytes", "path"}`, or the bytes.
        name: of the camera, for errors.

    Raises:
        ImageError: there are no bytes, or they are no picture.
    """
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes) or not data:
        raise ImageError(f"{name}: the table has no picture")
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if bgr is None:
        raise ImageError(f"{name}: what the table has cannot be decoded as a picture")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
