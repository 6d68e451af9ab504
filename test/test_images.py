"""Whatever a camera sends, the policy sees the same RGB picture."""

import array

import cv2
import numpy as np
import pytest

from xvla_ros import images

H, W = 8, 12
# Each pixel its own colour, so that a shear, a swap or a mirror cannot go unseen.
RGB = np.random.default_rng(0).integers(0, 256, (H, W, 3), dtype=np.uint8)


def smooth(height=32, width=48):
    """A picture that survives subsampled chrominance, mosaics and JPEG: broad gradients."""
    y, x = np.mgrid[0:height, 0:width]
    red = 60 + 120 * x / width
    green = 70 + 100 * y / height
    blue = 180 - 100 * x / width
    return np.stack([red, green, blue], axis=-1).round().astype(np.uint8)


def padded(rows, padding):
    """Bytes of rows (n, bytes) with junk after each."""
    junk = np.full((len(rows), padding), 0xAB, np.uint8)
    return np.hstack([rows, junk]).tobytes(), rows.shape[1] + padding


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize(
    ("encoding", "pixels"),
    [
        ("rgb8", RGB),
        ("bgr8", RGB[..., ::-1]),
        ("8UC3", RGB[..., ::-1]),
        ("rgba8", np.dstack([RGB, np.full((H, W), 7, np.uint8)])),
        ("bgra8", np.dstack([RGB[..., ::-1], np.full((H, W), 7, np.uint8)])),
    ],
)
def test_colour_channels_come_out_in_the_order_red_green_blue(encoding, pixels, padding):
    data, step = padded(np.ascontiguousarray(pixels).reshape(H, -1), padding)
    out = images.decode(encoding, W, H, step, data)
    np.testing.assert_array_equal(out, RGB)
    assert out.flags.c_contiguous
    assert out.dtype == np.uint8


@pytest.mark.parametrize("encoding", ["mono8", "8UC1"])
def test_grey_becomes_three_equal_channels(encoding):
    data, step = padded(RGB[..., 0], 3)
    out = images.decode(encoding, W, H, step, data)
    for channel in range(3):
        np.testing.assert_array_equal(out[..., channel], RGB[..., 0])


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("encoding", ["mono16", "16UC1"])
def test_sixteen_bits_keep_their_upper_eight_in_either_byte_order(encoding, big):
    wide = RGB[..., 0].astype(np.uint16) * 256 + 17
    rows = wide.astype(">u2" if big else "<u2").view(np.uint8).reshape(H, -1)
    data, step = padded(rows, 6)
    out = images.decode(encoding, W, H, step, data, is_bigendian=big)
    np.testing.assert_array_equal(out[..., 1], RGB[..., 0])


def test_sixteen_bit_colour_is_turned_to_rgb():
    wide = (RGB[..., ::-1].astype(np.uint16) * 256).astype("<u2")
    out = images.decode("bgr16", W, H, W * 6, wide.tobytes())
    np.testing.assert_array_equal(out, RGB)


def bt601(rgb):
    """Y, Cb, Cr of the studio range of ITU-R BT.601, from the formula."""
    r, g, b = (rgb[..., k].astype(float) / 255.0 for k in range(3))
    y = 16 + 65.481 * r + 128.553 * g + 24.966 * b
    cb = 128 - 37.797 * r - 74.203 * g + 112.0 * b
    cr = 128 + 112.0 * r - 93.786 * g - 18.214 * b
    return [np.clip(np.rint(plane), 0, 255).astype(np.uint8) for plane in (y, cb, cr)]


@pytest.mark.parametrize(
    ("encoding", "luma_first"),
    [("yuv422", False), ("uyvy", False), ("yuv422_yuy2", True), ("yuyv", True)],
)
def test_packed_yuv_has_luma_and_chroma_where_its_name_says(encoding, luma_first):
    rgb = smooth()
    y, cb, cr = bt601(rgb)
    chroma = np.where(np.arange(rgb.shape[1]) % 2 == 0, cb, cr)
    packed = np.stack([y, chroma] if luma_first else [chroma, y], axis=-1)
    data, step = padded(packed.reshape(len(rgb), -1), 10)
    out = images.decode(encoding, rgb.shape[1], rgb.shape[0], step, data)
    assert np.abs(out.astype(int) - rgb).max() <= 6


@pytest.mark.parametrize(("encoding", "order"), [("nv12", (1, 2)), ("nv21", (2, 1))])
def test_semi_planar_yuv_has_its_chroma_below_in_the_order_of_its_name(encoding, order):
    rgb = smooth()
    planes = bt601(rgb)
    chroma = np.stack([planes[k][::2, ::2] for k in order], axis=-1)
    rows = np.vstack([planes[0], chroma.reshape(len(rgb) // 2, -1)])
    data, step = padded(rows, 16)
    out = images.decode(encoding, rgb.shape[1], rgb.shape[0], step, data)
    assert np.abs(out.astype(int) - rgb).max() <= 8


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_a_mosaic_is_named_by_its_first_two_rows(pattern, bits):
    rgb = smooth()
    mosaic = np.empty(rgb.shape[:2], np.uint8)
    for k, letter in enumerate(pattern):
        row, column = divmod(k, 2)
        mosaic[row::2, column::2] = rgb[row::2, column::2, "rgb".index(letter)]
    rows = mosaic if bits == 8 else (mosaic.astype("<u2") * 256).view(np.uint8)
    data, step = padded(rows.reshape(len(rgb), -1), 8)
    out = images.decode(f"bayer_{pattern}{bits}", rgb.shape[1], rgb.shape[0], step, data)
    inner = (slice(2, -2), slice(2, -2))
    assert np.abs(out[inner].astype(int) - rgb[inner]).max() <= 6


def test_the_buffer_of_a_ros_message_is_taken_as_it_is():
    out = images.decode("rgb8", W, H, W * 3, array.array("B", RGB.tobytes()))
    np.testing.assert_array_equal(out, RGB)


def test_a_step_of_zero_means_no_padding():
    np.testing.assert_array_equal(images.decode("rgb8", W, H, 0, RGB.tobytes()), RGB)


def test_the_bytes_needed_of_a_row_are_known():
    assert images.row_bytes("rgb8", 640) == 1920
    assert images.row_bytes("mono16", 640) == 1280
    assert images.row_bytes("nv12", 640) == 640


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rgb9", W, H, 0, RGB.tobytes()), "rgb9"),
        (("rgb8", W, H, W * 3, RGB.tobytes()[:-1]), "truncated"),
        (("rgb8", W, H, W * 3 - 1, RGB.tobytes()), "step"),
        (("rgb8", 0, H, 0, b""), "0x8"),
        (("nv12", 3, 3, 3, bytes(64)), "even"),
        (("yuv422", 3, 4, 6, bytes(64)), "yuv422"),
    ],
)
def test_an_image_that_cannot_be_decoded_says_why(arguments, message):
    with pytest.raises(images.ImageError, match=message):
        images.decode(*arguments)


@pytest.mark.parametrize(("extension", "tolerance"), [(".png", 0), (".jpg", 8)])
def test_compressed_images_come_out_as_rgb(extension, tolerance):
    rgb = smooth()
    options = [cv2.IMWRITE_JPEG_QUALITY, 95] if extension == ".jpg" else []
    ok, file = cv2.imencode(extension, rgb[..., ::-1], options)
    assert ok
    out = images.decode_compressed(file.tobytes(), "rgb8; jpeg compressed bgr8")
    assert np.abs(out.astype(int) - rgb).max() <= tolerance


def test_a_compressed_grey_image_becomes_three_channels():
    _, file = cv2.imencode(".png", RGB[..., 0])
    out = images.decode_compressed(array.array("B", file.tobytes()), "mono8; png compressed ")
    assert out.shape == (H, W, 3)
    np.testing.assert_array_equal(out[..., 2], RGB[..., 0])


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff\xe0 not a whole jpeg", b"no image"])
def test_bytes_that_are_no_image_are_refused(data):
    with pytest.raises(images.ImageError, match=r"no JPEG or PNG"):
        images.decode_compressed(data, "jpeg")


def test_a_depth_image_is_not_taken_for_colour():
    with pytest.raises(images.ImageError, match="depth"):
        images.decode_compressed(b"", "16UC1; compressedDepth png")
