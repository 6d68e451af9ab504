"""Bags are read back as they were written, this package's messages included."""

import subprocess
import sys

import pytest
from rclpy.serialization import serialize_message

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag import storage as bag
from xvla_ros.evaluation.bag.storage import Record
from xvla_ros.msg import ActionChunk


def chunk_record(sequence, time_ns):
    message = ActionChunk(sequence=sequence, horizon=1, ee6d=[0.5] * 20, instruction="pick")
    data = serialize_message(message)
    return Record("/action_chunk", "xvla_ros/msg/ActionChunk", time_ns, data)


def test_messages_come_back_in_order_of_time(tmp_path):
    bag.write(tmp_path / "bag", [chunk_record(2, 2_000_000_000), chunk_record(1, 1_500_000_000)])
    first, second = bag.read(tmp_path / "bag")
    assert (first.message.sequence, second.message.sequence) == (1, 2)
    assert (first.time, first.topic) == (1.5, "/action_chunk")
    assert first.message.instruction == "pick"
    assert first.message.ee6d.tolist() == [0.5] * 20


def test_a_bag_is_one_mcap_file_with_metadata(tmp_path):
    bag.write(tmp_path / "bag", [chunk_record(1, 1)])
    assert sorted(p.name for p in (tmp_path / "bag").iterdir()) == ["bag.mcap", "metadata.yaml"]
    assert (tmp_path / "bag" / "bag.mcap").read_bytes().startswith(b"\x89MCAP")


def test_the_bag_carries_the_definition_of_our_messages(tmp_path):
    """So that Foxglove and rosbag2 show them without this package."""
    bag.write(tmp_path / "bag", [chunk_record(1, 1)])
    content = (tmp_path / "bag" / "bag.mcap").read_bytes()
    assert b"xvla_ros/msg/ActionChunk" in content
    assert b"float32[] ee6d" in content


def test_a_new_bag_replaces_the_old_one(tmp_path):
    bag.write(tmp_path / "bag", [chunk_record(1, 1)])
    bag.write(tmp_path / "bag", [chunk_record(5, 1)])
    assert [entry.message.sequence for entry in bag.read(tmp_path / "bag")] == [5]


def test_only_the_topics_asked_for_are_read(tmp_path):
    bag.write(tmp_path / "bag", [chunk_record(1, 1)])
    assert list(bag.read(tmp_path / "bag", ["/other"])) == []


def test_a_folder_without_a_bag_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no rosbag2"):
        next(bag.read(tmp_path))


def test_reading_needs_no_ros(tmp_path):
    bag.write(tmp_path / "bag", [chunk_record(3, 1)])
    code = (
        "import sys; sys.modules['rclpy'] = None\n"
        "from pathlib import Path\nfrom xvla_ros.evaluation.bag import storage as bag\n"
        f"print([e.message.sequence for e in bag.read(Path({str(tmp_path / 'bag')!r}))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[3]", done.stderr
