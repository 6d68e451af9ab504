"""Two results side by side: their predictions paired by recording and stamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.open_loop_metrics import TIMES
from xvla_ros.evaluation.outcome import POLICY
from xvla_ros.evaluation.paired import Difference, difference, independent_units, mcnemar
from xvla_ros.evaluation.report.page import read_json
from xvla_ros.evaluation.result import PREDICTIONS, SUMMARY

Array = NDArray[np.float64]

SCHEMA = "xvla_ros.comparison/1"
_KEY = ("bag", "stamp_ns")
_LISTS = ("position_error_mm", "rotation_error_deg")
_NUMBERS = (
    *(f"{kind}_{time}" for kind in _LISTS for time in TIMES),
    "gripper_agreement",
    "spread_mm_1s",
    "network_ms",
)
HIGHER_IS_BETTER = frozenset({"gripper_agreement"})
_NOTHING = object()


@dataclass(frozen=True, eq=False)
class Result:
    """A result's summary and the policy's errors by observation, the mean over its seeds."""

    path: Path
    summary: Mapping[str, Any]
    keys: tuple[tuple[str, int], ...]
    episode: Array
    time: Array
    numbers: Mapping[str, Array]
    by_step: Mapping[str, Array]
    """(n, H) by kind of error."""

    @property
    def chunk_s(self) -> float:
        """How long a chunk is."""
        model = self.summary["model"]
        return float(model["step_dt"] * model["horizon"])


def load(folder: Path) -> Result:
    """The result in a folder.

    Raises:
        UsageError: there is none.
    """
    summary = read_json(folder / SUMMARY)
    path = folder / PREDICTIONS
    if not path.is_file():
        raise UsageError(f"{path}: no such file; is this the --out of an evaluation?")
    columns = [*_KEY, "method", "episode", "time_s", *_NUMBERS, *_LISTS]
    table = pq.read_table(path, columns=columns)
    table = table.filter(pc.equal(table["method"], POLICY))
    keys = list(zip(*(table[name].to_pylist() for name in _KEY), strict=True))
    first = {key: row for row, key in reversed(list(enumerate(keys)))}
    unique = tuple(dict.fromkeys(keys))
    numbers = {key: number for number, key in enumerate(unique)}
    group = np.array([numbers[key] for key in keys], dtype=np.int64)
    rows = [first[key] for key in unique]
    horizon = int(summary["model"]["horizon"])
    return Result(
        path=folder,
        summary=summary,
        keys=unique,
        episode=np.array(table["episode"].to_pylist(), dtype=np.float64)[rows],
        time=np.array(table["time_s"].to_pylist(), dtype=np.float64)[rows],
        numbers={
            name: _means(_column(table, name)[:, None], group, len(unique))[:, 0]
            for name in _NUMBERS
        },
        by_step={
            name: _means(
                np.array(table[name].to_pylist(), dtype=np.float64).reshape(-1, horizon),
                group,
                len(unique),
            )
            for name in _LISTS
        },
    )


def _column(table: pa.Table, name: str) -> Array:
    return np.array(table[name].to_pylist(), dtype=np.float64)


def _means(values: Array, group: NDArray[np.int64], count: int) -> Array:
    """Means (count, m) of the known ones of values (n, m) by group; NaN for none."""
    known = np.isfinite(values)
    sums, sizes = np.zeros((count, values.shape[1])), np.zeros((count, values.shape[1]))
    np.add.at(sums, group, np.where(known, values, 0.0))
    np.add.at(sizes, group, known)
    return np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0)


def compare(a: Result, b: Result) -> dict[str, Any]:
    """Everything about two results, for JSON.

    Raises:
        UsageError: they have no observation in common.
    """
    at = {key: row for row, key in enumerate(b.keys)}
    pairs = [(row, at[key]) for row, key in enumerate(a.keys) if key in at]
    if not pairs:
        raise UsageError(
            f"{a.path} and {b.path} have no observation in common: evaluate the same recordings "
            "at the same rate"
        )
    rows_a, rows_b = (np.array(rows) for rows in zip(*pairs, strict=True))
    bags = {name: number for number, name in enumerate(dict.fromkeys(k[0] for k in a.keys))}
    episodes = [
        bags[a.keys[row][0]] * 100_000 + int(episode)
        for row, episode in zip(rows_a, a.episode[rows_a], strict=True)
    ]
    longest = max(a.chunk_s, b.chunk_s)
    units = independent_units(episodes, a.time[rows_a], longest)
    found = {
        name: difference(a.numbers[name][rows_a], b.numbers[name][rows_b], units)
        for name in _NUMBERS
    }
    return {
        "schema": SCHEMA,
        "a": _side(a),
        "b": _side(b),
        "pairs": len(pairs),
        "only_a": len(a.keys) - len(pairs),
        "only_b": len(b.keys) - len(pairs),
        "units": "episodes" if units == episodes else f"parts of {longest:g} s",
        "differences": {name: _figures(name, d) for name, d in found.items() if d is not None},
        "horizon": _over_horizon(a, b, rows_a, rows_b),
        "episodes": _by_episode(a, b, rows_a, rows_b, episodes),
        "closed_loop": _closed_loop(a, b),
        "settings": _changes(a.summary, b.summary),
        "notes": _notes(a, b),
        "moments": _moments(a, b, rows_a, rows_b),
    }


def _side(result: Result) -> dict[str, Any]:
    model = result.summary["model"]
    return {"path": str(result.path), "model": model["name"], "hash": model["hash"]}


def _figures(name: str, found: Difference) -> dict[str, Any]:
    better = None
    if found.clear:
        better = "b" if (found.mean > 0.0) == (name in HIGHER_IS_BETTER) else "a"
    return {k: _number(v) for k, v in asdict(found).items()} | {"better": better}


def _number(value: float) -> float | None:
    """For JSON: rounded, null where there is none."""
    return round(value, 6) if np.isfinite(value) else None


def _over_horizon(
    a: Result, b: Result, rows_a: NDArray[np.int64], rows_b: NDArray[np.int64]
) -> dict[str, Any] | None:
    """Mean errors by step on the pairs; None for chunks of another shape."""
    shapes = [(r.summary["model"]["step_dt"], r.summary["model"]["horizon"]) for r in (a, b)]
    if shapes[0] != shapes[1]:
        return None
    result: dict[str, Any] = {"time_s": a.summary["horizon"]["time_s"]}
    for name in _LISTS:
        one, two = a.by_step[name][rows_a], b.by_step[name][rows_b]
        known = np.isfinite(one) & np.isfinite(two)
        count = np.maximum(known.sum(axis=0), 1)
        result[name] = {
            side: [
                round(float(v), 4) if any_known else None
                for v, any_known in zip(
                    np.where(known, values, 0.0).sum(axis=0) / count, known.any(axis=0), strict=True
                )
            ]
            for side, values in (("a", one), ("b", two))
        }
    return result


def _by_episode(
    a: Result,
    b: Result,
    rows_a: NDArray[np.int64],
    rows_b: NDArray[np.int64],
    episodes: list[int],
) -> list[dict[str, Any]]:
    keys = np.array(episodes)
    name = "position_error_mm_1s"
    result = []
    for key in dict.fromkeys(episodes):
        mine = keys == key
        one, two = a.numbers[name][rows_a[mine]], b.numbers[name][rows_b[mine]]
        known = np.isfinite(one) & np.isfinite(two)
        if known.any():
            bag = a.keys[rows_a[mine][0]][0]
            result.append(
                {
                    "bag": bag,
                    "episode": key % 100_000,
                    "pairs": int(known.sum()),
                    "a": round(float(one[known].mean()), 4),
                    "b": round(float(two[known].mean()), 4),
                }
            )
    return result


def _moments(
    a: Result, b: Result, rows_a: NDArray[np.int64], rows_b: NDArray[np.int64], most: int = 4000
) -> list[list[float | None]]:
    """Errors after one second of both, for a picture of all pairs; every n-th of very many."""
    name = "position_error_mm_1s"
    step = max(1, -(-len(rows_a) // most))
    one, two = a.numbers[name][rows_a][::step], b.numbers[name][rows_b][::step]
    known = np.isfinite(one) & np.isfinite(two)
    return [
        [round(float(x), 2), round(float(y), 2)]
        for x, y in zip(one[known], two[known], strict=True)
    ]


def _closed_loop(a: Result, b: Result) -> dict[str, Any] | None:
    """Success on the same seeds; None unless both are episodes in closed loop."""
    outcomes = [r.summary.get("closed_loop") for r in (a, b)]
    if outcomes[0] is None or outcomes[1] is None:
        return None
    one, two = ({e["seed"]: bool(e["success"]) for e in o["results"]} for o in outcomes if o)
    seeds = [seed for seed in one if seed in two]
    only_a = sum(one[seed] and not two[seed] for seed in seeds)
    only_b = sum(two[seed] and not one[seed] for seed in seeds)
    return {
        "pairs": len(seeds),
        "a": sum(one[seed] for seed in seeds),
        "b": sum(two[seed] for seed in seeds),
        "only_a": only_a,
        "only_b": only_b,
        "p_value": round(mcnemar(only_a, only_b), 6),
    }


def _notes(a: Result, b: Result) -> list[str]:
    notes = []
    shapes = [(r.summary["model"]["step_dt"], r.summary["model"]["horizon"]) for r in (a, b)]
    if shapes[0] != shapes[1]:
        notes.append(
            "the chunks have other steps or another length: only the errors at 1 s compare"
        )
    seeds = [
        (r.summary["settings"].get("seed"), r.summary["settings"].get("seeds")) for r in (a, b)
    ]
    if seeds[0] != seeds[1]:
        notes.append("the noise is not the same: seeds differ")
    return notes


def _changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What differs in model, settings, parameters and versions."""
    result = []
    for part in ("model", "settings", "parameters", "versions"):
        one, two = _flat(a.get(part, {}), part), _flat(b.get(part, {}), part)
        for name in sorted({*one, *two}):
            before, after = one.get(name, _NOTHING), two.get(name, _NOTHING)
            if before != after:
                values = [None if v is _NOTHING else v for v in (before, after)]
                result.append({"name": name, "a": values[0], "b": values[1]})
    return result


def _flat(content: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = f"{prefix}.{key}"
        found |= _flat(value, name) if isinstance(value, Mapping) else {name: value}
    return found
