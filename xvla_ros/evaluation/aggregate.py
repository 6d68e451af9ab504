"""From the table of predictions to the figures of `summary.json`; docs/evaluation.md names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from xvla_ros.evaluation.open_loop_metrics import TIMES, step_times
from xvla_ros.evaluation.outcome import METHODS, POLICY

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_DECIMALS = 6
_KINDS = ("position_error_mm", "rotation_error_deg")


def quantiles(values: Array) -> dict[str, Any]:
    """Mean, quantiles, largest and number of the finite values; nulls when there are none."""
    v = values[np.isfinite(values)]
    names = ("p10", "p50", "p90", "p95")
    if not v.size:
        return {"mean": None, **dict.fromkeys(names), "max": None, "count": 0}
    found = np.percentile(v, (10.0, 50.0, 90.0, 95.0))
    return {
        "mean": rounded(v.mean()),
        **{name: rounded(value) for name, value in zip(names, found, strict=True)},
        "max": rounded(v.max()),
        "count": int(v.size),
    }


def rounded(value: float) -> float | None:
    """A number for JSON; null for one that does not exist."""
    return round(float(value), _DECIMALS) if np.isfinite(value) else None


class Figures:
    """Columns of the table, cut by masks.

    Args:
        table: see `table.schema`; the columns that `COLUMNS` names.
        horizon: steps of a chunk.
        step_dt: seconds between two steps.
    """

    COLUMNS = (
        *("bag", "episode", "index", "method", "seed_index", *_KINDS, "spread_mm"),
        *(f"{kind}_{name}" for kind in (*_KINDS, "spread_mm", "spread_deg") for name in TIMES),
        *(f"gripper_agrees_{name}" for name in TIMES),
        *("gripper_agreement", "limits", "refusal"),
    )

    def __init__(self, table: pa.Table, horizon: int, step_dt: float) -> None:
        self._table = table
        self._horizon = horizon
        self._step_dt = step_dt
        self.bag = np.array(table["bag"].to_pylist(), dtype=object)
        self.episode = np.array(table["episode"].to_pylist(), dtype=np.int64)
        self._index = np.array(table["index"].to_pylist(), dtype=np.int64)
        self._method = np.array(table["method"].to_pylist(), dtype=object)
        self._first = self._is(POLICY) & (np.array(table["seed_index"].to_pylist()) == 0)

    @property
    def everything(self) -> Mask:
        """The mask of all rows."""
        return np.ones(len(self.bag), dtype=bool)

    def predictions(self, mask: Mask) -> int:
        """Observations with a prediction."""
        return int((mask & self._first).sum())

    def methods(self, mask: Mask) -> dict[str, Any]:
        """Figures by method."""
        return {name: self._figures(mask & self._is(name)) for name in self._names(mask)}

    def means(self, mask: Mask) -> dict[str, Any]:
        """Mean errors of the policy by time."""
        chosen = mask & self._is(POLICY)
        return {
            kind: {name: _mean(self._numbers(f"{kind}_{name}")[chosen]) for name in TIMES}
            for kind in _KINDS
        }

    def relative(self, mask: Mask) -> dict[str, Any]:
        """The policy's mean error over each baseline's, on the observations that both have."""
        result: dict[str, Any] = {}
        for baseline in self._names(mask):
            if baseline == POLICY:
                continue
            result[baseline] = {
                kind.split("_")[0]: {
                    name: self._ratio(mask, f"{kind}_{name}", baseline) for name in TIMES
                }
                for kind in _KINDS
            }
        return result

    def over_horizon(self, mask: Mask) -> dict[str, Any]:
        """Errors by step."""
        times = step_times(self._horizon, self._step_dt)
        result: dict[str, Any] = {"time_s": [rounded(time) for time in times]}
        for name in self._names(mask):
            chosen = mask & self._is(name)
            entry: dict[str, Any] = {
                kind: _by_step(self._lists(kind, chosen, self._horizon)) for kind in _KINDS
            }
            spreads = self._lists("spread_mm", chosen & self._first, self._horizon)
            entry["spread_mm"] = _by_step(spreads)["mean"] if len(spreads) else None
            result[name] = entry
        return result

    def limits(self, mask: Mask) -> dict[str, Any]:
        """Chunks that would have been executed, and those that would have met a limit."""
        chosen = mask & self._first
        pairs = zip(self._texts("limits", chosen), self._texts("refusal", chosen), strict=True)
        hit = [limits or [] for limits, refusal in pairs if not refusal]
        counts = Counter(name for limits in hit for name in limits)
        return {
            "checked": len(hit),
            "any": sum(bool(limits) for limits in hit),
            "counts": dict(sorted(counts.items())),
        }

    def refusals(self, mask: Mask) -> dict[str, int]:
        """Chunks that the scheduler would have refused, by reason."""
        reasons = self._texts("refusal", mask & self._first)
        return dict(sorted(Counter(reason for reason in reasons if reason).items()))

    def _is(self, method: str) -> Mask:
        return np.asarray(self._method == method, dtype=bool)

    def _names(self, mask: Mask) -> list[str]:
        return [name for name in METHODS if (mask & self._is(name)).any()]

    def _numbers(self, column: str) -> Array:
        # A null becomes NaN, a bool 0 or 1.
        return np.array(self._table[column].to_pylist(), dtype=np.float64)

    def _texts(self, column: str, mask: Mask) -> list[Any]:
        return self._table[column].filter(pa.array(mask)).to_pylist()

    def _figures(self, mask: Mask) -> dict[str, Any]:
        def spread(kind: str) -> dict[str, Any] | None:
            found = {name: self._numbers(f"spread_{kind}_{name}")[mask] for name in TIMES}
            if not any(np.isfinite(values).any() for values in found.values()):
                return None
            return {name: quantiles(values) for name, values in found.items()}

        agreement = {name: _mean(self._numbers(f"gripper_agrees_{name}")[mask]) for name in TIMES}
        return {
            "predictions": len(set(zip(self.bag[mask], self._index[mask], strict=True))),
            **{
                kind: {name: quantiles(self._numbers(f"{kind}_{name}")[mask]) for name in TIMES}
                for kind in _KINDS
            },
            "gripper_agreement": {
                **agreement,
                "all": _mean(self._numbers("gripper_agreement")[mask]),
            },
            "spread_mm": spread("mm"),
            "spread_deg": spread("deg"),
        }

    def _ratio(self, mask: Mask, column: str, baseline: str) -> float | None:
        values = self._numbers(column)
        keys = list(zip(self.bag, self._index, strict=True))
        other = mask & self._is(baseline) & np.isfinite(values)
        known = {keys[row] for row in np.flatnonzero(other)}
        own = mask & self._is(POLICY) & np.isfinite(values)
        shared = [row for row in np.flatnonzero(own) if keys[row] in known]
        policy_keys = {keys[row] for row in shared}
        theirs = [row for row in np.flatnonzero(other) if keys[row] in policy_keys]
        if not shared or not (below := float(values[theirs].mean())):
            return None
        return rounded(float(values[shared].mean()) / below)

    def _lists(self, column: str, mask: Mask, width: int) -> Array:
        """Rows (n, width) of a column of lists, without null ones."""
        chosen = self._table[column].filter(pa.array(mask)).drop_null()
        flat = chosen.combine_chunks().flatten() if len(chosen) else []
        return np.asarray(flat, dtype=np.float64).reshape(-1, width)


def _mean(values: Array) -> float | None:
    v = values[np.isfinite(values)]
    return rounded(v.mean()) if v.size else None


def _by_step(rows: Array) -> dict[str, list[float | None]]:
    """Mean and quantiles (H) over rows (n, H); nulls at a step that no row has."""
    named: dict[str, list[float | None]] = {"mean": [], "p10": [], "p50": [], "p90": []}
    for column in rows.T:
        found = quantiles(column)
        for name, values in named.items():
            values.append(found[name])
    return named


def summary_of_methods(figures: Figures) -> dict[str, Any]:
    """The parts of `summary.json` that come from the table."""
    mask = figures.everything
    return {
        "methods": figures.methods(mask),
        "relative": figures.relative(mask),
        "horizon": figures.over_horizon(mask),
        "limits": figures.limits(mask),
        "refusals": figures.refusals(mask),
    }


def summary_of_bag(figures: Figures, entry: dict[str, Any]) -> dict[str, Any]:
    """A bag's entry with its figures."""
    mask = np.asarray(figures.bag == entry["name"], dtype=bool)
    episodes: Sequence[dict[str, Any]] = entry["episodes"]
    return {
        **entry,
        "predictions": figures.predictions(mask),
        "episodes": [
            {**episode, **figures.means(mask & (figures.episode == episode["index"]))}
            for episode in episodes
        ],
        "methods": figures.methods(mask),
    }
