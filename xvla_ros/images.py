"""Images of every common encoding to RGB, with numpy and OpenCV alone.

Encodings carry the names of ROS's sensor_msgs/image_encodings.hpp. Row padding (`step`), byte
order and truncated buffers are taken seriously: a decoder that ignores them shows the policy a
sheared or noisy picture, and nothing else would say so.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Rgb = NDArray[np.uint8]

# Encoding -> (bytes per sample, channels, OpenCV code to RGB; None where the channels are RGB).
_PLAIN: dict[str, tuple[int, int, int | None]] = {
    "rgb8": (1, 3, None),
    "bgr8": (1, 3, cv2.COLOR_BGR2RGB),
    "8UC3": (1, 3, cv2.COLOR_BGR2RGB),
    "rgba8": (1, 4, cv2.COLOR_RGBA2RGB),
    "bgra8": (1, 4, cv2.COLOR_BGRA2RGB),
    "8UC4": (1, 4, cv2.COLOR_BGRA2RGB),
    "mono8": (1, 1, cv2.COLOR_GRAY2RGB),
    "8UC1": (1, 1, cv2.COLOR_GRAY2RGB),
    "rgb16": (2, 3, None),
    "bgr16": (2, 3, cv2.COLOR_BGR2RGB),
    "mono16": (2, 1, cv2.COLOR_GRAY2RGB),
    "16UC1": (2, 1, cv2.COLOR_GRAY2RGB),
    "yuv422": (1, 2, cv2.COLOR_YUV2RGB_UYVY),
    "uyvy": (1, 2, cv2.COLOR_YUV2RGB_UYVY),
    "yuv422_yuy2": (1, 2, cv2.COLOR_YUV2RGB_YUY2),
    "yuyv": (1, 2, cv2.COLOR_YUV2RGB_YUY2),
}
# ROS names a Bayer pattern by its first two rows; OpenCV's older names start at the second row
# and column, which is why RGGB is "BG" there.
_BAYER: dict[str, int] = {
    "rggb": cv2.COLOR_BayerBG2RGB,
    "bggr": cv2.COLOR_BayerRG2RGB,
    "gbrg": cv2.COLOR_BayerGR2RGB,
    "grbg": cv2.COLOR_BayerGB2RGB,
}
for _pattern, _code in _BAYER.items():
    _PLAIN[f"bayer_{_pattern}8"] = (1, 1, _code)
    _PLAIN[f"bayer_{_pattern}16"] = (2, 1, _code)
# Luminance at full size, then interleaved chrominance at half height.
_SEMI_PLANAR: dict[str, int] = {
    "nv12": cv2.COLOR_YUV2RGB_NV12,
    "nv21": cv2.COLOR_YUV2RGB_NV21,
}

ENCODINGS: tuple[str, ...] = tuple(sorted({*_PLAIN, *_SEMI_PLANAR}))
"""Encodings that `decode` understands."""


class ImageError(ValueError):
    """An image that cannot be shown to the policy, with the reason in one line."""


def row_bytes(encoding: str, width: int) -> int:
    """Bytes of a row without padding.

    Raises:
        ImageError: the encoding is unknown.
    """
    if encoding in _SEMI_PLANAR:
        return width
    if encoding not in _PLAIN:
        raise ImageError(f"encoding '{encoding}' is not supported; known: {', '.join(ENCODINGS)}")
    size, channels, _ = _PLAIN[encoding]
    return size * channels * width


def decode(
    encoding: str,
    width: int,
    height: int,
    step: int,
    data: Any,
    is_bigendian: bool = False,
) -> Rgb:
    """The image as contiguous RGB uint8 (height, width, 3).

    Args:
        encoding: one of `ENCODINGS`. 16-bit samples keep their upper eight bits.
        width: pixels.
        height: pixels.
        step: bytes from one row to the next, padding included; 0 = rows are not padded.
        data: buffer of at least `height` rows (1.5 times as many for nv12 and nv21).
        is_bigendian: byte order of 16-bit samples.

    Raises:
        ImageError: unknown encoding, sizes that contradict one another, or too few bytes.
    """
    needed = row_bytes(encoding, width)
    step = step or needed
    if width < 1 or height < 1 or step < needed:
        raise ImageError(
            f"{width}x{height} {encoding} with a step of {step} bytes; a row has {needed}"
        )
    if encoding in _SEMI_PLANAR:
        if width % 2 or height % 2:
            raise ImageError(f"{encoding} needs even sizes, not {width}x{height}")
        planes = _rows(data, height * 3 // 2, step, needed, encoding)
        return _as_rgb(cv2.cvtColor(np.ascontiguousarray(planes), _SEMI_PLANAR[encoding]))
    return _decode_plain(encoding, width, _rows(data, height, step, needed, encoding), is_bigendian)


def decode_compressed(data: Any, format_: str = "") -> Rgb:
    """A JPEG or PNG file as contiguous RGB uint8 (height, width, 3).

    OpenCV decodes to BGR whatever the file holds; the result is turned round here. An
    orientation tag is ignored, as a raw image has none either.

    Args:
        data: the bytes of the file.
        format_: the `format` of a sensor_msgs/CompressedImage, for messages and depth images.

    Raises:
        ImageError: no image in these bytes, or a depth image.
    """
    if "compressedDepth" in format_:
        raise ImageError(f"compressed image of format '{format_}' holds depth, not colour")
    buffer = np.frombuffer(data, dtype=np.uint8)
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    bgr = cv2.imdecode(buffer, flags) if buffer.size else None
    if bgr is None:
        raise ImageError(f"no JPEG or PNG in {buffer.size} bytes of format '{format_}'")
    return _as_rgb(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB))


def from_message(message: Any, topic: str) -> Rgb:
    """A sensor_msgs Image or CompressedImage of any library as contiguous RGB (height, width, 3).

    Raises:
        ImageError: with the topic and the encoding.
    """
    try:
        if hasattr(message, "format"):
            return decode_compressed(message.data, message.format)
        return decode(
            message.encoding,
            message.width,
            message.height,
            message.step,
            message.data,
            bool(message.is_bigendian),
        )
    except ImageError as error:
        raise ImageError(f"{topic}: {error}") from error


def _rows(data: Any, rows: int, step: int, needed: int, encoding: str) -> NDArray[np.uint8]:
    """View (rows, needed) of a buffer, with the padding cut off."""
    buffer = np.frombuffer(data, dtype=np.uint8)
    if buffer.size < rows * step:
        raise ImageError(
            f"{encoding} image is truncated: {buffer.size} bytes, {rows * step} are needed"
        )
    return buffer[: rows * step].reshape(rows, step)[:, :needed]


def _decode_plain(encoding: str, width: int, rows: NDArray[np.uint8], big: bool) -> Rgb:
    size, channels, code = _PLAIN[encoding]
    pixels: NDArray[Any] = np.ascontiguousarray(rows)
    if size == 2:
        wide = pixels.view(">u2" if big else "<u2")
        pixels = (wide >> 8).astype(np.uint8)
    pixels = pixels.reshape(len(rows), width, channels)
    if code is None:
        return _as_rgb(pixels)
    try:
        return _as_rgb(cv2.cvtColor(pixels, code))
    except cv2.error as error:
        size_text = f"{width}x{len(rows)}"
        raise ImageError(f"OpenCV cannot convert {size_text} {encoding}: {error.err}") from error


def _as_rgb(image: Any) -> Rgb:
    return np.ascontiguousarray(image, dtype=np.uint8)
