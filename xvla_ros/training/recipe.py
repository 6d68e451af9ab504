"""Every number of the demo policy's training in one place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from xvla_ros.training.folder import NetworkSize


@dataclass(frozen=True)
class Optimisation:
    """How the weights are learned."""

    steps: int = 2200
    batch: int = 40
    learning_rate: float = 1.0e-3
    final_learning_rate: float = 1.0e-5
    warm_up_steps: int = 100
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    clip_norm: float = 1.0
    ema_decay: float = 0.997
    light_jitter: float = 0.2
    landmark_weight: float = 2.0
    """Of the term that teaches the vision tower where the cube is and how it is turned."""


@dataclass(frozen=True)
class Collection:
    """What is recorded, in episodes."""

    expert_episodes: int = 400
    """Perturbed demonstrations, recorded before the training starts."""
    rounds: tuple[int, ...] = (700, 1000, 1300, 1600)
    """Training steps at which the policy of that moment is let loose and corrected (DAgger)."""
    round_episodes: int = 40
    round_delay: int = 220
    """Training steps after which a round's recordings join, made in the meantime beside it."""
    per_job: int = 20
    """Episodes of one file; how they are shared out changes nothing but the waiting."""


@dataclass(frozen=True)
class Recipe:
    """All choices of one training run; the same recipe and seed give the same run."""

    seed: int = 0
    network: NetworkSize = field(default_factory=NetworkSize)
    optimisation: Optimisation = field(default_factory=Optimisation)
    collection: Collection = field(default_factory=Collection)
    cameras: tuple[str, ...] = ("front", "wrist")
    """Simulator camera of each filled view slot."""
    task_weights: tuple[float, ...] = (0.3, 0.7)
    """Share of the examples labelled for each of TASKS."""

    def shortened(self, steps: int) -> Recipe:
        """The same with another number of steps and the rounds spread over them alike."""
        scale = steps / self.optimisation.steps
        rounds = tuple(round(scale * step) for step in self.collection.rounds)
        delay = max(1, round(scale * self.collection.round_delay))
        return replace(
            self,
            optimisation=replace(self.optimisation, steps=steps),
            collection=replace(self.collection, rounds=rounds, round_delay=delay),
        )

    def fingerprint(self) -> str:
        """Eight hex digits that change with any choice."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:8]


TASKS = ("reach", "pick")

# The first sentence of each task is the one that the simulator states; the others keep the text
# encoder from hanging on one exact string.
INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    "reach": (
        "reach the red cube",
        "move above the red cube",
        "go to the red cube",
        "hover over the red block",
        "point at the red cube",
    ),
    "pick": (
        "pick up the red cube",
        "pick the red cube up",
        "grasp the red cube and lift it",
        "lift the red block",
        "pick up the red block",
    ),
}
