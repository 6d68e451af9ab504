"""The demo's recorder and conductor against the real nodes."""

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Header

from xvla_ros.evaluation import recording
from xvla_ros.evaluation.bag import storage as bag
from xvla_ros.evaluation.live_conductor import LiveConductor, NotRunning
from xvla_ros.evaluation.live_recorder import LiveRecorder, compressed
from xvla_ros.model.checkpoint import save_checkpoint
from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.xvla import XVLA
from xvla_ros.training.folder import NetworkSize, write_folder

REPOSITORY = Path(__file__).resolve().parents[2]
FRONT = "sim/front/image_raw"


@pytest.fixture
def untrained(tmp_path):
    """A model folder of the demo's size with random weights: its chunks are refused."""
    folder = tmp_path / "model"
    write_folder(folder, NetworkSize(), ["pick up the red cube"], {"domains": []})
    torch.manual_seed(0)
    save_checkpoint(XVLA(XVLAConfig.from_folder(folder)), folder)
    return folder


def test_the_recorder_keeps_what_the_simulated_robot_publishes(ros, tmp_path):
    ros.spawn("xvla_ros.nodes.sim_node")
    node = ros.node("recorder")
    recorder = LiveRecorder(node, [("/wx250s/joint_states", JointState)], [FRONT])
    recorder.keep_images = True
    kept = recorder._records
    topics = ("/wx250s/joint_states", f"/{FRONT}/compressed")
    for topic in topics:
        ros.wait_for(
            functools.partial(lambda t: sum(r.topic == t for r in kept) >= 5, topic), 30.0, topic
        )
    bag.write(tmp_path / "bag", recorder.close())
    series = recording.load(tmp_path / "bag")
    assert len(series.measured.times) >= 5
    assert np.diff(series.measured.times).min() > 0.0
    picture = cv2.imdecode(
        np.frombuffer(series.frames[f"/{FRONT}"][0].data, np.uint8), cv2.IMREAD_COLOR
    )
    assert picture.shape == (480, 640, 3)
    assert picture.std() > 10.0


def test_images_are_kept_only_when_asked_for(ros):
    node = ros.node("recorder")
    recorder = LiveRecorder(node, [], [FRONT])
    publisher = node.create_publisher(Image, FRONT, 5)
    ros.wait_for(publisher.get_subscription_count)
    image = Image(height=2, width=2, encoding="rgb8", step=6, data=[0] * 12)
    heard: list[Image] = []
    node.create_subscription(Image, FRONT, heard.append, 5)
    ros.wait_for(lambda: publisher.get_subscription_count() == 2)
    publisher.publish(image)
    ros.wait_for(lambda: len(heard) == 1)
    recorder.keep_images = True
    publisher.publish(image)
    ros.wait_for(lambda: len(recorder._records) == 1)
    assert len(recorder.close()) == 1


def test_a_compressed_image_keeps_stamp_and_colours():
    header = Header(frame_id="camera")
    header.stamp.sec = 7
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:] = (200, 30, 60)
    image = Image(
        header=header, height=16, width=16, encoding="rgb8", step=48, data=pixels.tobytes()
    )
    message = compressed(image, "/camera", 95)
    assert isinstance(message, CompressedImage)
    assert message.header == header
    bgr = cv2.imdecode(np.frombuffer(message.data, np.uint8), cv2.IMREAD_COLOR)
    assert np.abs(bgr[8, 8].astype(int) - [60, 30, 200]).max() < 12


def test_a_node_that_does_not_answer_is_named(ros):
    conductor = LiveConductor(ros.node("conductor"), lambda: None)
    with pytest.raises(NotRunning, match="sim_wx250s does not answer within 0 s"):
        conductor.wait_until_ready(0.3)


def test_a_death_is_told_while_waiting(ros):
    def dead():
        raise NotRunning("sim_wx250s ended with code 1")

    conductor = LiveConductor(ros.node("conductor"), dead)
    with pytest.raises(NotRunning, match="ended with code 1"):
        conductor.wait_until_ready(30.0)


def test_the_demo_fails_with_an_untrained_network_and_still_reports(domain, untrained, tmp_path):
    """All three nodes, one short episode: exit code 1, every file, and a still arm."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "xvla_ros.cli", "demo", "--model", str(untrained)]
    done = subprocess.run(
        [*command, "--episodes", "1", "--limit", "4", "--seed", "3", "--out", str(out)],
        cwd=REPOSITORY,
        env={**os.environ, "ROS_DOMAIN_ID": str(domain), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert summary["success_rate"] == 0.0
    assert [episode["seed"] for episode in summary["episodes"]] == [3]
    assert summary["device"] == "cpu"
    for name in ("pose.png", "speed.png", "latency.png", "bag/bag.mcap", "bag/metadata.yaml"):
        assert (out / name).stat().st_size > 0
    series = recording.load(out / "bag")
    assert len(series.measured.times) > 50
    assert summary["frames_lost"]["not_recorded"] == 0
    moved = np.ptp(series.commanded.between(*_span(summary)).positions(), axis=0)
    assert moved.max() < 1e-3


def _span(summary):
    episode = summary["episodes"][0]
    return episode["start"], episode["end"]


def test_a_death_in_the_middle_is_told_and_what_was_recorded_is_kept(ros, untrained, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "xvla_ros.cli", "demo", "--model", str(untrained)]
    demo = subprocess.Popen(
        [*command, "--episodes", "2", "--limit", "60", "--out", str(out)],
        cwd=REPOSITORY,
        env={**os.environ, "ROS_DOMAIN_ID": str(ros.domain), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = out / "log" / "xvla_policy.log"
    ros.wait_for(lambda: log.exists() and "begins" in log.read_text(), 150.0, "an episode")
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
    (sim,) = (pid for pid in children if b"sim_node" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(sim), signal.SIGKILL)
    _, errors = demo.communicate(timeout=150)
    assert demo.returncode == 1
    assert "xvla: error: sim_wx250s ended with code -9" in errors
    summary = json.loads((out / "summary.json").read_text())
    assert [episode["success"] for episode in summary["episodes"]] == [None, None]
    assert "ended with code -9" in summary["fault"]
    assert len(recording.load(out / "bag").measured.times) > 0


def test_a_wrong_model_folder_is_one_line_and_code_two(domain, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "xvla_ros.cli", "demo", "--model", str(tmp_path / "absent")],
        cwd=tmp_path,
        env={**os.environ, "ROS_DOMAIN_ID": str(domain)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"xvla: error: model: no folder {tmp_path / 'absent'}\n"
