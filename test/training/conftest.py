"""A model folder small enough to be trained in a test."""

from pathlib import Path

import pytest

from xvla_ros.training.folder import NetworkSize
from xvla_ros.training.pipeline import prepare_folder
from xvla_ros.training.recipe import Collection, Optimisation, Recipe

TINY = NetworkSize(
    image_size=32,
    width=32,
    heads=2,
    depth=1,
    text_layers=1,
    vision_widths=(16, 32),
    vision_depths=(1, 1),
    vision_head_width=16,
    window=4,
    soft_prompts=2,
)


@pytest.fixture
def recipe() -> Recipe:
    return Recipe(
        network=TINY,
        optimisation=Optimisation(steps=6, batch=4, warm_up_steps=2),
        collection=Collection(
            expert_episodes=2, rounds=(2,), round_episodes=1, round_delay=2, per_job=2
        ),
    )


@pytest.fixture
def folder(tmp_path: Path, recipe: Recipe) -> Path:
    prepare_folder(tmp_path / "model", recipe)
    return tmp_path / "model"
