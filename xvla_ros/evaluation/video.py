"""An episode as an animated GIF: what the policy sees, and what it plans, drawn into it."""

from __future__ import annotations

from collections.abc import Sequence
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
Colour = tuple[int, int, int]

FRAME_RATE = 7.5
SIZE = (720, 360)
"""Width and height of the film: the main view, and beside it a column half as wide."""
_MAIN = (480, 360)
_TRAIL_S = 1.0
_END_MS = 1500
# The plan fades from near to far, in one hue for an open and another for a closed gripper.
_OPEN: tuple[Colour, Colour] = ((255, 225, 25), (235, 90, 10))
_CLOSED: tuple[Colour, Colour] = ((90, 230, 255), (20, 90, 230))
_TRAIL: Colour = (255, 255, 255)
_EDGE: Colour = (25, 25, 25)
_PANEL: Colour = (24, 27, 33)
_TEXT: Colour = (225, 228, 232)
_DONE: Colour = (80, 220, 120)


@dataclass(frozen=True)
class Caption:
    """What is written beside an episode."""

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

    The main view is that of the first topic with a fixed camera, the small one the next topic's.
    """
    topics = sorted(recording.frames, key=lambda topic: (camera_of(topic) is None, topic))
    main = topics[0] if topics else ""
    camera = camera_of(main)
    if camera is None:
        return False
    others = recording.frames[topics[1]] if len(topics) > 1 else []
    commanded = recording.commanded
    positions = commanded.positions()
    pictures = []
    for frame in _thinned(recording.frames[main], start, end):
        time = frame.stamp
        view = _scaled(_decode(frame.data), *_MAIN)
        recent = (commanded.times > time - _TRAIL_S) & (commanded.times <= time)
        _draw_trail(view, camera, positions[recent])
        plan = recording.plan_at(time)
        if plan is not None:
            draw_plan(view, camera, plan, time)
        column = _column(_newest(others, time), caption, time, plan)
        pictures.append(np.concatenate([view, column], axis=1))
    if not pictures:
        return False
    _write_gif(path, pictures)
    return True


def draw_plan(picture: Rgb, camera: Camera, plan: PlanTrace, time: float) -> None:
    """Draws what is still to come of a plan: yellow with an open gripper, blue with a closed."""
    positions, gripper = plan.ahead(time)
    height, width = picture.shape[:2]
    pixels = project(camera, positions, width, height)
    parts = [
        (_point(a), _point(b), _shade(gripper[i + 1], i / max(len(pixels) - 2, 1)))
        for i, (a, b) in enumerate(pairwise(pixels))
        if np.isfinite([a, b]).all()
    ]
    for first, second, _ in parts:
        cv2.line(picture, first, second, _EDGE, 5, cv2.LINE_AA)
    for first, second, colour in parts:
        cv2.line(picture, first, second, colour, 3, cv2.LINE_AA)
    if parts:
        _, last, colour = parts[-1]
        cv2.circle(picture, last, 5, _EDGE, 4, cv2.LINE_AA)
        cv2.circle(picture, last, 5, colour, 2, cv2.LINE_AA)


def _shade(gripper: float, share: float) -> Colour:
    """Colour of a plan at a share of its length."""
    near, far = _CLOSED if gripper > 0.5 else _OPEN
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(near, far, strict=True))
    return red, green, blue


def _draw_trail(picture: Rgb, camera: Camera, positions: Array) -> None:
    """What was commanded in the last moments, thin and white."""
    pixels = project(camera, positions.reshape(-1, 3), picture.shape[1], picture.shape[0])
    for first, second in pairwise(pixels):
        if np.isfinite([first, second]).all():
            cv2.line(picture, _point(first), _point(second), _TRAIL, 1, cv2.LINE_AA)


def _point(pixel: Array) -> tuple[int, int]:
    """Rounded, and kept where OpenCV's integer arithmetic is safe."""
    x, y = np.clip(np.rint(pixel), -10_000, 10_000)
    return int(x), int(y)


def _thinned(frames: Sequence[Frame], start: float, end: float) -> list[Frame]:
    """Frames of a span at no more than the film's rate."""
    chosen: list[Frame] = []
    due = start
    for frame in frames:
        # Half a camera period early is nearer to the wanted time than the frame after it.
        if start <= frame.stamp <= end and frame.stamp >= due - 0.25 / FRAME_RATE:
            chosen.append(frame)
            due = max(due + 1.0 / FRAME_RATE, frame.stamp + 0.5 / FRAME_RATE)
    return chosen


def _newest(frames: Sequence[Frame], time: float) -> Frame | None:
    # The cameras take turns; the one that comes next shows the same moment.
    return next((frame for frame in reversed(frames) if frame.stamp <= time + 0.05), None)


def _decode(data: bytes) -> Rgb:
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if bgr is None:
        raise ValueError("a recorded image cannot be decoded")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _scaled(picture: Rgb, width: int, height: int) -> Rgb:
    small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)


def _column(inset: Frame | None, caption: Caption, time: float, plan: PlanTrace | None) -> Rgb:
    """The column beside the main view: the second view, and below it words."""
    width, height = SIZE[0] - _MAIN[0], SIZE[1]
    column = np.full((height, width, 3), _PANEL, dtype=np.uint8)
    half = height // 2
    if inset is not None:
        column[:half] = _scaled(_decode(inset.data), width, half)
    elapsed = max(time - caption.start, 0.0)
    done = caption.success is not None and elapsed >= caption.success
    sequence = plan.sequence if plan is not None else 0
    _write(column, caption.instruction, half + 28, _TEXT)
    _write(column, f"{elapsed:4.1f} s", half + 58, _DONE if done else _TEXT)
    _write(column, "done" if done else f"chunk {sequence}", half + 58, _DONE if done else _TEXT, 90)
    for row, (label, colour) in enumerate(
        (("plan, open", _OPEN[0]), ("plan, closed", _CLOSED[0]), ("commanded", _TRAIL))
    ):
        y = half + 96 + 26 * row
        cv2.line(column, (12, y - 5), (36, y - 5), colour, 3 if row < 2 else 1, cv2.LINE_AA)
        _write(column, label, y, _TEXT, 48)
    return column


def _write(picture: Rgb, text: str, y: int, colour: Colour, x: int = 12) -> None:
    cv2.putText(picture, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.5, colour, 1, cv2.LINE_AA)


def _write_gif(path: Path, pictures: Sequence[Rgb]) -> None:
    """One palette for all pictures, so that still parts stay still and compress well."""
    from PIL import Image

    samples = [*pictures[:: max(1, len(pictures) // 6)], _swatch()]
    palette = Image.fromarray(np.concatenate(samples)).quantize(128, dither=Image.Dither.NONE)
    frames: list[Any] = [
        Image.fromarray(p).quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures
    ]
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=[round(1000.0 / FRAME_RATE)] * (len(frames) - 1) + [_END_MS],
        loop=0,
        optimize=True,
    )


def _swatch() -> Rgb:
    """The colours of the plan over a large area: thin lines alone would get no palette entry."""
    shares = np.linspace(0.0, 1.0, 6)
    colours = [_shade(gripper, share) for gripper in (0.0, 1.0) for share in shares]
    bands = np.array([*colours, _DONE, _TRAIL], dtype=np.uint8)
    return np.repeat(np.repeat(bands[:, None], SIZE[0], axis=1), 24, axis=0)
