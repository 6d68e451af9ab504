"""Recording jobs: each runs in a process of its own and leaves one file of samples."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from xvla_ros.training.samples import Samples


@dataclass(frozen=True)
class Job:
    """Episodes to record.

    Every episode has random numbers of its own, so the samples do not depend on how episodes are
    spread over jobs.
    """

    folder: Path
    """Model folder: image size, horizon and domain; the weights too when the policy drives."""
    episodes: tuple[int, ...]
    """Seeds."""
    cameras: tuple[str, ...]
    file: Path
    """Where the samples go; a file that is there already is kept as it is."""
    policy_drives: bool = False
    """The policy of `folder` acts and the expert corrects; else the expert demonstrates."""


def record(job: Job) -> Path:
    """Runs a job; returns its file."""
    # Imported here: MuJoCo and torch belong to the worker, not to whoever hands out jobs.
    from xvla_ros.sim.world import SimWorld
    from xvla_ros.training.corrections import correct
    from xvla_ros.training.demonstrations import demonstrate

    if job.file.exists():
        return job.file
    world = SimWorld()
    try:
        run = correct if job.policy_drives else demonstrate
        parts = run(world, job.folder, job.episodes, job.cameras)
    finally:
        world.close()
    job.file.parent.mkdir(parents=True, exist_ok=True)
    Samples.concatenate(parts).save(job.file)
    return job.file


def split(
    folder: Path,
    seeds: Sequence[int],
    cameras: tuple[str, ...],
    cache: Path,
    name: str,
    *,
    per_job: int,
    policy_drives: bool = False,
) -> list[Job]:
    """Jobs of `per_job` episodes with files `<cache>/<name>-<first seed>.npz`."""
    groups = [tuple(seeds[i : i + per_job]) for i in range(0, len(seeds), per_job)]
    return [
        Job(folder, group, cameras, cache / f"{name}-{group[0]:06d}.npz", policy_drives)
        for group in groups
    ]


class Workers:
    """A few recording processes."""

    def __init__(self, processes: int) -> None:
        # A fresh interpreter each: OpenGL and torch's threads do not survive a fork.
        self._pool = ProcessPoolExecutor(
            processes,
            mp_context=multiprocessing.get_context("spawn"),
            # Recordings made beside the training must not hold it up.
            initializer=os.nice,
            initargs=(5,),
        )

    def start(self, jobs: Sequence[Job]) -> list[Future[Path]]:
        """Queues jobs; the results are their files."""
        return [self._pool.submit(record, job) for job in jobs]

    def close(self) -> None:
        """Drops what has not begun and waits for the rest."""
        self._pool.shutdown(wait=True, cancel_futures=True)
