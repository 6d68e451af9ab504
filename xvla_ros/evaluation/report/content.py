"""What the page shows: a result's table and summary as plain data for its script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from xvla_ros.evaluation.open_loop_metrics import TIMES
from xvla_ros.evaluation.outcome import POLICY
from xvla_ros.evaluation.report.frames import FrameSource, Pictures, data_uri
from xvla_ros.evaluation.report.selection import spread_out, worst
from xvla_ros.geometry import Pose, matrix_from_quaternion

Array = NDArray[np.float64]

# A page that a mail carries: pictures make up most of it.
_FILM = 72
_WORST = 12
_APART_S = 1.5
# Chunks drawn step by step; 30 steps are about 2 kB of text.
_MOST_CHUNKS = 600
_TINY = 1e-12
_RANKS = ("mm_1s", "deg_1s", "mm_end", "grip")
_COLUMNS = (
    *("bag", "episode", "index", "time_s", "stamp_ns", "instruction", "noise_seed"),
    *("view_log_ns", "predicted_position", "predicted_rotation", "predicted_closed"),
    *("predicted_command", "start_position", "start_rotation", "actual_position"),
    *("actual_rotation", "actual_closed", "gripper_agreement", "limits", "limit_steps"),
    *("refusal", "network_ms", "overhead_ms", "spread_mm"),
    *(f"{kind}_{time}" for kind in ("position_error_mm", "rotation_error_deg") for time in TIMES),
)
COLUMNS = (*_COLUMNS, "method", "seed_index")
"""Columns of the table that are read."""


def build(
    summary: Mapping[str, Any], timing: Mapping[str, Any], table: pa.Table, source: FrameSource
) -> dict[str, Any]:
    """Everything that the page's script draws.

    Args:
        summary: content of summary.json.
        timing: content of timing.json; empty if there is none.
        table: predictions; at least `COLUMNS`.
        source: of the pictures.
    """
    moments = _Moments(table, [bag["name"] for bag in summary["bags"]])
    ranks = moments.ranks()
    shown = sorted({*spread_out(moments.group, _FILM), *(i for r in ranks.values() for i in r)})
    detailed = sorted({*shown, *moments.evenly(_MOST_CHUNKS)})
    frames, notes, calibrated = _frames(summary, moments, shown, source)
    return {
        "summary": summary,
        "timing": timing,
        "moments": moments.series(),
        "ranks": ranks,
        "film": shown,
        "chunks": {index: moments.chunk(index) for index in detailed},
        "frames": frames,
        "calibrated": calibrated,
        "notes": notes,
        "latency": moments.latencies(table),
    }


class _Moments:
    """The policy's first chunk of each observation, in the order of the table."""

    def __init__(self, table: pa.Table, bags: Sequence[str]) -> None:
        own = pc.and_(pc.equal(table["method"], POLICY), pc.equal(table["seed_index"], 0))
        self._table = table.filter(own).combine_chunks()
        names = {name: number for number, name in enumerate(bags)}
        self.bag = [names[name] for name in self._table["bag"].to_pylist()]
        self.episode: list[int] = self._table["episode"].to_pylist()
        pairs = list(zip(self.bag, self.episode, strict=True))
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        self.group = [numbers[pair] for pair in pairs]
        self.time = self.numbers("time_s")

    def __len__(self) -> int:
        return len(self.bag)

    def numbers(self, column: str) -> Array:
        """A column as floats; null is NaN."""
        return np.array(self._table[column].to_pylist(), dtype=np.float64)

    def series(self) -> dict[str, Any]:
        """One number of each moment for the lines over time."""
        result: dict[str, Any] = {
            "bag": self.bag,
            "episode": self.episode,
            "group": self.group,
            "t": _rounded(self.time, 3),
            "index": self._table["index"].to_pylist(),
            "agree": _rounded(self.numbers("gripper_agreement"), 3),
            "network": _rounded(self.numbers("network_ms"), 2),
            "limits": [limits or [] for limits in self._table["limits"].to_pylist()],
            "refusal": [text or "" for text in self._table["refusal"].to_pylist()],
            "seed": self._table["noise_seed"].to_pylist(),
            # A JavaScript number would lose the last digits.
            "stamp": [str(stamp) for stamp in self._table["stamp_ns"].to_pylist()],
            "instruction": [text or "" for text in self._table["instruction"].to_pylist()],
        }
        for name in TIMES:
            result[f"mm_{name}"] = _rounded(self.numbers(f"position_error_mm_{name}"), 2)
            result[f"deg_{name}"] = _rounded(self.numbers(f"rotation_error_deg_{name}"), 2)
        return result

    def ranks(self) -> dict[str, list[int]]:
        """The worst moments by each kind of error."""
        scores = {
            "mm_1s": self.numbers("position_error_mm_1s"),
            "deg_1s": self.numbers("rotation_error_deg_1s"),
            "mm_end": self.numbers("position_error_mm_end"),
            "grip": 1.0 - self.numbers("gripper_agreement"),
        }
        # Full agreement is nobody's worst moment.
        scores["grip"][scores["grip"] <= 0.0] = np.nan
        return {
            name: worst(scores[name], self.group, self.time, _WORST, _APART_S) for name in _RANKS
        }

    def evenly(self, most: int) -> list[int]:
        """At most so many moments, every n-th."""
        return list(range(0, len(self), max(1, -(-len(self) // most))))

    def start(self, index: int) -> Pose:
        """Measured pose at the time of the observation."""
        row = self._row(index, "start_position", "start_rotation")
        return Pose(np.array(row[0]), matrix_from_quaternion(row[1]))

    def paths(self, index: int) -> tuple[Array, Array]:
        """Predicted and actual positions (H + 1, 3), the start first."""
        start, predicted, actual = self._row(
            index, "start_position", "predicted_position", "actual_position"
        )
        return tuple(np.vstack([start, _rows(path, 3)]) for path in (predicted, actual))  # type: ignore[return-value]

    def frames_of(self, index: int) -> list[tuple[int, int]]:
        """View slots and times of the images."""
        (times,) = self._row(index, "view_log_ns")
        return [(slot, int(time)) for slot, time in enumerate(times) if time]

    def chunk(self, index: int) -> dict[str, Any]:
        """Motion of a moment: mm, degrees of the rotation since the start, gripper."""
        predicted, actual = self.paths(index)
        start, turned, was, closed, command, held, spread, steps = self._row(
            index,
            *("start_rotation", "predicted_rotation", "actual_rotation"),
            *("predicted_closed", "predicted_command"),
            *("actual_closed", "spread_mm", "limit_steps"),
        )
        return {
            "p": _millimetres(predicted),
            "a": _millimetres(actual),
            "pr": _turns(start, turned),
            "ar": _turns(start, was),
            "g": _rounded(closed, 2),
            "c": [int(v > 0.5) for v in command],
            "ag": _rounded(held, 2),
            "s": None if spread is None else _rounded(spread, 1),
            "limit_steps": steps or [],
        }

    def latencies(self, table: pa.Table) -> dict[str, list[float | None]]:
        """Milliseconds of the network for each chunk, and of the rest for each observation."""
        chunks = table.filter(pc.equal(table["method"], POLICY))
        network = np.array(chunks["network_ms"].to_pylist(), dtype=np.float64)
        return {
            "network": _rounded(network[np.isfinite(network)], 2),
            "overhead": _rounded(self.numbers("overhead_ms"), 2),
        }

    def _row(self, index: int, *columns: str) -> list[Any]:
        return [self._table[column][index].as_py() for column in columns]


def _frames(
    summary: Mapping[str, Any], moments: _Moments, shown: Sequence[int], source: FrameSource
) -> tuple[dict[int, list[Any]], dict[str, str], bool]:
    """Pictures by moment, with the path as fractions of the picture where a camera is known."""
    found: dict[int, list[Any]] = {}
    notes: dict[str, str] = {}
    calibrated = False
    for number, bag in enumerate(summary["bags"]):
        mine = [index for index in shown if moments.bag[index] == number]
        if not mine:
            continue
        wanted = {frame for index in mine for frame in moments.frames_of(index)}
        pictures = source.pictures(bag, wanted)
        if pictures.note:
            notes[bag["name"]] = pictures.note
        calibrated |= bool(pictures.cameras)
        rotated = {int(view["slot"]) for view in bag["views"] if view["rotate_180"]}
        for index in mine:
            found[index] = [
                _frame(moments, index, slot, pictures, data, slot in rotated)
                for slot, time in moments.frames_of(index)
                if (data := pictures.jpeg.get((slot, time))) is not None
            ]
    return found, notes, calibrated


def _frame(
    moments: _Moments, index: int, slot: int, pictures: Pictures, data: bytes, rotated: bool
) -> dict[str, Any]:
    frame: dict[str, Any] = {"slot": slot, "src": data_uri(data)}
    camera = pictures.cameras.get(slot)
    if camera is not None:
        for key, path in zip(("p", "a"), moments.paths(index), strict=True):
            pixels = camera.project(path, moments.start(index))
            frame[key] = [_rounded(pixel, 4) for pixel in (1.0 - pixels if rotated else pixels)]
    return frame


def _rows(values: Sequence[float], width: int) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1, width)


def _millimetres(path: Array) -> list[list[float | None]]:
    return [_rounded(1000.0 * row, 1) for row in path]


def _turns(start: Sequence[float], quaternions: Sequence[float]) -> list[list[float | None]]:
    """Rotation vectors in degrees about the base's axes, from the start on, which is zero.

    Args:
        start: quaternion (x, y, z, w).
        quaternions: (4H,), row-major.
    """
    w, v = start[3], -np.asarray(start[:3], dtype=np.float64)
    q = _rows(quaternions, 4)
    # The product of each with the inverse of the start.
    turned = q[:, 3:] * v + w * q[:, :3] + np.cross(q[:, :3], v)
    scalar = q[:, 3] * w - q[:, :3] @ v
    turned = np.where(scalar[:, None] < 0.0, -turned, turned)
    sine = np.linalg.norm(turned, axis=1)
    angle = 2.0 * np.degrees(np.arctan2(sine, np.abs(scalar)))
    vectors = turned * (angle / np.maximum(sine, _TINY))[:, None]
    return [_rounded(row, 1) for row in np.vstack([np.zeros(3), vectors])]


def _rounded(values: Any, digits: int) -> list[float | None]:
    """Numbers for JSON; null where there is none."""
    array = np.asarray(values, dtype=np.float64)
    return [round(float(v), digits) if np.isfinite(v) else None for v in array]
