"""The files of a result, from parts of its table and the entries of its recordings."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from xvla_ros import __version__
from xvla_ros.evaluation.aggregate import (
    Figures,
    quantiles,
    rounded,
    summary_of_bag,
    summary_of_methods,
)
from xvla_ros.evaluation.table import SCHEMA, join, schema
from xvla_ros.runtime.interface import Policy

SUMMARY, TIMING, PREDICTIONS = "summary.json", "timing.json", "predictions.parquet"
COMPLETE, PARTIAL, FAILED = "complete", "partial", "failed"
_TIMES = ("network_ms", "overhead_ms")
_LIBRARIES = ("numpy", "torch", "opencv-python-headless", "rosbags", "Pillow")


@dataclass(frozen=True)
class ModelFacts:
    """What a result says about the model."""

    name: str
    hash: str
    device: str
    domain_id: int
    step_dt: float
    horizon: int
    num_views: int
    time_grid: tuple[float, ...]
    approximation: str
    gripper_threshold: float

    @staticmethod
    def of(policy: Policy, folder: Path) -> ModelFacts:
        """The facts of a loaded policy."""
        return ModelFacts(
            name=folder.absolute().name,
            hash=policy.model_hash,
            device=policy.device,
            domain_id=policy.domain_id,
            step_dt=policy.step_dt,
            horizon=policy.horizon,
            num_views=policy.num_views,
            time_grid=tuple(round(t, 9) for t in policy.time_grid),
            approximation=policy.approximation,
            gripper_threshold=policy.gripper_threshold,
        )


def write_result(
    out: Path,
    kind: str,
    facts: ModelFacts,
    entries: Sequence[dict[str, Any]],
    parts: Iterable[Sequence[Path]],
    *,
    settings: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Writes predictions.parquet and summary.json; returns the summary.

    Args:
        out: folder of the result.
        kind: bag, replay or sim.
        facts: of the model.
        entries: of the recordings; docs/evaluation.md describes them.
        parts: of the table, by recording.
        settings: of the evaluation.
        parameters: of the nodes, by section.
    """
    path = out / PREDICTIONS
    join(parts, path, schema(facts.horizon, facts.step_dt))
    table = pq.read_table(path, columns=list(Figures.COLUMNS))
    figures = Figures(table, facts.horizon, facts.step_dt)
    bags = [summary_of_bag(figures, entry) for entry in entries]
    summary = {
        "schema": SCHEMA,
        "kind": kind,
        "versions": versions(),
        "model": asdict(facts),
        "settings": dict(settings),
        "parameters": dict(parameters),
        "counts": {
            "bags": len(bags),
            "bags_failed": sum(bag["status"] == FAILED for bag in bags),
            "episodes": sum(len(bag["episodes"]) for bag in bags),
            "predictions": sum(bag["predictions"] for bag in bags),
            "duration_s": round(sum(bag["duration_s"] or 0.0 for bag in bags), 6),
        },
        **summary_of_methods(figures),
        "bags": bags,
    }
    write_json(out / SUMMARY, summary)
    return summary


def write_timing(out: Path, wall_s: float, jobs: int, resident_mb: Sequence[float] = ()) -> None:
    """Writes timing.json beside the table.

    Args:
        out: folder of the result.
        wall_s: how long it all took.
        jobs: processes.
        resident_mb: memory that this process held after each recording; NaN = not known.
    """
    table = pq.read_table(out / PREDICTIONS, columns=["network_ms", "overhead_ms"])
    figures = {name: np.array(table[name].to_pylist(), dtype=np.float64) for name in _TIMES}
    content: dict[str, Any] = {name: quantiles(values) for name, values in figures.items()}
    network, beside = (float(np.nansum(figures[name])) for name in _TIMES)
    observations = int(np.isfinite(figures["overhead_ms"]).sum())
    if observations and network > 0.0:
        content["per_observation"] = {
            "network_ms": rounded(network / observations),
            "beside_ms": rounded(beside / observations),
            "total_over_network": rounded((network + beside) / network),
        }
    content |= {"wall_s": round(wall_s, 3), "jobs": jobs}
    content["resident_mb"] = [rounded(mb) for mb in resident_mb]
    write_json(out / TIMING, content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a file that is there whole or not at all."""
    temporary = path.with_suffix(".tmp")
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def versions() -> dict[str, str]:
    """Versions of this package and of what its numbers depend on."""
    installed = {name: _version(name) for name in _LIBRARIES}
    own = {"xvla_ros": __version__, "python": platform.python_version()}
    return own | {name: version for name, version in installed.items() if version}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
