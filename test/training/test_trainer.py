"""The optimisation learns, repeats itself, and starts where it should."""

import numpy as np
import pytest
import torch

from xvla_ros import ee6d
from xvla_ros.model.checkpoint import load_checkpoint
from xvla_ros.training.recipe import Optimisation
from xvla_ros.training.samples import Samples, draw_batch
from xvla_ros.training.trainer import Trainer, landmarks, learning_rate

SETTINGS = Optimisation(steps=90, batch=8, warm_up_steps=5, learning_rate=3e-3)


def coloured(count: int) -> Samples:
    """The brightness of the picture is where to go; the second task goes elsewhere."""
    rng = np.random.default_rng(0)
    bright = rng.random(count).astype(np.float32)
    images = np.broadcast_to(
        (255 * bright[:, None, None, None, None]).astype(np.uint8), (count, 2, 32, 32, 3)
    )
    labels = np.zeros((count, 1, 2, 30, 20), np.float32)
    labels[..., 0] = 0.2 + 0.2 * bright[:, None, None, None]
    labels[:, :, 1, :, 1] = 0.1
    labels[:, :, 1, :, 9] = 1.0
    labels[..., 3] = labels[..., 6] = 1.0
    return Samples(images, np.zeros((count, 1, 20), np.float32), labels)


def losses(folder, seed: int, steps: int) -> list[dict[str, float]]:
    samples = coloured(64)
    trainer = Trainer(folder, SETTINGS, seed, samples.labels)
    rng = np.random.default_rng(seed)
    return [
        trainer.step(draw_batch(samples, SETTINGS.batch, (0.5, 0.5), 0.0, rng))
        for _ in range(steps)
    ]


def test_it_learns_from_picture_and_instruction(folder):
    torch.set_num_threads(1)
    terms = losses(folder, 0, 90)
    position = np.mean([term["position"] for term in terms[-10:]])
    # The loss is 500 times the mean over x, y and z. Whoever ignores the picture cannot know x,
    # whoever ignores the instruction cannot know y.
    without_picture = 500.0 / 3.0 * 0.2**2 / 12.0
    without_instruction = 500.0 / 3.0 * 0.05**2
    assert position < 0.8 * min(without_picture, without_instruction)


def test_the_same_seed_gives_the_same_training(folder):
    assert losses(folder, 3, 4) == losses(folder, 3, 4)
    assert losses(folder, 3, 2) != losses(folder, 4, 2)


def test_saved_weights_are_the_averaged_ones(folder):
    samples = coloured(16)
    trainer = Trainer(folder, SETTINGS, 0, samples.labels)
    rng = np.random.default_rng(0)
    for _ in range(3):
        trainer.step(draw_batch(samples, 4, (0.5, 0.5), 0.0, rng))
    trainer.save(folder)
    saved = load_checkpoint(folder)
    for name, value in trainer.average.state_dict().items():
        assert torch.equal(saved.state_dict()[name], value), name


def test_learning_rate_warms_up_and_falls():
    settings = Optimisation(steps=110, warm_up_steps=10, learning_rate=1.0, final_learning_rate=0.1)
    assert learning_rate(0, settings) == pytest.approx(0.1)
    assert learning_rate(9, settings) == pytest.approx(1.0)
    assert learning_rate(60, settings) == pytest.approx(0.55)
    assert learning_rate(110, settings) == pytest.approx(0.1)
    assert learning_rate(500, settings) == pytest.approx(0.1)


def test_landmarks_do_not_change_with_a_quarter_turn_of_the_cube():
    def chunk(yaw: float) -> torch.Tensor:
        rotation = np.array(
            [[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]]
        )
        values = ee6d.pack(np.array([0.26, 0.05, 0.1]), rotation, 0.0)
        return torch.as_tensor(np.tile(values, (1, 30, 1)))

    here = landmarks(chunk(0.3))
    np.testing.assert_allclose(here[0, :2], [0.0, 0.5], atol=1e-9)
    np.testing.assert_allclose(here, landmarks(chunk(0.3 + np.pi / 2)), atol=1e-9)
    assert torch.linalg.norm(here - landmarks(chunk(0.3 + np.pi / 4))) > 1.9
