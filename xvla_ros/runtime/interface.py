"""What a policy is given, what it answers, and what it says about itself; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xvla_ros.geometry import Pose

Array = NDArray[np.float64]


class PredictionError(RuntimeError):
    """The network's answer cannot be a chunk of poses; the arm must not get it."""


@dataclass(frozen=True, eq=False)
class Prefix:
    """The first steps of a chunk as they are known already; see `runtime.inpainting`."""

    positions: Array
    """(n, 3), metres, `ee_gripper_link` in `base_link`."""
    rotations: Array
    """(n, 3, 3)."""
    gripper: Array
    """(n,), 1 = closed."""
    weights: Array
    """(n,), 1 = imposed, towards 0 = free."""


@dataclass(frozen=True, eq=False)
class PolicyInput:
    """One observation."""

    images: tuple[NDArray[np.uint8] | None, ...]
    """RGB (H, W, 3) of any size by view slot, the main view first; None for an absent view."""
    pose: Pose
    """`ee_gripper_link` in `base_link`."""
    instruction: str
    seed: int
    """Of the initial noise, >= 0; the same seed gives the same noise on every device."""
    prefix: Prefix | None = None
    """What the chunk is to go on from; None leaves it free."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """One chunk of H steps, canonical whatever checkpoint made it."""

    positions: Array
    """(H, 3), metres, `ee_gripper_link` in `base_link`."""
    rotations: Array
    """(H, 3, 3)."""
    gripper: Array
    """(H,), probability of closed."""
    proprio: Array
    """(20,), the pose that the network was told, in canonical numbers."""
    seconds: float
    """Time that the prediction took."""
    raw: Array
    """(H, 20), the numbers as the network gave them."""


class Policy(Protocol):
    """Anything that predicts chunks."""

    @property
    def horizon(self) -> int:
        """Steps of a chunk."""

    @property
    def step_dt(self) -> float:
        """Seconds between two steps."""

    @property
    def domain_id(self) -> int:
        """The embodiment that the network is told."""

    @property
    def gripper_threshold(self) -> float:
        """Probability of closed above which the gripper closes."""

    @property
    def open_below(self) -> float:
        """Probability of closed below which the gripper opens."""

    @property
    def num_views(self) -> int:
        """View slots."""

    @property
    def time_grid(self) -> tuple[float, ...]:
        """Times of the denoising steps."""

    @property
    def approximation(self) -> str:
        """How the arithmetic departs from the published one."""

    @property
    def model_hash(self) -> str:
        """SHA-256 of the weights."""

    @property
    def device(self) -> str:
        """Name of the device, as torch writes it."""

    @property
    def device_description(self) -> str:
        """One line about the device: its model, versions, and why it was chosen."""

    def predict(self, inputs: PolicyInput) -> Prediction:
        """The chunk for one observation; raises PredictionError."""

    def warm_up(self) -> float:
        """Runs the network once on a blank observation; seconds it took."""

    def close(self) -> None:
        """Gives the device's memory back; nothing may be asked afterwards."""
