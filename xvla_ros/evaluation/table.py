"""Outcomes as rows of a Parquet table; docs/evaluation.md describes the columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from xvla_ros.evaluation import so3
from xvla_ros.evaluation.open_loop_metrics import TIMES, at_times
from xvla_ros.evaluation.outcome import POLICY, Judged, Outcome

Array = NDArray[np.float64]

SCHEMA = "xvla_ros.evaluation/1"
_METADATA_KEY = b"xvla_ros"
_FLOATS = pa.list_(pa.float32())
_INTEGERS = pa.list_(pa.int64())
_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("bag", pa.string()),
    ("episode", pa.int32()),
    ("index", pa.int32()),
    ("method", pa.string()),
    ("seed_index", pa.int32()),
    ("noise_seed", pa.int64()),
    ("stamp_ns", pa.int64()),
    ("time_s", pa.float64()),
    ("instruction", pa.string()),
    ("view_stamps_ns", _INTEGERS),
    ("view_log_ns", _INTEGERS),
    ("proprio", _FLOATS),
    ("predicted_position", _FLOATS),
    ("predicted_rotation", _FLOATS),
    ("predicted_closed", _FLOATS),
    ("predicted_command", _FLOATS),
    ("start_position", _FLOATS),
    ("start_rotation", _FLOATS),
    ("actual_position", _FLOATS),
    ("actual_rotation", _FLOATS),
    ("actual_closed", _FLOATS),
    ("position_error_mm", _FLOATS),
    ("rotation_error_deg", _FLOATS),
    *((f"position_error_mm_{name}", pa.float64()) for name in TIMES),
    *((f"rotation_error_deg_{name}", pa.float64()) for name in TIMES),
    *((f"gripper_agrees_{name}", pa.bool_()) for name in TIMES),
    ("gripper_agreement", pa.float64()),
    ("spread_mm", _FLOATS),
    ("spread_deg", _FLOATS),
    *((f"spread_mm_{name}", pa.float64()) for name in TIMES),
    *((f"spread_deg_{name}", pa.float64()) for name in TIMES),
    ("limits", pa.list_(pa.string())),
    ("limit_steps", pa.list_(pa.int32())),
    ("refusal", pa.string()),
    ("network_ms", pa.float64()),
    ("overhead_ms", pa.float64()),
)


def schema(horizon: int, step_dt: float) -> pa.Schema:
    """Columns and metadata of the table."""
    content = {"schema": SCHEMA, "step_dt": step_dt, "horizon": horizon}
    return pa.schema(_COLUMNS, metadata={_METADATA_KEY: json.dumps(content).encode()})


def metadata(table: pa.Table) -> dict[str, Any]:
    """`schema`, `step_dt` and `horizon` of a table."""
    return dict(json.loads((table.schema.metadata or {})[_METADATA_KEY]))


def rows(bag: str, outcome: Outcome, step_dt: float) -> list[dict[str, Any]]:
    """The rows of one observation; what a row does not have is null."""
    return [_row(bag, outcome, judged, step_dt) for judged in outcome.judged]


def _row(bag: str, outcome: Outcome, judged: Judged, step_dt: float) -> dict[str, Any]:
    moment, motion, errors = outcome.moment, judged.motion, judged.errors
    agreed = errors.agrees[np.isfinite(errors.agrees)]
    row: dict[str, Any] = {
        "bag": bag,
        "episode": moment.episode,
        "index": moment.index,
        "method": judged.method,
        "seed_index": judged.seed_index,
        "noise_seed": judged.noise_seed,
        "stamp_ns": moment.stamp_ns,
        "time_s": moment.time,
        "predicted_position": _flat(motion.positions),
        "predicted_rotation": _flat(so3.quaternions(motion.rotations)),
        "predicted_closed": _flat(motion.closed),
        "predicted_command": _flat(motion.command),
        "position_error_mm": _flat(errors.position_mm),
        "rotation_error_deg": _flat(errors.rotation_deg),
        "gripper_agreement": float(agreed.mean()) if agreed.size else None,
        "network_ms": None if judged.network_s is None else 1e3 * judged.network_s,
    }
    for name in TIMES:
        agrees = errors.agrees_at[name]
        row[f"position_error_mm_{name}"] = _number(errors.position_at[name])
        row[f"rotation_error_deg_{name}"] = _number(errors.rotation_at[name])
        row[f"gripper_agrees_{name}"] = bool(agrees > 0.5) if np.isfinite(agrees) else None
    if judged.method == POLICY and judged.seed_index == 0:
        row |= _shared(outcome, step_dt)
    return row


def _shared(outcome: Outcome, step_dt: float) -> dict[str, Any]:
    """What is the same for all rows of an observation and so told once."""
    moment, truth = outcome.moment, outcome.truth
    origin = moment.chunks[0].provenance
    row: dict[str, Any] = {
        "instruction": origin.instruction,
        "view_stamps_ns": list(moment.view_stamps_ns),
        "view_log_ns": list(moment.view_log_ns),
        "proprio": list(origin.proprio),
        "start_position": _flat(moment.start.position),
        "start_rotation": _flat(so3.quaternions(moment.start.rotation)),
        "actual_position": _flat(truth.positions),
        "actual_rotation": _flat(so3.quaternions(truth.rotations)),
        "actual_closed": _flat(truth.closed),
        "limits": list(moment.limits.first_steps),
        "limit_steps": list(moment.limits.first_steps.values()),
        "refusal": moment.limits.refusal,
        "overhead_ms": 1e3 * moment.overhead_s,
    }
    if outcome.spread is not None:
        for kind, values in zip(("mm", "deg"), outcome.spread, strict=True):
            row[f"spread_{kind}"] = _flat(values)
            for name, value in at_times(values, step_dt).items():
                row[f"spread_{kind}_{name}"] = _number(value)
    return row


def _flat(values: Array) -> NDArray[np.float32]:
    return np.asarray(values, dtype=np.float32).ravel()


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def shard_paths(folder: Path) -> list[Path]:
    """The finished files of a `Shards`, in order."""
    return sorted(folder.glob("*.parquet"))


class Shards:
    """Finished observations of one bag in numbered files, so that a run can be taken up again.

    Args:
        folder: one bag's own.
        kind: columns of the table.
        size: observations in a file.
    """

    def __init__(self, folder: Path, kind: pa.Schema, size: int = 16) -> None:
        self._folder = folder
        self._schema = kind
        self._size = size
        self._waiting: list[list[dict[str, Any]]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._next = len(shard_paths(folder))

    def add(self, observation: list[dict[str, Any]]) -> None:
        """Takes the rows of one observation."""
        self._waiting.append(observation)
        if len(self._waiting) >= self._size:
            self.flush()

    def flush(self) -> None:
        """Writes what waits; a file is there whole or not at all."""
        if not self._waiting:
            return
        content = [row for observation in self._waiting for row in observation]
        path = self._folder / f"{self._next:06d}.parquet"
        temporary = path.with_suffix(".tmp")
        pq.write_table(pa.Table.from_pylist(content, self._schema), temporary, compression="zstd")
        os.replace(temporary, path)
        self._next += 1
        self._waiting = []

    def known(self) -> frozenset[int]:
        """Indices of the observations in the files."""
        return frozenset(
            index
            for path in shard_paths(self._folder)
            for index in pq.read_table(path, columns=["index"])["index"].to_pylist()
        )


def join(shards: Iterable[Sequence[Path]], path: Path, kind: pa.Schema) -> None:
    """Writes the files of all bags as one table, one bag after another."""
    temporary = path.with_suffix(".tmp")
    with pq.ParquetWriter(temporary, kind, compression="zstd") as writer:
        for files in shards:
            for start in range(0, len(files), 64):
                group = [pq.read_table(file, schema=kind) for file in files[start : start + 64]]
                writer.write_table(pa.concat_tables(group))
    os.replace(temporary, path)
