"""From episodes to the figures of `benchmark.json`; docs/scheduler_benchmark.md names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from xvla_ros.evaluation.aggregate import quantiles, rounded
from xvla_ros.evaluation.benchmark_scheduler.cases import Benchmark, Case
from xvla_ros.evaluation.benchmark_scheduler.runner import Record
from xvla_ros.evaluation.machine import machine
from xvla_ros.evaluation.paired import difference, mcnemar
from xvla_ros.evaluation.statistics import Proportion
from xvla_ros.geometry import Array

SCHEMA = "xvla_ros.benchmark_scheduler/1"
SEAMS = ("seam_mm", "seam_rad", "seam_velocity_mm", "seam_velocity_rad")
PER_EPISODE = (
    *(
        "step_mm",
        "step_rad",
        "jerk_rms",
        "idle_s",
        "idle_fraction",
        "tracking_mm",
        "tracking_rad",
        "reaction_s",
    ),
    *("chunks", "refused", "limited"),
)


def summarise(
    benchmark: Benchmark, facts: Mapping[str, Any], records: Mapping[Case, Record]
) -> dict[str, Any]:
    """Everything about a benchmark, for JSON; cases that have not been run are left out."""
    groups = _groups(benchmark, records)
    reference = benchmark.contenders[0].label
    cells = []
    for (task, latency, condition, strategy), episodes in groups.items():
        cell = {
            "task": task,
            "latency_s": latency,
            "condition": condition,
            "strategy": strategy,
            **_figures(episodes),
        }
        other = groups.get((task, latency, condition, reference), [])
        if strategy != reference:
            cell["against_first"] = _paired(other, episodes)
        cells.append(cell)
    return {
        "schema": SCHEMA,
        "machine": machine(),
        **facts,
        "strategies": {c.label: asdict(c) for c in benchmark.contenders},
        "tasks": list(benchmark.tasks),
        "latencies_s": list(benchmark.latencies_s),
        "episodes": benchmark.episodes,
        "seed": benchmark.seed,
        "complete": sum(cell["n"] for cell in cells) == sum(1 for _ in benchmark.cases()),
        "cells": cells,
    }


def _groups(
    benchmark: Benchmark, records: Mapping[Case, Record]
) -> dict[tuple[str, float, str, str], list[Record]]:
    """Episodes by everything but the seed, in a reader's order."""
    labels = [c.label for c in benchmark.contenders]
    keys = product(benchmark.tasks, benchmark.conditions, benchmark.latencies_s, labels)
    found: dict[tuple[str, float, str, str], list[Record]] = {
        (task, latency, condition, label): [] for task, condition, latency, label in keys
    }
    for case in benchmark.cases():
        if case in records:
            found[case[:4]].append(records[case])
    return {key: episodes for key, episodes in found.items() if episodes}


def _figures(episodes: Sequence[Record]) -> dict[str, Any]:
    success = Proportion(sum(e["success"] for e in episodes), len(episodes))
    return {
        "n": len(episodes),
        "successes": success.successes,
        "success_interval_95": [rounded(end) for end in success.interval()],
        "seconds": quantiles(_column(episodes, "seconds")),
        "seconds_to_success": quantiles(
            np.array([e["seconds"] for e in episodes if e["success"]], dtype=np.float64)
        ),
        **{name: quantiles(_together(episodes, name)) for name in SEAMS},
        **{name: quantiles(_column(episodes, name)) for name in PER_EPISODE},
    }


def _paired(first: Sequence[Record], second: Sequence[Record]) -> dict[str, Any] | None:
    """The second contender minus the first one, over the seeds that both have."""
    one, two = ({e["seed"]: e for e in episodes} for episodes in (first, second))
    seeds = [seed for seed in one if seed in two]
    if not seeds:
        return None
    a, b = ([side[seed] for seed in seeds] for side in (one, two))
    found: dict[str, Any] = {"pairs": len(seeds)}
    for name in ("seconds", "reaction_s"):
        d = difference(_column(a, name), _column(b, name), seeds)
        if d is not None:
            found[name] = {k: rounded(v) for k, v in asdict(d).items()}
    only_first = sum(x["success"] and not y["success"] for x, y in zip(a, b, strict=True))
    only_this = sum(y["success"] and not x["success"] for x, y in zip(a, b, strict=True))
    found["success"] = {
        "only_first": only_first,
        "only_this": only_this,
        "p_value": rounded(mcnemar(only_first, only_this)),
    }
    return found


def _column(episodes: Iterable[Record], name: str) -> Array:
    # A null becomes NaN.
    return np.array([e[name] for e in episodes], dtype=np.float64)


def _together(episodes: Iterable[Record], name: str) -> Array:
    return np.array([v for e in episodes for v in e[name]], dtype=np.float64)
