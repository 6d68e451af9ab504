"""Every image encoding in a bag reaches the policy as the same picture."""

import cv2
import numpy as np
import pytest

RGB = np.zeros((48, 64, 3), np.uint8)
RGB[:, :32] = (200, 60, 30)
RGB[:, 32:] = (20, 90, 180)
GREY = cv2.cvtColor(RGB, cv2.COLOR_RGB2GRAY)


def rgba(order):
    alpha = np.full((*RGB.shape[:2], 1), 255, np.uint8)
    return np.concatenate([RGB[..., order], alpha], axis=2)


def packed_yuv(luma_first):
    """4:2:2 of flat halves: chrominance is the same for neighbours."""
    yuv = cv2.cvtColor(RGB, cv2.COLOR_RGB2YUV).astype(np.float64)
    # Video range, BT.601, as the cameras' formats have it.
    y = 16.0 + 219.0 / 255.0 * yuv[..., 0]
    # OpenCV's U and V are 0.492 (B - Y) and 0.877 (R - Y).
    u = 128.0 + 224.0 / 255.0 * 0.564 / 0.492 * (yuv[..., 1] - 128.0)
    v = 128.0 + 224.0 / 255.0 * 0.713 / 0.877 * (yuv[..., 2] - 128.0)
    out = np.empty((*y.shape, 2))
    first, second = (0, 1) if luma_first else (1, 0)
    out[..., first] = y
    out[:, 0::2, second], out[:, 1::2, second] = u[:, 0::2], v[:, 0::2]
    return np.clip(np.rint(out), 0, 255).astype(np.uint8)


def nv12():
    i420 = cv2.cvtColor(RGB, cv2.COLOR_RGB2YUV_I420)
    luma, chroma = i420[:48], i420[48:].reshape(2, 24, 32)
    return np.concatenate([luma, np.stack([chroma[0], chroma[1]], axis=-1).reshape(24, 64)])


def bayer_rggb():
    mosaic = np.empty(RGB.shape[:2], np.uint8)
    mosaic[0::2, 0::2], mosaic[1::2, 1::2] = RGB[0::2, 0::2, 0], RGB[1::2, 1::2, 2]
    mosaic[0::2, 1::2], mosaic[1::2, 0::2] = RGB[0::2, 1::2, 1], RGB[1::2, 0::2, 1]
    return mosaic


def grey_rgb():
    return np.repeat(GREY[..., None], 3, axis=2)


WIDE = GREY.astype(np.uint16) * 256 + 99
# Encoding, buffer as rows, big-endian, what it shows, how exactly.
RAW = {
    "rgb8": (RGB, 0, RGB, 0),
    "bgr8": (RGB[..., ::-1], 0, RGB, 0),
    "rgba8": (rgba([0, 1, 2]), 0, RGB, 0),
    "bgra8": (rgba([2, 1, 0]), 0, RGB, 0),
    "mono8": (GREY, 0, grey_rgb(), 0),
    "16UC1": (WIDE, 0, grey_rgb(), 0),
    "mono16": (WIDE.byteswap(), 1, grey_rgb(), 0),
    "yuv422": (packed_yuv(False), 0, RGB, 6),
    "yuv422_yuy2": (packed_yuv(True), 0, RGB, 6),
    "nv12": (nv12(), 0, RGB, 6),
    "bayer_rggb8": (bayer_rggb(), 0, RGB, 0),
}


def shown(bags, turner, path, topic, make):
    folder = bags.write(
        path, [*bags.told(), *bags.joints(1.5), *bags.camera(1.5, topic, make=make)]
    )
    policy = turner.Turner()
    entry, _ = turner.evaluate(folder, policy)
    assert entry["status"] == "complete", entry["message"]
    return policy.seen[0].images[0]


def assert_shows(image, expected, tolerance):
    assert image.shape == expected.shape
    # The border between the halves is blurred where colour has less resolution.
    inside = np.r_[4:26, 38:60]
    difference = np.abs(image[4:-4, inside].astype(int) - expected[4:-4, inside])
    assert difference.max() <= tolerance


@pytest.mark.parametrize("padding", [0, 6])
@pytest.mark.parametrize("encoding", RAW)
def test_raw_images(encoding, padding, bags, turner, tmp_path):
    pixels, big, expected, tolerance = RAW[encoding]
    rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(len(pixels), -1)
    padded = np.pad(rows, ((0, 0), (0, padding)), constant_values=123)

    def make(stamp):
        return bags.raw_image(stamp, encoding, 64, 48, padded.shape[1], padded, big)

    image = shown(bags, turner, tmp_path / "bag", bags.FRONT, make)
    assert_shows(image, expected, tolerance)


@pytest.mark.parametrize(("kind", "tolerance"), [("png", 0), ("jpeg", 6)])
def test_compressed_images(kind, tolerance, bags, turner, tmp_path):
    image = shown(
        bags,
        turner,
        tmp_path / "bag",
        bags.FRONT + "/compressed",
        lambda stamp: bags.compressed(stamp, RGB, kind),
    )
    assert_shows(image, RGB, tolerance)
