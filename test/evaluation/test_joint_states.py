"""The quick way to read joint states gives what the library gives."""

from dataclasses import dataclass

import numpy as np
import pytest

from xvla_ros.evaluation.bag.joint_states import JointStateReader


@dataclass
class Raw:
    data: bytes


@pytest.fixture
def read(bags):
    """A reader, and the number of messages that it decoded as a whole."""
    kind = "sensor_msgs/msg/JointState"
    decoded = []

    def decode(raw):
        decoded.append(raw)
        return bags.STORE.deserialize_cdr(raw.data, kind)

    reader = JointStateReader(decode)

    def run(message, little_endian=True):
        data = bytes(bags.STORE.serialize_cdr(message, kind, little_endian=little_endian))
        return reader.read(Raw(data))

    return run, decoded


def test_only_the_first_of_equal_names_is_decoded_as_a_whole(bags, read):
    run, decoded = read
    for k in range(20):
        t = bags.START + 0.1 * k
        names, positions = run(bags.joint_state(t, bags.angles(t)))
        assert list(names) == list(bags.NAMES)
        assert np.array_equal(positions[:6], bags.angles(t))
    assert len(decoded) == 1


@pytest.mark.parametrize("frame", ["", "a", "wx250s/base_link", "wx250s/base_link_"])
def test_names_and_frames_of_any_length(frame, bags, read):
    run, decoded = read
    arm = bags.NAMES[:6]
    for names in (bags.NAMES, arm, ("pan", *arm), tuple(reversed(bags.NAMES))):
        for k in range(2):
            joints = bags.angles(bags.START + k)
            message = bags.joint_state(bags.START, joints, 0.02, names, {"pan": 1.0})
            message.header.frame_id = frame
            found, positions = run(message)
            assert list(found) == list(message.name)
            assert np.array_equal(positions, message.position)
    assert len(decoded) == 4


def test_other_byte_order_and_missing_positions_go_the_long_way(bags, read):
    run, decoded = read
    message = bags.joint_state(bags.START, bags.angles(bags.START))
    for _ in range(2):
        names, positions = run(message, little_endian=False)
        assert np.array_equal(positions, message.position)
    message.position = np.zeros(0)
    for _ in range(2):
        names, positions = run(message)
        assert (len(names), len(positions)) == (9, 0)
    assert len(decoded) == 4


def test_a_message_that_is_cut_is_an_error(bags):
    data = bytes(
        bags.STORE.serialize_cdr(
            bags.joint_state(bags.START, bags.angles(bags.START)), "sensor_msgs/msg/JointState"
        )
    )
    reader = JointStateReader(
        lambda raw: bags.STORE.deserialize_cdr(raw.data, "sensor_msgs/msg/JointState")
    )
    reader.read(Raw(data))
    with pytest.raises(ValueError, match="buffer"):
        reader.read(Raw(data[:-80]))
