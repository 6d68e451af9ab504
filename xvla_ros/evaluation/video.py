"""An episode as an animated GIF, with what the policy plans drawn into the picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import radians, tan
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from xvla_ros.evaluation.recording import Frame, PlanTrace, Recording
from xvla_ros.sim.cameras import FIXED, Camera

Array = NDArray[np.float64]
Rgb = NDArray[np.uint8]

FRAME_RATE = 7.5
_WIDTH = 480
_INSET = 0.34
_TRAIL_S = 1.0
_NEAR = (255, 214, 10)
_FAR = (226, 61, 150)
_CLOSED = (30, 215, 96)
_TRAIL = (255, 255, 255)


@dataclass(frozen=True)
class Caption:
    """What is written over an episode."""

    instruction: str
    start: float
    success: float | None
    """Seconds from the start to success; None without."""


def project(camera: Camera, points: Array, width: int, height: int) -> Array:
    """Pixels (n, 2) of points (n, 3) in the frame in which the camera stands.

    A pinhole without distortion; NaN for points behind the camera.
    """
    local = (np.asarray(points, dtype=np.float64) - camera.position) @ camera.rotation()
    focal = 0.5 * height / tan(0.5 * radians(camera.fovy))
    depth = np.where(local[:, 2] < -1e-6, -local[:, 2], np.nan)
    x = 0.5 * width + focal * local[:, 0] / depth
    y = 0.5 * height - focal * local[:, 1] / depth
    return np.column_stack([x, y])


def camera_of(topic: str) -> Camera | None:
    """The fixed camera of the simulator whose name is a part of a topic; None without."""
    return next((camera for camera in FIXED if camera.name in topic.split("/")), None)


def write_episode(
    path: Path, recording: Recording, start: float, end: float, caption: Caption
) -> bool:
    """Writes the GIF of the time from `start` to `end`; False when there is nothing to show.

    The picture is that of the first topic with a fixed camera, the inset that of the next one.
    """
    topics = sorted(recording.frames, key=lambda topic: (camera_of(topic) is None, topic))
    main = topics[0] if topics else ""
    camera = camera_of(main)
    if camera is None:
        return False
    shown = _thinned(recording.frames[main], start, end)
    others = recording.frames[topics[1]] if len(topics) > 1 else []
    trail = recording.commanded
    positions = trail.positions()
    pictures = []
    for frame in shown:
        picture = _decode(frame.data)
        recent = (trail.times > frame.stamp - _TRAIL_S) & (trail.times <= frame.stamp)
        _draw_path(picture, camera, positions[recent])
        plan = recording.plan_at(frame.stamp)
        if plan is not None:
            draw_plan(picture, camera, plan, frame.stamp)
        inset = _newest(others, frame.stamp)
        if inset is not None:
            _paste(picture, _decode(inset.data))
        _write_caption(picture, caption, frame.stamp, plan)
        pictures.append(_scaled(picture, _WIDTH, picture.shape[0] * _WIDTH // picture.shape[1]))
    if not pictures:
        return False
    _write_gif(path, pictures)
    return True


def draw_plan(picture: Rgb, camera: Camera, plan: PlanTrace, time: float) -> None:
    """Draws what is still to come of a plan, near yellow to far magenta, closed gripper green."""
    positions, gripper = plan.ahead(time)
    height, width = picture.shape[:2]
    pixels = project(camera, positions, width, height)
    for i, first, second in _segments(pixels):
        share = i / max(len(pixels) - 2, 1)
        colour = tuple(round(a + share * (b - a)) for a, b in zip(_NEAR, _FAR, strict=True))
        cv2.line(
            picture, first, second, _CLOSED if gripper[i + 1] > 0.5 else colour, 3, cv2.LINE_AA
        )
    if len(pixels) and np.isfinite(pixels[-1]).all():
        last = _CLOSED if gripper[-1] > 0.5 else _FAR
        cv2.circle(picture, _point(pixels[-1]), 6, last, 2, cv2.LINE_AA)


def _draw_path(picture: Rgb, camera: Camera, positions: Array) -> None:
    """What was commanded in the last moments, thin and white."""
    pixels = project(camera, positions.reshape(-1, 3), picture.shape[1], picture.shape[0])
    for _, first, second in _segments(pixels):
        cv2.line(picture, first, second, _TRAIL, 1, cv2.LINE_AA)


def _segments(pixels: Array) -> Iterator[tuple[int, tuple[int, int], tuple[int, int]]]:
    """Index and ends of the parts of a line that are in front of the camera."""
    for i, (first, second) in enumerate(pairwise(pixels)):
        if np.isfinite([first, second]).all():
            yield i, _point(first), _point(second)


def _point(pixel: Array) -> tuple[int, int]:
    """Rounded, and kept where OpenCV's integer arithmetic is safe."""
    x, y = np.clip(np.rint(pixel), -10_000, 10_000)
    return int(x), int(y)


def _thinned(frames: Sequence[Frame], start: float, end: float) -> list[Frame]:
    """Frames of a span at no more than the GIF's rate."""
    chosen: list[Frame] = []
    due = start
    for frame in frames:
        # Half a camera period early is nearer to the wanted time than the frame after it.
        if start <= frame.stamp <= end and frame.stamp >= due - 0.25 / FRAME_RATE:
            chosen.append(frame)
            due = max(due + 1.0 / FRAME_RATE, frame.stamp + 0.5 / FRAME_RATE)
    return chosen


def _newest(frames: Sequence[Frame], time: float) -> Frame | None:
    return next((frame for frame in reversed(frames) if frame.stamp <= time + 0.1), None)


def _decode(data: bytes) -> Rgb:
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if bgr is None:
        raise ValueError("a recorded image cannot be decoded")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _scaled(picture: Rgb, width: int, height: int) -> Rgb:
    small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)


def _paste(picture: Rgb, inset: Rgb) -> None:
    """Puts a small picture into the lower right corner, framed."""
    height, width = (round(_INSET * n) for n in picture.shape[:2])
    picture[-height - 8 : -8, -width - 8 : -8] = _scaled(inset, width, height)
    corner = (picture.shape[1] - width - 9, picture.shape[0] - height - 9)
    cv2.rectangle(picture, corner, (picture.shape[1] - 8, picture.shape[0] - 8), _TRAIL, 1)


def _write_caption(picture: Rgb, caption: Caption, time: float, plan: PlanTrace | None) -> None:
    elapsed = time - caption.start
    done = caption.success is not None and elapsed >= caption.success
    sequence = plan.sequence if plan is not None else 0
    _text(picture, f'"{caption.instruction}"', (12, 28), 0.7)
    state = f"{max(elapsed, 0.0):4.1f} s   chunk {sequence}" + ("   done" if done else "")
    _text(picture, state, (12, picture.shape[0] - 14), 0.6, _CLOSED if done else _TRAIL)


def _text(
    picture: Rgb,
    text: str,
    origin: tuple[int, int],
    scale: float,
    colour: tuple[int, int, int] = _TRAIL,
) -> None:
    font = cv2.FONT_HERSHEY_SIMPLEX
    cv2.putText(picture, text, origin, font, scale, (20, 20, 20), 4, cv2.LINE_AA)
    cv2.putText(picture, text, origin, font, scale, colour, 1, cv2.LINE_AA)


def _write_gif(path: Path, pictures: Sequence[Rgb]) -> None:
    """One palette for all pictures, so that still parts stay still and compress well."""
    from PIL import Image

    samples = np.concatenate(list(pictures[:: max(1, len(pictures) // 6)]))
    palette = Image.fromarray(samples).quantize(96, dither=Image.Dither.NONE)
    frames: list[Any] = [
        Image.fromarray(p).quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures
    ]
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=round(1000.0 / FRAME_RATE),
        loop=0,
        optimize=True,
    )
