"""What a batch is made of."""

import numpy as np
import pytest

from xvla_ros.training.samples import Samples, change_light, draw_batch

TASK_WEIGHTS = (0.25, 0.75)


def numbered(count: int) -> Samples:
    """Samples whose every number tells where it belongs: row, pose, task."""
    rows = np.arange(count)
    images = np.broadcast_to(rows[:, None, None, None, None], (count, 2, 4, 4, 3))
    proprio = np.zeros((count, 2, 20), np.float32)
    labels = np.zeros((count, 2, 2, 30, 20), np.float32)
    proprio += rows[:, None, None]
    labels += rows[:, None, None, None, None]
    proprio[:, 1] += 0.5
    labels[:, 1] += 0.5
    labels[:, :, 1] += 1000.0
    return Samples(images.astype(np.uint8), proprio, labels)


def test_picture_pose_and_label_of_an_example_belong_together():
    batch = draw_batch(numbered(50), 400, TASK_WEIGHTS, 0.0, np.random.default_rng(0))
    rows = np.round(batch.images[:, 0, 0, 0, 0] * 255.0)
    np.testing.assert_array_equal(np.floor(batch.proprio[:, 0]), rows)
    np.testing.assert_array_equal(
        batch.actions[:, 0, 0], batch.proprio[:, 0] + 1000.0 * batch.tasks
    )
    assert batch.images.shape == (400, 2, 3, 4, 4)


def test_the_picture_does_not_tell_the_task():
    batch = draw_batch(numbered(2), 4000, TASK_WEIGHTS, 0.0, np.random.default_rng(0))
    rows = np.round(batch.images[:, 0, 0, 0, 0] * 255.0)
    for row in (0, 1):
        assert batch.tasks[rows == row].mean() == pytest.approx(TASK_WEIGHTS[1], abs=0.04)


def test_light_changes_pictures_but_not_their_range():
    rng = np.random.default_rng(0)
    images = rng.random((8, 2, 6, 6, 3), np.float32)
    changed = change_light(images, 0.3, rng)
    assert changed.dtype == np.float32
    assert changed.min() >= 0.0
    assert changed.max() <= 1.0
    assert np.abs(changed - images).mean() > 0.01
    np.testing.assert_array_equal(change_light(images, 0.0, rng), images)


def test_saved_samples_are_read_back(tmp_path):
    samples = numbered(3)
    samples.save(tmp_path / "part.npz")
    both = Samples.concatenate([Samples.load(tmp_path / "part.npz"), samples])
    assert len(both) == 6
    np.testing.assert_array_equal(both.labels[3:], both.labels[:3])
    assert [path.name for path in tmp_path.iterdir()] == ["part.npz"]
