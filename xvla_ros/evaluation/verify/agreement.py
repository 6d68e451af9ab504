"""How far two ways of running a network are from one another, beside its own noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xvla_ros.evaluation import so3
from xvla_ros.runtime.interface import Prediction

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Numbers:
    """Two sets of numbers compared one by one."""

    pearson: float
    """NaN where one of them does not vary."""
    max_abs: float
    rmse: float
    rms: float
    """Of the reference: what the others are to be seen beside."""

    @staticmethod
    def of(reference: Array, other: Array) -> Numbers:
        """Of arrays of one shape."""
        a, b = np.ravel(reference).astype(np.float64), np.ravel(other).astype(np.float64)
        gap = b - a
        da, db = a - a.mean(), b - b.mean()
        norm = float(np.sqrt((da @ da) * (db @ db)))
        return Numbers(
            pearson=float(da @ db) / norm if norm > 0.0 else float("nan"),
            max_abs=float(np.abs(gap).max()),
            rmse=_rms(gap),
            rms=_rms(a),
        )

    @property
    def relative(self) -> float:
        """Largest difference as a share of the reference's root mean square; NaN if that is 0."""
        return self.max_abs / self.rms if self.rms > 0.0 else float("nan")


@dataclass(frozen=True)
class Chunks:
    """Two sets of chunks compared step by step, in what the arm would do."""

    numbers: Numbers
    """Of the network's own numbers."""
    mm_rmse: float
    """Distance of the positions."""
    mm_max: float
    deg_rmse: float
    """Angle between the rotations."""
    deg_max: float
    steps: int
    flips: int
    """Steps at which the gripper would be closed by one and not by the other."""

    @staticmethod
    def of(
        reference: Sequence[Prediction], others: Sequence[Prediction], threshold: float
    ) -> Chunks:
        """Of predictions in pairs; the gripper closes above a probability of `threshold`."""
        raw = [np.stack([p.raw for p in side]) for side in (reference, others)]
        positions = [np.concatenate([p.positions for p in side]) for side in (reference, others)]
        turns = [np.concatenate([p.rotations for p in side]) for side in (reference, others)]
        distance = 1e3 * np.linalg.norm(positions[1] - positions[0], axis=1)
        relative = np.swapaxes(turns[0], -1, -2) @ turns[1]
        angle = np.degrees(np.linalg.norm(so3.log(relative), axis=1))
        closed = [
            np.concatenate([p.gripper for p in side]) > threshold for side in (reference, others)
        ]
        return Chunks(
            numbers=Numbers.of(raw[0], raw[1]),
            mm_rmse=_rms(distance),
            mm_max=float(distance.max()),
            deg_rmse=_rms(angle),
            deg_max=float(angle.max()),
            steps=len(distance),
            flips=int((closed[0] != closed[1]).sum()),
        )


def to_json(figures: Numbers | Chunks) -> dict[str, Any]:
    """For JSON: null where there is no number."""
    return {key: clean(value) for key, value in asdict(figures).items()}


def clean(value: Any) -> Any:
    """The same with null in the place of infinities and NaN, also inside dictionaries."""
    if isinstance(value, dict):
        return {key: clean(inner) for key, inner in value.items()}
    return value if isfinite(value) else None


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
