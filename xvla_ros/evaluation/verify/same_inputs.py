"""The open-loop half of `xvla verify`: the same observations and noise for every variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xvla_ros.evaluation.verify.agreement import Chunks, Numbers, clean, to_json
from xvla_ros.runtime.interface import Policy, PolicyInput, Prediction

Array = NDArray[np.float64]
Progress = Callable[[], None]


class Inspectable(Policy, Protocol):
    """A policy that shows what its denoising steps are conditioned on."""

    def features(self, inputs: PolicyInput) -> NDArray[np.float32]:
        """(tokens, channels) of the encoder's output, then of the other views' features."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What one variant made of all observations."""

    features: tuple[NDArray[np.float32], ...]
    """By observation."""
    predictions: tuple[tuple[Prediction, ...], ...]
    """By observation and noise seed."""
    seconds: float
    """Median time of a prediction here, from the second one on."""
    approximation: str
    device: str

    @staticmethod
    def of(
        policy: Inspectable, inputs: Sequence[PolicyInput], seeds: int, progress: Progress
    ) -> Answers:
        """Asks a policy about every observation with `seeds` noises."""
        features, predictions, times = [], [], []
        for observation in inputs:
            features.append(policy.features(observation))
            row = []
            for seed in range(seeds):
                start = perf_counter()
                row.append(policy.predict(replace(observation, seed=seed)))
                times.append(perf_counter() - start)
                progress()
            predictions.append(tuple(row))
        typical = float(np.median(times[1:] or times))
        return Answers(
            tuple(features), tuple(predictions), typical, policy.approximation, policy.device
        )

    def flat(self) -> list[Prediction]:
        """All predictions in a fixed order."""
        return [prediction for row in self.predictions for prediction in row]

    def shifted(self) -> list[Prediction]:
        """The same observations in the same order, each with the next seed."""
        return [prediction for row in self.predictions for prediction in (*row[1:], row[0])]


@dataclass(frozen=True)
class Tolerance:
    """What a variant may differ by."""

    spread: float = 0.1
    """Root mean square difference, as a share of that between two noise seeds."""
    flips: float = 0.001
    """Share of the steps at which the gripper may be told something else."""
    mm: float | None = None
    """Largest difference of a position; None = as the spread says."""
    deg: float | None = None


@dataclass(frozen=True, eq=False)
class SameInputs:
    """A variant against the reference."""

    label: str
    approximation: str
    device: str
    seconds: float
    features: Numbers
    actions: Chunks

    def faults(self, spread: Chunks, allowed: Tolerance) -> list[str]:
        """Where it is outside the tolerance; empty if nowhere."""
        found = []
        for unit in ("mm", "deg"):
            rmse, most = getattr(self.actions, f"{unit}_rmse"), getattr(self.actions, f"{unit}_max")
            limit = allowed.spread * getattr(spread, f"{unit}_rmse")
            if rmse > limit:
                found.append(f"rmse {rmse:.3g} {unit} > {limit:.3g} {unit}")
            ceiling = getattr(allowed, unit)
            if ceiling is not None and most > ceiling:
                found.append(f"max {most:.3g} {unit} > {ceiling:.3g} {unit}")
        if self.actions.flips > allowed.flips * self.actions.steps:
            found.append(f"{self.actions.flips} gripper flips in {self.actions.steps} steps")
        return found

    def to_dict(self, spread: Chunks, allowed: Tolerance) -> dict[str, Any]:
        """For JSON."""
        faults = self.faults(spread, allowed)
        return {
            "label": self.label,
            "approximation": self.approximation,
            "device": self.device,
            "prediction_s": self.seconds,
            "features": to_json(self.features) | {"relative": clean(self.features.relative)},
            "actions": to_json(self.actions),
            "rmse_of_spread": {
                unit: _share(getattr(self.actions, unit), getattr(spread, unit))
                for unit in ("mm_rmse", "deg_rmse")
            },
            "faults": faults,
            "within": not faults,
        }


def compare(label: str, reference: Answers, other: Answers, threshold: float) -> SameInputs:
    """`other` against `reference`; the gripper closes above `threshold`."""
    shapes = {tuple(f.shape for f in answers.features) for answers in (reference, other)}
    if len(shapes) == 1:
        features = Numbers.of(np.stack(reference.features), np.stack(other.features))
    else:  # another number of view slots makes other tokens
        features = Numbers(*[float("nan")] * 4)
    actions = Chunks.of(reference.flat(), other.flat(), threshold)
    return SameInputs(label, other.approximation, other.device, other.seconds, features, actions)


def spread_of_seeds(reference: Answers, threshold: float) -> Chunks:
    """How far the reference is from itself with other noise."""
    return Chunks.of(reference.flat(), reference.shifted(), threshold)


def _share(value: float, of: float) -> float | None:
    return value / of if of > 0.0 else None
