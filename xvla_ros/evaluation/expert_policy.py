"""The simulator's expert behind the interface of a policy: it knows the truth and sees nothing.

For what needs good chunks but no network. With noise, successive chunks disagree as those of a
network do: each has an error of its own, which grows over its first steps and then stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xvla_ros import ee6d
from xvla_ros.geometry import Array, so3_exp
from xvla_ros.runtime.interface import PolicyInput, Prediction
from xvla_ros.sim.expert import label
from xvla_ros.sim.tasks import task_named
from xvla_ros.sim.world import SimWorld


@dataclass(frozen=True)
class ChunkNoise:
    """How far a chunk is from what the expert wants."""

    position_m: float = 0.0
    """Standard deviation per axis of the error far into a chunk, metres."""
    rotation_rad: float = 0.0
    """The same for the rotation vector, radians."""
    growth_s: float = 0.5
    """Time constant in seconds with which the error grows along a chunk."""

    def __post_init__(self) -> None:
        if self.position_m < 0.0 or self.rotation_rad < 0.0 or not self.growth_s > 0.0:
            raise ValueError(f"noise must not be negative: {self}")


class ExpertPolicy:
    """Answers with the expert's chunk for the world as it is.

    Args:
        world: the one that the episode runs in.
        noise: added to each chunk, drawn from the seed of the request.
    """

    horizon = 30
    step_dt = 1.0 / 6.0
    domain_id = 0
    gripper_threshold = 0.8
    open_below = 0.6
    num_views = 3
    time_grid = (1.0,)
    approximation = "scripted"
    model_hash = ""
    device = "cpu"
    device_description = "the scripted expert needs no device"

    def __init__(self, world: SimWorld, noise: ChunkNoise | None = None) -> None:
        self._world = world
        self._noise = noise or ChunkNoise()

    def predict(self, inputs: PolicyInput) -> Prediction:
        """The chunk for the world now, from the pose that the request tells."""
        truth = self._world.state()
        skill = task_named(truth.task).skill
        answer = label(truth, inputs.pose, skill, self.horizon, self.step_dt)
        shift, turn = self._errors(inputs.seed)
        positions, rotations = answer.positions + shift, answer.rotations @ turn
        raw = ee6d.pack(positions, rotations, answer.gripper)
        proprio = ee6d.pack(inputs.pose.position, inputs.pose.rotation, np.float64(0.0))
        return Prediction(positions, rotations, answer.gripper, proprio, 0.0, raw)

    def _errors(self, seed: int) -> tuple[Array, Array]:
        """Shifts (H, 3) and rotations (H, 3, 3) to add to a chunk."""
        drawn = np.random.default_rng(seed).normal(size=(2, 3))
        times = self.step_dt * np.arange(1, self.horizon + 1)
        grown = 1.0 - np.exp(-times / self._noise.growth_s)
        shift = self._noise.position_m * grown[:, None] * drawn[0]
        turn = [so3_exp(self._noise.rotation_rad * g * drawn[1]) for g in grown]
        return shift, np.array(turn)

    def warm_up(self) -> float:
        """Has nothing to warm up."""
        return 0.0

    def close(self) -> None:
        """Has nothing to give back."""
