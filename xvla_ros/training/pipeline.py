"""From nothing to a model folder: demonstrations, training with corrections, checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xvla_ros.model.domain import BRIDGE
from xvla_ros.training.collect import Workers, split
from xvla_ros.training.folder import write_folder
from xvla_ros.training.recipe import INSTRUCTIONS, Recipe
from xvla_ros.training.samples import Samples, draw_batch
from xvla_ros.training.trainer import Trainer

LOG = logging.getLogger("xvla.training")

# Training seeds start here, away from the small numbers that people evaluate with.
FIRST_SEED = 100_000
_ROUND_SEEDS = 10_000
_LOG_EVERY = 50
_SAVE_EVERY = 200

Progress = Callable[[str, int, int], None]
"""Told of every bit of work: what, how much of it is done, how much there is."""


@dataclass(frozen=True)
class History:
    """What happened during a training, for the model card."""

    pictures: int
    expert_pictures: int
    parameters: int
    steps: int
    collection_s: float
    training_s: float
    loss: dict[str, float]
    """Mean of each term over the last steps."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Pipeline:
    """One training run into a folder.

    Recordings lie in `<cache>` and are used again when the same run is repeated after an
    interruption.
    """

    def __init__(
        self, out: Path, cache: Path, recipe: Recipe, processes: int, progress: Progress
    ) -> None:
        self._out = out
        self._cache = cache
        self._recipe = recipe
        self._workers = Workers(processes)
        self._progress = progress
        self._parts: list[Samples] = []
        self._samples: Samples

    def run(self) -> History:
        """Records, trains, and leaves the checkpoint in the folder."""
        recipe = self._recipe
        started = time.perf_counter()
        prepare_folder(self._out, recipe)
        try:
            self._demonstrate()
            collected = time.perf_counter()
            expert_pictures = len(self._samples)
            trainer, loss = self._train()
        finally:
            self._workers.close()
        trainer.save(self._out)
        history = History(
            pictures=len(self._samples),
            expert_pictures=expert_pictures,
            parameters=sum(p.numel() for p in trainer.average.parameters()),
            steps=trainer.steps,
            collection_s=collected - started,
            training_s=time.perf_counter() - collected,
            loss=loss,
        )
        return history

    def _demonstrate(self) -> None:
        """Records the expert's episodes and waits for all of them."""
        count = self._recipe.collection.expert_episodes
        seeds = range(FIRST_SEED, FIRST_SEED + count)
        jobs = split(
            self._out,
            seeds,
            self._recipe.cameras,
            self._cache,
            "expert",
            per_job=self._recipe.collection.per_job,
        )
        for done, future in enumerate(self._workers.start(jobs), 1):
            self._parts.append(Samples.load(future.result()))
            self._progress("demonstrations", done, len(jobs))
        self._join()

    def _train(self) -> tuple[Trainer, dict[str, float]]:
        """All steps, with a round of corrections now and then."""
        recipe, plan = self._recipe, self._recipe.collection
        settings = recipe.optimisation
        trainer = Trainer(self._out, settings, recipe.seed, self._samples.labels)
        rng = np.random.default_rng(recipe.seed)
        waiting: dict[int, list[Future[Path]]] = {}
        recent: list[dict[str, float]] = []
        for step in range(settings.steps):
            if step in plan.rounds:
                waiting[step + plan.round_delay] = self._correct(trainer, step)
            if step in waiting:
                self._parts += [Samples.load(future.result()) for future in waiting.pop(step)]
                self._join()
            batch = draw_batch(
                self._samples, settings.batch, recipe.task_weights, settings.light_jitter, rng
            )
            recent = [*recent[-_LOG_EVERY + 1 :], trainer.step(batch)]
            if trainer.steps % _LOG_EVERY == 0:
                LOG.info("step %d of %d: %s", trainer.steps, settings.steps, _text(recent))
            if trainer.steps % _SAVE_EVERY == 0:
                trainer.save(self._out)
            self._progress("training", trainer.steps, settings.steps)
        return trainer, _mean(recent)

    def _correct(self, trainer: Trainer, step: int) -> list[Future[Path]]:
        """Lets the present policy loose in the background."""
        plan = self._recipe.collection
        frozen = self._cache / f"policy-{step:05d}"
        prepare_folder(frozen, self._recipe)
        trainer.save(frozen)
        first = FIRST_SEED + _ROUND_SEEDS * (1 + plan.rounds.index(step))
        seeds = range(first, first + plan.round_episodes)
        jobs = split(
            frozen,
            seeds,
            self._recipe.cameras,
            self._cache,
            f"round-{step:05d}",
            per_job=plan.per_job,
            policy_drives=True,
        )
        return self._workers.start(jobs)

    def _join(self) -> None:
        self._samples = Samples.concatenate(self._parts)
        self._parts = [self._samples]
        LOG.info("%d labelled pictures", len(self._samples))


def prepare_folder(folder: Path, recipe: Recipe) -> None:
    """Everything of a model folder but the weights."""
    sentences = [sentence for group in INSTRUCTIONS.values() for sentence in group]
    write_folder(folder, recipe.network, sentences, {"domains": [asdict(BRIDGE)]})


def _mean(terms: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([term[name] for term in terms])) for name in terms[0]}


def _text(terms: list[dict[str, float]]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in _mean(terms).items())
