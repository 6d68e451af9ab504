"""Messages of the simulated cameras' pictures."""

from __future__ import annotations

import array

import cv2
import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header


def image_msg(header: Header, picture: NDArray[np.uint8]) -> Image:
    """A raw image of an RGB picture (H, W, 3)."""
    height, width, _ = picture.shape
    return Image(
        header=header,
        height=height,
        width=width,
        encoding="rgb8",
        step=3 * width,
        data=array.array("B", picture.tobytes()),
    )


def jpeg_msg(header: Header, picture: NDArray[np.uint8], quality: int) -> CompressedImage:
    """The same as JPEG, as image_transport publishes it."""
    _, data = cv2.imencode(
        ".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality]
    )
    return CompressedImage(
        header=header, format="rgb8; jpeg compressed bgr8", data=array.array("B", data.tobytes())
    )
