"""An evaluation of many bags: taken up where it was left, in parallel, and put together."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from xvla_ros import __version__
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.aggregate import Figures, quantiles, summary_of_bag, summary_of_methods
from xvla_ros.evaluation.bag.files import BagFiles
from xvla_ros.evaluation.bag_job import FAILED, BagJob
from xvla_ros.evaluation.bag_settings import ModelOptions, Plan
from xvla_ros.evaluation.table import SCHEMA, join, schema
from xvla_ros.runtime.interface import Policy

SUMMARY, TIMING, PREDICTIONS, PARTS = (
    "summary.json",
    "timing.json",
    "predictions.parquet",
    "parts",
)
_FINGERPRINT = "run.json"
# What a process needs beside twice its weights: interpreter, torch, buffers.
_PROCESS_BYTES = 600 << 20
_SAMPLE_S = 0.2
_LIBRARIES = ("numpy", "torch", "opencv-python-headless", "rosbags", "Pillow")

Progress = Callable[[str, float], None]
"""Told the name of a bag and which fraction of it is done."""


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


class BagRun:
    """One evaluation.

    Args:
        bags: see `files.find`.
        plan: see `bag_settings.plan`.
        out: folder of the result.
        fresh: do not go on with what an earlier run has left.
    """

    def __init__(
        self, bags: Sequence[BagFiles], plan: Plan, out: Path, *, fresh: bool = False
    ) -> None:
        self._bags = sorted(bags, key=lambda bag: bag.name)
        self._plan = plan
        self._out = out
        self._fresh = fresh
        self._jobs = {
            bag.name: BagJob(bag, out / PARTS / hashlib.sha256(bag.name.encode()).hexdigest()[:12])
            for bag in self._bags
        }

    def run(self, jobs: int | None, progress: Progress) -> dict[str, Any]:
        """Evaluates all bags, writes the result and returns the summary.

        Args:
            jobs: processes; None takes as many as cores, bags and memory allow.
            progress: called from this thread.

        Raises:
            UsageError: parts of another evaluation are in the way.
            CheckpointError, DeviceError: the policy cannot be loaded.
        """
        start = time.perf_counter()
        policy = load(self._plan.model)
        facts = ModelFacts.of(policy, self._plan.model.folder)
        self._prepare(facts)
        entries = {name: done for name, job in self._jobs.items() if (done := job.done)}
        for name in entries:
            progress(name, 1.0)
        todo = [bag for bag in self._bags if bag.name not in entries]
        count = jobs or _affordable(self._plan.model, len(todo), facts.device)
        if count > 1 and len(todo) > 1:
            policy.close()
            entries |= self._run_pool(todo, min(count, len(todo)), progress)
        else:
            count = 1
            for bag in todo:
                entries[bag.name] = self._run_here(policy, bag, progress)
            policy.close()
        summary = self._finish(facts, [entries[bag.name] for bag in self._bags])
        self._write_timing(time.perf_counter() - start, count)
        shutil.rmtree(self._out / PARTS)
        return summary

    def _prepare(self, facts: ModelFacts) -> None:
        """Makes sure that parts of an earlier run belong to the same evaluation."""
        parts = self._out / PARTS
        fingerprint = json.dumps(
            {
                "model": asdict(facts),
                "plan": asdict(replace(self._plan, model=ModelOptions(Path()))),
                "bags": {bag.name: bag.size for bag in self._bags},
            },
            sort_keys=True,
            default=str,
        )
        path = parts / _FINGERPRINT
        if parts.exists() and not self._fresh:
            if path.is_file() and path.read_text(encoding="utf-8") == fingerprint:
                return
            raise UsageError(
                f"{parts} holds an unfinished evaluation with other bags, model or parameters: "
                "choose another --out, or discard it with --fresh"
            )
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        path.write_text(fingerprint, encoding="utf-8")

    def _run_here(self, policy: Policy, bag: BagFiles, progress: Progress) -> dict[str, Any]:
        entry = self._jobs[bag.name].run(policy, self._plan, lambda f: progress(bag.name, f))
        progress(bag.name, 1.0)
        return entry

    def _run_pool(
        self, todo: Sequence[BagFiles], count: int, progress: Progress
    ) -> dict[str, dict[str, Any]]:
        context = get_context("spawn")
        shares = {bag.name: context.Value("d", 0.0) for bag in todo}
        threads = self._plan.model.threads or max(1, (os.cpu_count() or 1) // count)
        plan = replace(self._plan, model=replace(self._plan.model, threads=threads))
        entries: dict[str, dict[str, Any]] = {}
        with ProcessPoolExecutor(count, context, _begin_worker, (plan, shares)) as pool:
            futures: dict[Future[dict[str, Any]], str] = {
                pool.submit(_work, self._jobs[bag.name], bag.name): bag.name for bag in todo
            }
            try:
                left = set(futures)
                while left:
                    done, left = wait(left, _SAMPLE_S, FIRST_COMPLETED)
                    for name, share in shares.items():
                        progress(name, share.value)
                    for future in done:
                        entries[futures[future]] = future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in (pool._processes or {}).values():
                    process.terminate()
                raise
        return entries

    def _finish(self, facts: ModelFacts, entries: list[dict[str, Any]]) -> dict[str, Any]:
        kind = schema(facts.horizon, facts.step_dt)
        path = self._out / PREDICTIONS
        join((self._jobs[bag.name].parts() for bag in self._bags), path, kind)
        table = pq.read_table(path, columns=list(Figures.COLUMNS))
        figures = Figures(table, facts.horizon, facts.step_dt)
        settings = self._plan.settings
        bags = [summary_of_bag(figures, entry) for entry in entries]
        summary = {
            "schema": SCHEMA,
            "kind": "bag",
            "versions": versions(),
            "model": asdict(facts),
            "settings": {
                "seeds": settings.seeds,
                "seed": settings.seed,
                "policy_rate_hz": settings.policy_rate_hz,
                "baselines": settings.baselines,
                "instruction": settings.instruction or None,
            },
            "parameters": self._plan.values,
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
        write_json(self._out / SUMMARY, summary)
        return summary

    def _write_timing(self, wall_s: float, jobs: int) -> None:
        table = pq.read_table(self._out / PREDICTIONS, columns=["network_ms", "overhead_ms"])
        figures = {
            name: quantiles(np.array(table[name].to_pylist(), dtype=np.float64))
            for name in ("network_ms", "overhead_ms")
        }
        write_json(self._out / TIMING, {**figures, "wall_s": round(wall_s, 3), "jobs": jobs})


def write_json(path: Path, content: dict[str, Any]) -> None:
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


def load(model: ModelOptions) -> Policy:
    """The policy, warm."""
    from xvla_ros.runtime.policy import load_policy

    policy = load_policy(
        model.folder,
        device=model.device,
        domain_id=model.domain_id,
        steps=model.steps,
        dtype=model.dtype,
        threads=model.threads,
    )
    policy.warm_up()
    return policy


def _affordable(model: ModelOptions, bags: int, device: str) -> int:
    """Processes for which there are bags, cores and memory; an accelerator has room for one."""
    if not device.startswith("cpu"):
        return 1
    weights = sum(path.stat().st_size for path in model.folder.glob("*.safetensors"))
    by_memory = _available_bytes() // (2 * weights + _PROCESS_BYTES)
    return max(1, min(bags, os.cpu_count() or 1, by_memory))


def _available_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


# What a process of the pool keeps from bag to bag.
_worker: dict[str, Any] = {}


def _begin_worker(plan: Plan, shares: dict[str, Any]) -> None:
    # Ctrl-C reaches the whole process group; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker.update(plan=plan, shares=shares, policy=load(plan.model))


def _work(job: BagJob, name: str) -> dict[str, Any]:
    share = _worker["shares"][name]

    def progress(fraction: float) -> None:
        share.value = fraction

    entry = job.run(_worker["policy"], _worker["plan"], progress)
    share.value = 1.0
    return entry
