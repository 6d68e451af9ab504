"""Closed-loop episodes of one variant, kept in a file so that a long run can go on later."""

from __future__ import annotations

import json
import multiprocessing
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.closed_loop import EpisodeResult, LoopSettings, evaluate
from xvla_ros.evaluation.verify.variant import Variant
from xvla_ros.runtime.interface import Policy
from xvla_ros.sim.world import SimWorld

SCHEMA = "xvla_ros.trial/1"
_GROUP = 20
"""Episodes of one job: what an interruption loses at most."""


@dataclass(frozen=True)
class Conditions:
    """What all variants of a trial have in common."""

    model: str
    task: str
    latency_s: float = 0.1
    policy_rate_hz: float = 2.0
    limit_s: float = 15.0

    def settings(self) -> LoopSettings:
        """For the loop."""
        return LoopSettings(self.latency_s, self.policy_rate_hz, self.limit_s)


@dataclass(frozen=True)
class Outcome:
    """What came of an episode, as far as a trial is interested."""

    seed: int
    success: bool
    seconds: float
    """Simulated, to success; the limit for a failure."""
    refused: int
    inference_ms: float
    """Mean wall time of a prediction."""


class Trial:
    """Episodes of one variant under some conditions, in `<folder>/<task>-<label>.jsonl`.

    The first line says what was run, every other one is an episode.
    """

    def __init__(self, folder: Path, conditions: Conditions, variant: Variant) -> None:
        self._conditions = conditions
        self._variant = variant
        self.label = variant.label
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{conditions.task}-{variant.label}").strip("-")
        self.path = folder / f"{name}.jsonl"
        self.facts: dict[str, Any] = {}
        self.outcomes: dict[int, Outcome] = {}
        if self.path.is_file():
            self._read()

    def missing(self, seeds: Sequence[int]) -> list[int]:
        """Seeds that have not been run yet."""
        return [seed for seed in seeds if seed not in self.outcomes]

    def begin(self, model_hash: str) -> None:
        """Starts the file, or checks that the one there is of the same model and conditions.

        Raises:
            UsageError: it is not.
        """
        facts = {
            "schema": SCHEMA,
            "model_hash": model_hash,
            "variant": self._variant.options,
            "conditions": asdict(self._conditions) | {"model": ""},
        }
        if not self.facts:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(facts) + "\n", encoding="utf-8")
            self.facts = facts
        for name, value in facts.items():
            if self.facts.get(name) != value:
                raise UsageError(
                    f"{self.path}: was made with another {name} ({self.facts.get(name)}, "
                    f"not {value}); use another --out"
                )

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Keeps finished episodes."""
        with self.path.open("a", encoding="utf-8") as stream:
            for outcome in outcomes:
                self.outcomes[outcome.seed] = outcome
                stream.write(json.dumps(asdict(outcome)) + "\n")

    def jobs(self, seeds: Sequence[int]) -> list[tuple[Conditions, Variant, tuple[int, ...]]]:
        """What is left to run, in pieces."""
        left = self.missing(seeds)
        groups = [tuple(left[i : i + _GROUP]) for i in range(0, len(left), _GROUP)]
        return [(self._conditions, self._variant, group) for group in groups]

    def _read(self) -> None:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        try:
            self.facts = json.loads(lines[0])
            # A line that was cut by a crash is an episode that has not been run.
            rows = [json.loads(line) for line in lines[1:] if line.endswith("}")]
            outcomes = [Outcome(**row) for row in rows]
        except (IndexError, ValueError, TypeError) as error:
            raise UsageError(f"{self.path}: not a file of episodes ({error})") from error
        self.outcomes = {outcome.seed: outcome for outcome in outcomes}


def run_trials(
    trials: Sequence[Trial], seeds: Sequence[int], processes: int
) -> Iterator[tuple[Trial, list[Outcome]]]:
    """Runs what the trials lack and yields it as it is added to them.

    Episodes draw all their numbers from their seed, so they do not depend on the number of
    processes.
    """
    jobs = [(trial, job) for trial in trials for job in trial.jobs(seeds)]
    if processes == 1:
        for trial, job in jobs:
            outcomes = run_job(*job)
            trial.add(outcomes)
            yield trial, outcomes
        return
    # A fresh interpreter each: OpenGL and torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = {pool.submit(run_job, *job): trial for trial, job in jobs}
        try:
            for future in as_completed(futures):
                outcomes = future.result()
                futures[future].add(outcomes)
                yield futures[future], outcomes
        finally:
            pool.shutdown(cancel_futures=True)


def run_job(conditions: Conditions, variant: Variant, seeds: Sequence[int]) -> list[Outcome]:
    """Runs episodes with the policy that this process had before, if it is the same."""
    policy = _policy(conditions.model, variant.label)
    with SimWorld(conditions.task) as world:
        results = evaluate(world, policy, conditions.task, seeds, conditions.settings())
        return [_outcome(result) for result in results]


@lru_cache(maxsize=1)
def _policy(model: str, label: str) -> Policy:
    options = Variant.parse("" if label == "exact" else label).options
    # One thread each, unless told otherwise: trials are many processes.
    return Variant({"threads": 1} | options).load(Path(model))


def _outcome(result: EpisodeResult) -> Outcome:
    times = result.inference_s
    return Outcome(
        seed=result.seed,
        success=result.success,
        seconds=round(result.seconds, 6),
        refused=result.refused,
        inference_ms=round(1e3 * sum(times) / max(len(times), 1), 3),
    )
