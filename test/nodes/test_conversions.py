"""What goes onto the wire comes back the same, and what is not right on the wire is refused."""

import array
import math

import cv2
import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose as PoseMsg
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image

from xvla_ros import images
from xvla_ros.chunk import Chunk, ChunkRefused, Plan, Provenance, Refusal
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.msg import ActionChunk
from xvla_ros.msg import Plan as PlanMsg
from xvla_ros.nodes import conversions as convert

NOW = 1_795_000_000.0


def over_the_wire(message):
    """The message as another process gets it."""
    return deserialize_message(serialize_message(message), type(message))


def chunk(horizon=5, **changes):
    rng = np.random.default_rng(3)
    fields = {
        "stamp": NOW,
        "t_ref": NOW + 0.25,
        "step_dt": 1.0 / 6.0,
        "positions": rng.uniform(0.1, 0.4, (horizon, 3)),
        "rotations": np.stack([so3_exp(rng.uniform(-2, 2, 3)) for _ in range(horizon)]),
        "gripper": rng.uniform(0.0, 1.0, horizon),
        "frame_id": "wx250s/base_link",
        "ee_frame": "wx250s/ee_gripper_link",
        "gripper_threshold": 0.75,
        "gripper_open_below": 0.5,
        "sequence": 2**40 + 1,
        "epoch": 7,
        "provenance": Provenance(
            view_stamps=(NOW, math.nan, NOW - 0.031),
            proprio=tuple(float(np.float32(v)) for v in rng.uniform(-1, 1, 20)),
            proprio_source="commanded",
            noise_seed=2**63 + 5,
            time_grid=(1.0, 0.5),
            approximation="bfloat16",
            model_hash="ab" * 32,
            instruction="pick up the red cube",
            domain_id=4,
            prefix=tuple(float(np.float32(v)) for v in rng.uniform(-1, 1, 40)),
            prefix_weights=(1.0, 0.25),
            inference_start=NOW + 0.01,
            inference_end=NOW + 0.2,
        ),
    }
    return Chunk(**(fields | changes))


def test_a_chunk_comes_back_with_everything_it_carried():
    sent = chunk()
    got = convert.chunk_from_msg(over_the_wire(convert.chunk_msg(sent)))
    np.testing.assert_allclose(got.positions, sent.positions, atol=1e-7)
    np.testing.assert_allclose(got.rotations, sent.rotations, atol=1e-6)
    np.testing.assert_allclose(got.gripper, sent.gripper, atol=1e-7)
    for name in ("stamp", "t_ref", "step_dt", "frame_id", "ee_frame", "sequence", "epoch"):
        assert getattr(got, name) == getattr(sent, name), name
    assert (got.gripper_threshold, got.gripper_open_below) == (0.75, 0.5)
    origin = got.provenance
    assert math.isnan(origin.view_stamps[1])
    assert origin.view_stamps[::2] == sent.provenance.view_stamps[::2]
    for name in [
        "proprio",
        "proprio_source",
        "noise_seed",
        "time_grid",
        "approximation",
        "model_hash",
        "instruction",
        "domain_id",
        "prefix",
        "prefix_weights",
        "inference_start",
        "inference_end",
    ]:
        assert getattr(origin, name) == getattr(sent.provenance, name), name


def test_on_the_wire_a_step_is_twenty_numbers_with_interleaved_rotation_columns():
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    message = convert.chunk_msg(
        chunk(
            1, positions=np.array([[0.1, 0.2, 0.3]]), rotations=turn[None], gripper=np.array([0.9])
        )
    )
    expected = [0.1, 0.2, 0.3, 0, -1, 1, 0, 0, 0, 0.9] + [0] * 10
    np.testing.assert_allclose(message.ee6d, expected, atol=1e-7)
    assert message.horizon == 1
    assert message.view_stamps[1] == Time()


def test_stamps_of_the_observation_are_written_to_the_nanosecond():
    exact = Time(sec=1_795_000_000, nanosec=123_456_789)
    time = convert.seconds(exact)
    origin = Provenance(view_stamps=(time,))
    message = convert.chunk_msg(chunk(stamp=time, t_ref=time, provenance=origin), [exact])
    assert message.header.stamp == exact
    assert message.t_ref == exact
    assert message.view_stamps[0] == exact


def spoil(**fields):
    message = convert.chunk_msg(chunk())
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def with_number(index, value):
    message = convert.chunk_msg(chunk())
    message.ee6d[index] = value
    return message


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (spoil(horizon=4), Refusal.SHAPE),
        (spoil(horizon=0, ee6d=[]), Refusal.SHAPE),
        (ActionChunk(), Refusal.SHAPE),
        (with_number(41, math.nan), Refusal.NON_FINITE),
        (with_number(9, math.inf), Refusal.NON_FINITE),
        (spoil(ee6d=[0.0] * 100), Refusal.DEGENERATE_ROTATION),
        (spoil(step_dt=0.0), Refusal.IMPLAUSIBLE_TIME),
        (spoil(step_dt=math.nan), Refusal.IMPLAUSIBLE_TIME),
        (spoil(gripper_threshold=math.nan), Refusal.NON_FINITE),
        (spoil(gripper_open_below=math.nan), Refusal.NON_FINITE),
        (spoil(gripper_open_below=1.5), Refusal.NON_FINITE),
    ],
)
def test_a_message_that_is_no_chunk_is_refused_with_its_reason(message, reason):
    with pytest.raises(ChunkRefused) as caught:
        convert.chunk_from_msg(message)
    assert caught.value.reason is reason


def plan():
    poses = tuple(Pose(np.array([0.2, 0.01 * k, 0.1]), so3_exp([0.1 * k, 1.0, 0])) for k in (0, 1))
    return Plan(
        start=NOW,
        dt=0.1,
        poses=poses,
        gripper=(0.0, 1.0),
        sequence=12,
        epoch=3,
        latency=0.135,
        holding=False,
        actuating=True,
        strategy="inpaint",
    )


def test_a_plan_comes_back_with_everything_it_carried():
    sent = plan()
    message = over_the_wire(convert.plan_msg(sent, NOW + 1.0, "base"))
    assert (message.header.frame_id, message.header.stamp.sec) == ("base", int(NOW) + 1)
    got = convert.plan_from_msg(message)
    for mine, theirs in zip(got.poses, sent.poses, strict=True):
        metres, radians = mine.distance(theirs)
        assert metres < 1e-7
        assert radians < 1e-6
    whole = ("start", "dt", "gripper", "sequence", "epoch", "latency", "holding", "actuating")
    for name in (*whole, "strategy"):
        assert getattr(got, name) == getattr(sent, name), name


@pytest.mark.parametrize(
    "message",
    [
        PlanMsg(dt=0.1),
        PlanMsg(dt=0.1, poses=[0.0] * 7),
        PlanMsg(dt=0.1, poses=[0.0] * 8),
        PlanMsg(dt=0.0, poses=[0, 0, 0, 0, 0, 0, 1, 0]),
        PlanMsg(dt=0.1, poses=[math.nan, 0, 0, 0, 0, 0, 1, 0]),
    ],
    ids=["no poses", "seven numbers", "no direction", "no period", "NaN"],
)
def test_a_message_that_is_no_plan_is_refused(message):
    with pytest.raises(ValueError, match=r"plan|rotation"):
        convert.plan_from_msg(message)


@given(st.floats(0.0, 2.0**31 - 1.0))
def test_a_time_comes_back_exactly_from_its_stamp(time):
    assert convert.seconds(convert.time_msg(time)) == pytest.approx(time, abs=5e-10, rel=0)
    if time > 2**24:  # floats are coarser than nanoseconds from here on
        assert convert.seconds(convert.time_msg(time)) == time


def test_nanoseconds_never_reach_a_whole_second():
    stamp = convert.time_msg(math.nextafter(5.0, 0.0))
    assert (stamp.sec, stamp.nanosec) == (5, 0)


@pytest.mark.parametrize("time", [math.nan, math.inf, 2.0**31])
def test_what_is_no_time_gets_no_stamp(time):
    with pytest.raises(ValueError, match="time"):
        convert.time_msg(time)


def test_a_pose_comes_back_from_its_message():
    pose = Pose(np.array([0.3, -0.1, 0.2]), so3_exp([0.3, 1.2, -2.0]))
    message = convert.pose_msg(pose)
    q = message.orientation
    assert math.hypot(q.x, q.y, q.z, q.w) == pytest.approx(1.0)
    metres, radians = convert.pose_from_msg(message).distance(pose)
    assert metres == 0.0
    assert radians < 1e-7


def test_a_pose_without_a_rotation_or_with_a_nan_is_refused():
    message = PoseMsg()
    message.orientation.w = 0.0
    with pytest.raises(ValueError, match="quaternion"):
        convert.pose_from_msg(message)
    message = PoseMsg()
    message.position.y = math.nan
    with pytest.raises(ValueError, match="position"):
        convert.pose_from_msg(message)


RGB = np.random.default_rng(0).integers(0, 256, (6, 10, 3), dtype=np.uint8)


def image(encoding, pixels, padding=0):
    rows = np.ascontiguousarray(pixels).reshape(len(pixels), -1)
    rows = np.hstack([rows, np.full((len(rows), padding), 9, np.uint8)])
    message = Image(
        height=len(pixels), width=pixels.shape[1], encoding=encoding, step=rows.shape[1]
    )
    message.data = array.array("B", rows.tobytes())
    return over_the_wire(message)


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "rgba8", "bgra8"])
def test_colour_images_become_rgb_whoever_converts_them(encoding, padding):
    pixels = RGB if encoding.startswith("rgb") else RGB[..., ::-1]
    if "a" in encoding:
        pixels = np.dstack([pixels, np.full((6, 10), 1, np.uint8)])
    out = convert.image_to_rgb(image(encoding, pixels, padding), "/camera")
    np.testing.assert_array_equal(out, RGB)
    assert out.flags.c_contiguous


def test_grey_images_become_rgb():
    out = convert.image_to_rgb(image("mono8", RGB[..., 0]), "/camera")
    np.testing.assert_array_equal(out, np.repeat(RGB[..., :1], 3, axis=2))


def test_encodings_that_cv_bridge_refuses_are_converted_all_the_same():
    grey = np.full((6, 10, 2), 128, np.uint8)  # Y = U = V = 128
    out = convert.image_to_rgb(image("yuv422_yuy2", grey), "/camera")
    np.testing.assert_array_equal(out, np.full((6, 10, 3), out[0, 0, 0]))
    assert out[0, 0, 0] == round((128 - 16) * 255 / 219)


def test_compressed_images_become_rgb():
    _, file = cv2.imencode(".png", RGB[..., ::-1])
    message = CompressedImage(format="rgb8; png compressed bgr8")
    message.data = array.array("B", file.tobytes())
    np.testing.assert_array_equal(convert.image_to_rgb(over_the_wire(message), "/camera"), RGB)


def test_an_image_that_cannot_be_converted_names_topic_and_encoding():
    with pytest.raises(images.ImageError, match=r"/wrist/image: encoding '32FC1'"):
        convert.image_to_rgb(Image(height=1, width=1, encoding="32FC1", step=4), "/wrist/image")
    short = image("bgr8", RGB)
    short.data = short.data[:-1]
    with pytest.raises(images.ImageError, match=r"/wrist/image: bgr8 image is truncated"):
        convert.image_to_rgb(short, "/wrist/image")
    with pytest.raises(images.ImageError, match=r"/wrist/image: no JPEG or PNG"):
        convert.image_to_rgb(CompressedImage(format="jpeg"), "/wrist/image")
