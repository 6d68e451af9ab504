"""Which topics are chosen without any configuration, and how they are asked for with one."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from xvla_ros.evaluation.bag import discovery, files
from xvla_ros.evaluation.bag.discovery import View, Wanted
from xvla_ros.evaluation.bag.files import BagError
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.evaluation.bag_settings import SECTIONS
from xvla_ros.parameters.files import read_text

SECONDS = 0.3


@pytest.fixture
def discover(bags, tmp_path):
    def run(messages, wanted=None, **options):
        folder = bags.write(tmp_path / "bag", messages, **options)
        (bag_files,) = files.find([folder])
        with Bag(bag_files) as bag:
            return discovery.discover(bag, wanted)

    return run


def topics(found):
    return [view.topic for view in found.views]


@pytest.mark.parametrize(
    ("recorded", "chosen"),
    [
        (
            ["/wrist/image_raw", "/D435/color/image_raw"],
            ["/D435/color/image_raw", "/wrist/image_raw"],
        ),
        (["/yellow/image_raw", "/blue/image_raw"], ["/blue/image_raw", "/yellow/image_raw"]),
        (
            ["/cam_1/image", "/cam_0/image", "/cam_2/image"],
            ["/cam_0/image", "/cam_1/image", "/cam_2/image"],
        ),
        (["/hand/rgb", "/over_shoulder/rgb"], ["/over_shoulder/rgb", "/hand/rgb"]),
        (["/a/depth/image", "/a/color/image"], ["/a/color/image"]),
        (["/a", "/b", "/c", "/main"], ["/main", "/a", "/b"]),
    ],
)
def test_the_main_view_comes_first(recorded, chosen, bags, discover):
    cameras = [m for topic in recorded for m in bags.camera(SECONDS, topic)]
    assert topics(discover([*bags.joints(SECONDS), *cameras])) == chosen


def test_a_camera_that_was_recorded_raw_and_compressed_is_taken_once(bags, discover):
    both = [
        *bags.camera(SECONDS),
        *bags.camera(
            SECONDS,
            f"{bags.FRONT}/compressed",
            make=lambda t: bags.compressed(t, bags.picture(t)),
        ),
    ]
    assert topics(discover([*bags.joints(SECONDS), *both])) == [bags.FRONT]


def test_joint_states_are_told_by_their_joints_not_by_their_name(bags, discover):
    other = [
        bags.Message(
            "/a/joint_states",
            t,
            bags.T["sensor_msgs/msg/JointState"](
                bags.header(t), ["wheel"], bags.np.zeros(1), bags.np.zeros(0), bags.np.zeros(0)
            ),
        )
        for t in bags.times(SECONDS, 100.0)
    ]
    assert (
        discover([*other, *bags.joints(SECONDS), *bags.camera(SECONDS)]).joint_states == bags.JOINTS
    )


def test_instruction_and_episode_are_found_by_name_and_type(bags, discover):
    told = [
        bags.Message(topic, bags.START, bags.text("x"))
        for topic in ("/rosout_text", "/goal", "/language_instruction", "/episode_id")
    ]
    found = discover([*bags.joints(SECONDS), *bags.camera(SECONDS), *told])
    assert found.instruction.name == "/language_instruction"
    assert found.episode.name == "/episode_id"


def test_a_missing_topic_is_an_error_that_lists_what_the_bag_has(bags, discover):
    wanted = Wanted(cameras=(View(0, "/blue/image_raw", discovery.IMAGE),))
    with pytest.raises(BagError) as refused:
        discover([*bags.joints(SECONDS), *bags.camera(SECONDS)], wanted)
    text = str(refused.value)
    assert "'/blue/image_raw' (cameras.0.topic)" in text
    assert f"{bags.FRONT} (sensor_msgs/msg/Image, 3)" in text
    assert f"{bags.JOINTS} (sensor_msgs/msg/JointState, 15)" in text


def test_a_camera_recorded_by_its_other_transport_is_used_and_said(bags, discover):
    wanted = Wanted(cameras=(View(0, f"{bags.FRONT}/compressed", discovery.COMPRESSED_IMAGE),))
    found = discover([*bags.joints(SECONDS), *bags.camera(SECONDS)], wanted)
    assert topics(found) == [bags.FRONT]
    assert "is used instead" in found.warnings[0]


def test_an_optional_camera_may_be_missing(bags, discover):
    wanted = Wanted(
        cameras=(
            View(0, bags.FRONT, discovery.IMAGE),
            View(1, bags.WRIST, discovery.IMAGE, required=False),
        )
    )
    found = discover([*bags.joints(SECONDS), *bags.camera(SECONDS)], wanted)
    assert topics(found) == [bags.FRONT]
    assert "optional" in found.warnings[0]


def test_a_relative_name_means_the_only_topic_that_ends_so(bags, discover):
    wanted = Wanted(cameras=(View(0, "front/image_raw", discovery.IMAGE),))
    messages = [*bags.joints(SECONDS), *bags.camera(SECONDS, "/cell/front/image_raw")]
    assert topics(discover(messages, wanted)) == ["/cell/front/image_raw"]


def test_a_topic_of_another_type_is_refused(bags, discover):
    with pytest.raises(BagError, match="expected sensor_msgs/msg/JointState"):
        discover(bags.normal(SECONDS), Wanted(joint_states=bags.TOLD))


def test_the_proposal_is_a_parameter_file_that_asks_for_what_was_found(bags, discover):
    found = discover(bags.normal(SECONDS))
    text = discovery.as_yaml(found, 'say "hello"')
    values = read_text(text, "proposal", SECTIONS)
    assert values["xvla_policy"]["cameras.0.topic"] == bags.FRONT
    assert values["xvla_policy"]["cameras.2.topic"] == ""
    assert values["xvla_policy"]["instruction"] == 'say "hello"'
    assert values["xvla_evaluate"] == {
        "joint_states_topic": bags.JOINTS,
        "instruction_topic": bags.TOLD,
        "episode_topic": "",
    }
    assert set(yaml.safe_load(text)) == {"/**/xvla_policy", "/**/xvla_evaluate"}


def test_folders_of_bags_are_searched_and_names_are_unique(bags, tmp_path):
    for folder in ("monday/a", "tuesday/a", "tuesday/b"):
        (tmp_path / folder).parent.mkdir(exist_ok=True)
        bags.write(tmp_path / folder, bags.joints(0.1))
    found = files.find([tmp_path])
    assert [bag.name for bag in found] == ["monday/a", "tuesday/a", "b"]
    assert len({bag.path for bag in files.find([tmp_path, tmp_path / "monday"])}) == 3


def test_an_offline_evaluation_needs_neither_ros_nor_nodes():
    program = (
        "import sys, xvla_ros.evaluation.bag_run, xvla_ros.evaluation.bag_settings; "
        "sys.exit([m for m in sys.modules if m == 'rclpy' or m.startswith('xvla_ros.nodes')] or 0)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
