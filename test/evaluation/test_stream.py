"""A bag that is written while its messages come in."""

from __future__ import annotations

import subprocess
import sys

import pytest

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag import files
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag.storage import Record
from xvla_ros.evaluation.bag.stream import StreamWriter

KIND = "std_msgs/msg/String"


def record(bags, topic, time, text):
    data = bytes(bags.STORE.serialize_cdr(bags.text(text), KIND))
    return Record(topic, KIND, bags.ns(time), data)


def read(folder):
    (found,) = files.find([folder])
    with Bag(found) as bag:
        texts = [(raw.topic, bag.decode(raw).data) for raw in bag.messages()]
        return texts, bag.custom, bag.warnings


def test_messages_come_back_in_order_of_time_with_the_custom_data(bags, tmp_path):
    writer = StreamWriter(tmp_path / "bag")
    writer.put(record(bags, "/b", bags.START + 2.0, "second"))
    writer.put(record(bags, "/a", bags.START + 1.0, "first"))
    writer.close({"key": "value\nwith: yaml"})
    texts, custom, warnings = read(tmp_path / "bag")
    assert texts == [("/a", "first"), ("/b", "second")]
    assert custom == {"key": "value\nwith: yaml"}
    assert warnings == []
    assert writer.counts == {"/a": 1, "/b": 1}
    assert writer.dropped == 0


def test_a_folder_that_is_there_is_never_overwritten(tmp_path):
    (tmp_path / "bag").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        StreamWriter(tmp_path / "bag")


def test_what_a_killed_recorder_had_written_can_be_read(bags, tmp_path):
    program = f"""
import os, signal, time
from pathlib import Path
from xvla_ros.evaluation.bag.storage import Record, typestore
from xvla_ros.evaluation.bag.stream import StreamWriter
kind = {KIND!r}
writer = StreamWriter(Path({str(tmp_path / "bag")!r}))
text = typestore().types[kind](data="x" * 100_000)
data = bytes(typestore().serialize_cdr(text, kind))
for n in range(200):
    writer.put(Record("/a", kind, {bags.ns(bags.START)} + n, data))
while writer.counts["/a"] < 200:
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert ended.returncode == -9
    texts, custom, warnings = read(tmp_path / "bag")
    # Of 20 MB at most the last chunks that the writer was still filling are gone.
    assert len(texts) > 150
    assert custom == {}
    assert warnings
