"""Labelled observations: what the demonstrations record and the training reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Samples:
    """N observations, each labelled for every task.

    An image serves several proprios: the expert knows what to do from any commanded pose, so the
    same frame is labelled from more than one of them, and the policy cannot infer the target from
    the pose alone.
    """

    images: NDArray[np.uint8]
    """(N, views, S, S, 3) RGB, squashed to the network's size but not normalised."""
    proprio: NDArray[np.float32]
    """(N, poses, 20) numbers in the checkpoint's frame and rotation layout."""
    labels: NDArray[np.float32]
    """(N, poses, tasks, H, 20) in the same frame and layout; gripper 1 = closed."""

    def __len__(self) -> int:
        return len(self.images)

    def save(self, file: Path) -> None:
        """Writes one uncompressed .npz; it appears under its name only when it is whole."""
        partial = file.with_suffix(".partial.npz")
        np.savez(partial, images=self.images, proprio=self.proprio, labels=self.labels)
        partial.rename(file)

    @staticmethod
    def load(file: Path) -> Samples:
        """Reads what `save` wrote."""
        with np.load(file) as data:
            return Samples(data["images"], data["proprio"], data["labels"])

    @staticmethod
    def concatenate(parts: Sequence[Samples]) -> Samples:
        """All parts in their order."""
        return Samples(
            np.concatenate([part.images for part in parts]),
            np.concatenate([part.proprio for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """B training examples as float32 arrays; images in [0, 1], before normalisation."""

    images: NDArray[np.float32]
    """(B, views, 3, S, S)."""
    proprio: NDArray[np.float32]
    """(B, 20)."""
    actions: NDArray[np.float32]
    """(B, H, 20)."""
    tasks: NDArray[np.int64]
    """(B,) index of each example's task."""


def draw_batch(
    samples: Samples,
    size: int,
    task_weights: Sequence[float],
    jitter: float,
    rng: np.random.Generator,
) -> Batch:
    """Random examples: any image, any of its commanded poses, any task.

    Because the task is drawn independently of the image, only the instruction tells it.

    Args:
        samples: to draw from, with replacement.
        size: number of examples.
        task_weights: probability of each task.
        jitter: half-width of the brightness and contrast changes; 0 leaves images alone.
        rng: makes all choices.
    """
    rows = rng.integers(len(samples), size=size)
    poses = rng.integers(samples.proprio.shape[1], size=size)
    tasks = rng.choice(len(task_weights), size=size, p=task_weights)
    images = samples.images[rows].astype(np.float32) / 255.0
    images = change_light(images, jitter, rng)
    return Batch(
        np.ascontiguousarray(images.transpose(0, 1, 4, 2, 3)),
        samples.proprio[rows, poses],
        samples.labels[rows, poses, tasks],
        tasks.astype(np.int64),
    )


def change_light(
    images: NDArray[np.float32], jitter: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Random brightness, contrast and colour balance of each view of (B, V, S, S, 3) in [0, 1].

    No shifts or crops: they would move the object in the image and so change the right action.
    """
    if jitter <= 0.0:
        return images
    shape = (*images.shape[:2], 1, 1)
    contrast = rng.uniform(1.0 - jitter, 1.0 + jitter, size=(*shape, 1))
    brightness = rng.uniform(-0.5 * jitter, 0.5 * jitter, size=(*shape, 1))
    balance = rng.uniform(1.0 - 0.25 * jitter, 1.0 + 0.25 * jitter, size=(*shape, 3))
    mean = images.mean(axis=(2, 3, 4), keepdims=True)
    changed = ((images - mean) * contrast + mean + brightness) * balance
    return np.clip(changed, 0.0, 1.0).astype(np.float32)
