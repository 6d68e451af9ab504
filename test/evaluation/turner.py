"""A policy whose right answer is known: it turns about the base's z axis, as the arm in `bags`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from xvla_ros import ee6d
from xvla_ros.evaluation.bag import files
from xvla_ros.evaluation.bag_job import BagJob
from xvla_ros.evaluation.bag_settings import ModelOptions, Plan
from xvla_ros.evaluation.open_loop import OpenLoopSettings
from xvla_ros.geometry import so3_exp
from xvla_ros.runtime.interface import PolicyInput, Prediction


@dataclass
class Turner:
    """Turns at `speed` rad/s, plus noise of `noise` metres that follows from the seed."""

    speed: float = 0.2
    noise: float = 0.0
    horizon: int = 30
    step_dt: float = 1.0 / 6.0
    closed: float = 0.0
    num_views: int = 3
    seen: list[PolicyInput] = field(default_factory=list)
    domain_id: int = 0
    gripper_threshold: float = 0.0
    open_below: float = 0.6
    time_grid: tuple[float, ...] = (1.0,)
    approximation: str = "exact"
    model_hash: str = "turner"
    device: str = "cpu"
    device_description: str = "cpu"

    def predict(self, inputs: PolicyInput) -> Prediction:
        self.seen.append(inputs)
        times = self.step_dt * np.arange(1, self.horizon + 1)
        turns = np.stack([so3_exp([0.0, 0.0, self.speed * t]) for t in times])
        offset = self.noise * np.random.default_rng(inputs.seed).standard_normal(3)
        positions = turns @ inputs.pose.position + offset
        rotations = turns @ inputs.pose.rotation
        gripper = np.full(self.horizon, self.closed)
        proprio = ee6d.pack(inputs.pose.position, inputs.pose.rotation, 0.0)
        raw = ee6d.pack(positions, rotations, gripper)
        return Prediction(positions, rotations, gripper, proprio, 0.001, raw)

    def warm_up(self) -> float:
        return 0.0

    def close(self) -> None:
        self.seen.clear()


def evaluate(path: Path, policy: Turner, plan: Plan | None = None, **settings: object):
    """The entry of the only bag at a path, and its rows."""
    import pyarrow.parquet as pq

    (bag,) = files.find([path])
    chosen = plan or Plan(ModelOptions(Path("none")), OpenLoopSettings(**settings))  # type: ignore[arg-type]
    job = BagJob(bag, path.parent / f"{path.name}-parts")
    entry = job.run(policy, chosen)
    rows = [row for part in job.parts() for row in pq.read_table(part).to_pylist()]
    return entry, rows


def check_outcome(
    path: Path,
    status: str | tuple[str, ...],
    says: str,
    predictions: int | tuple[int, int],
    episodes: int | tuple[int, int],
) -> None:
    """What comes of a bag in which the arm turns its waist.

    The policy knows that it does: wherever there is a prediction its error is zero, so that a bag
    which is read wrongly shows.

    Args:
        path: of the bag.
        status: allowed ones.
        says: part of the message or of a warning; empty = there is neither.
        predictions: their number, or its bounds.
        episodes: their number, or its bounds.
    """
    entry, rows = evaluate(path, Turner())
    told = " | ".join([entry["message"], *entry["warnings"]])
    assert entry["status"] in (status if isinstance(status, tuple) else (status,)), told
    assert says in told
    assert "\n" not in told
    assert bool(told.strip(" |")) == bool(says)
    own = [row for row in rows if row["method"] == "policy"]
    assert _within(len(own), predictions), (len(own), entry["no_observation"])
    assert _within(len(entry["episodes"]), episodes), entry["episodes"]
    for row in own:
        errors = np.array(row["position_error_mm"])
        # The waist goes round at constant speed: whatever is known of the future is met, to the
        # chord between two joint states.
        assert np.nanmax(errors, initial=0.0) < 0.5
        assert np.nanmax(np.array(row["rotation_error_deg"]), initial=0.0) < 0.05


def _within(value: int, wanted: int | tuple[int, int]) -> bool:
    return wanted[0] <= value <= wanted[1] if isinstance(wanted, tuple) else value == wanted
