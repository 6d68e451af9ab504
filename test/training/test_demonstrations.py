"""Recorded demonstrations: pictures, proprio and labels fit together."""

import numpy as np
import pytest

from test.training.conftest import TINY
from xvla_ros import ee6d
from xvla_ros.model.domain import BRIDGE
from xvla_ros.model.processor import ImageTransform, Processor
from xvla_ros.sim.expert import LINEAR_SPEED
from xvla_ros.sim.world import SimWorld
from xvla_ros.training.collect import Job, record
from xvla_ros.training.pipeline import prepare_folder
from xvla_ros.training.recipe import TASKS, Recipe
from xvla_ros.training.recorder import Recorder
from xvla_ros.training.samples import Samples

CAMERAS = ("front", "wrist")
REACH, PICK = TASKS.index("reach"), TASKS.index("pick")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    prepare_folder(path, Recipe(network=TINY))
    return path


@pytest.fixture(scope="module")
def samples(folder):
    file = record(Job(folder, (11, 12), CAMERAS, folder / "both.npz"))
    return Samples.load(file)


def test_an_episode_is_the_same_whatever_job_it_is_in(folder, samples):
    alone = Samples.load(record(Job(folder, (12,), CAMERAS, folder / "alone.npz")))
    count = len(alone)
    assert 0 < count < len(samples)
    np.testing.assert_array_equal(alone.images, samples.images[-count:])
    np.testing.assert_array_equal(alone.labels, samples.labels[-count:])


def test_a_finished_recording_is_not_made_again(folder, samples):
    file = folder / "both.npz"
    written = file.stat().st_mtime_ns
    assert record(Job(folder, (11, 12), CAMERAS, file)) == file
    assert file.stat().st_mtime_ns == written


def test_kept_pixels_are_what_the_policy_will_see(folder):
    """Squashed bytes, normalised later, are bit for bit the processor's network image."""
    world = SimWorld(seed=5)
    picture = world.render("front")
    world.close()
    processor = Processor.from_folder(folder)
    expected, _ = processor.images((picture,))
    kept = processor.transform.squash(picture)
    scaled = (kept * (1.0 / 255.0)).astype(np.float32)
    mean = np.array(processor.transform.mean, np.float32)
    std = np.array(processor.transform.std, np.float32)
    np.testing.assert_array_equal(((scaled - mean) / std).transpose(2, 0, 1), expected[0])


def test_labels_start_from_the_commanded_pose(samples):
    start = samples.proprio[:, :, None, ee6d.POSITION]
    first = samples.labels[:, :, :, 0, ee6d.POSITION]
    step = np.linalg.norm(first - start, axis=-1)
    assert step.max() <= LINEAR_SPEED * BRIDGE.step_dt + 1e-5


def test_no_number_shows_the_gripper_but_the_label(samples):
    assert not samples.proprio[..., list(ee6d.GRIPPERS)].any()
    assert set(np.unique(samples.labels[..., ee6d.GRIPPER])) == {0.0, 1.0}
    assert not samples.labels[..., ee6d.ARM_DIM :].any()


def test_one_picture_has_a_label_for_each_task(samples):
    reach, pick = samples.labels[:, :, REACH], samples.labels[:, :, PICK]
    # Reaching ends above the cube with the gripper open; picking closes it and lifts.
    assert not reach[..., ee6d.GRIPPER].any()
    assert pick[..., -1, ee6d.GRIPPER].mean() > 0.9
    assert pick[..., -1, 2].mean() > reach[..., -1, 2].mean() + 0.03


def test_labels_are_in_the_bridge_frame(samples):
    """The expert ends with the gripper straight down, which that frame calls no tilt."""
    rotation = ee6d.decode_rotation(samples.labels[:, :, PICK, -1, ee6d.ROTATION])
    np.testing.assert_allclose(rotation[..., 2, 2], 1.0, atol=1e-4)


def test_both_poses_of_a_picture_agree_on_where_the_cube_is(folder):
    """Two commanded poses near one another, one cube: the same end of the motion."""
    world = SimWorld(seed=7)
    recorder = Recorder(
        ImageTransform(size=32), BRIDGE, 30, CAMERAS, np.random.default_rng(0), lag=(0.01, 0.05)
    )
    recorder.record(world, world.commanded_pose())
    kept = recorder.samples()
    world.close()
    assert not np.allclose(kept.proprio[0, 0], kept.proprio[0, 1])
    ends = kept.labels[0, :, REACH, -1, ee6d.POSITION]
    np.testing.assert_allclose(ends[0], ends[1], atol=2e-3)
    cube = world.state().cube.position
    np.testing.assert_allclose(ends[0][:2], cube[:2], atol=3e-3)
