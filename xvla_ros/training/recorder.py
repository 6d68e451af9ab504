"""Labelled pictures: what the cameras see, and what the expert would do from there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xvla_ros.geometry import Array, Pose, so3_exp
from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.domain import BRIDGE, Domain, find_domain
from xvla_ros.model.processor import ImageTransform, Processor
from xvla_ros.sim.expert import label
from xvla_ros.sim.world import SimWorld
from xvla_ros.training.recipe import TASKS
from xvla_ros.training.samples import Samples


def episode_rng(seed: int) -> np.random.Generator:
    """The disturbances of an episode, apart from the world's own random numbers."""
    return np.random.default_rng([seed, 0x64656D6F])


class Recorder:
    """Keeps labelled pictures of a world.

    Args:
        cameras: simulator camera of each filled view slot.
        lag: size of the second commanded pose's offset from the first, metres and radians.
    """

    def __init__(
        self,
        transform: ImageTransform,
        domain: Domain,
        horizon: int,
        cameras: tuple[str, ...],
        rng: np.random.Generator,
        lag: tuple[float, float] = (0.008, 0.3),
    ) -> None:
        self._transform = transform
        self._domain = domain
        self._horizon = horizon
        self._cameras = cameras
        self._rng = rng
        self._lag = lag
        self._images: list[NDArray[np.uint8]] = []
        self._proprio: list[Array] = []
        self._labels: list[Array] = []

    @staticmethod
    def of_folder(folder: Path, cameras: tuple[str, ...], rng: np.random.Generator) -> Recorder:
        """A recorder for the image size, horizon and domain of a model folder."""
        config = XVLAConfig.from_folder(folder)
        transform = Processor.from_folder(folder, config.text_length).transform
        return Recorder(transform, find_domain(folder, BRIDGE.id), config.num_actions, cameras, rng)

    @property
    def step_dt(self) -> float:
        """Seconds between two steps of a label."""
        return self._domain.step_dt

    def record(self, world: SimWorld, commanded: Pose) -> None:
        """Takes and keeps pictures of the world as it is now."""
        self.keep(world, commanded, [world.render(camera) for camera in self._cameras])

    def keep(self, world: SimWorld, commanded: Pose, images: Sequence[NDArray[np.uint8]]) -> None:
        """Keeps pictures of the world as it is now, with the expert's answers for every task.

        The answers start from the commanded pose and from a second one near it, turned a good
        deal: neither the lag of the arm nor its yaw may be read as a sign of what to do.
        """
        views = [self._transform.squash(image) for image in images]
        poses = (commanded, self._near(commanded))
        self._images.append(np.stack(views))
        self._proprio.append(np.stack([self._domain.encode_proprio(pose) for pose in poses]))
        self._labels.append(
            np.stack([[self._label(world, task, pose) for task in TASKS] for pose in poses])
        )

    def samples(self) -> Samples:
        """Everything recorded so far."""
        return Samples(
            np.stack(self._images),
            np.stack(self._proprio).astype(np.float32),
            np.stack(self._labels).astype(np.float32),
        )

    def _label(self, world: SimWorld, task: str, pose: Pose) -> Array:
        answer = label(world.state(), pose, task, self._horizon, self._domain.step_dt)
        return self._domain.encode_actions(answer.positions, answer.rotations, answer.gripper)

    def _near(self, pose: Pose) -> Pose:
        shift, turn = self._lag
        yaw = so3_exp([0.0, 0.0, self._rng.normal(0.0, turn)])
        return Pose(pose.position + self._rng.normal(0.0, shift, 3), yaw @ pose.rotation)
