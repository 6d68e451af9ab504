"""An evaluation of many bags: taken up where it was left, in parallel, and put together."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.files import BagFiles
from xvla_ros.evaluation.bag_job import BagJob
from xvla_ros.evaluation.bag_settings import ModelOptions, Plan
from xvla_ros.evaluation.open_loop import OpenLoop
from xvla_ros.evaluation.result import ModelFacts, write_result, write_timing
from xvla_ros.runtime.interface import Policy

PARTS = "parts"
_FINGERPRINT = "run.json"
# What a process needs beside twice its weights: interpreter, torch, buffers.
_PROCESS_BYTES = 600 << 20
_SAMPLE_S = 0.2

Progress = Callable[[str, float], None]
"""Told the name of a bag and which fraction of it is done."""


class BagRun:
    """One evaluation.

    Args:
        bags: see `files.find`.
        plan: see `bag_settings.plan`.
        out: folder of the result.
        fresh: do not go on with what an earlier run has left.
        kind: of the result, as the summary names it.
        engine: see `BagJob`; another one than the default works in this process alone.
    """

    def __init__(
        self,
        bags: Sequence[BagFiles],
        plan: Plan,
        out: Path,
        *,
        fresh: bool = False,
        kind: str = "bag",
        engine: Callable[..., OpenLoop] = OpenLoop,
    ) -> None:
        self._kind = kind
        self._bags = sorted(bags, key=lambda bag: bag.name)
        self._plan = plan
        self._out = out
        self._fresh = fresh
        self._resident: list[float] = []
        self._jobs = {
            bag.name: BagJob(bag, out / PARTS / _part_name(bag.name), engine) for bag in self._bags
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
        write_timing(self._out, time.perf_counter() - start, count, self._resident)
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
        self._resident.append(_resident_mb())
        progress(bag.name, 1.0)
        return entry

    def _run_pool(
        self, todo: Sequence[BagFiles], count: int, progress: Progress
    ) -> dict[str, dict[str, Any]]:
        context = get_context("spawn")
        shares = {bag.name: context.Value("d", 0.0) for bag in todo}
        model = self._plan.model
        threads = model.options.get("threads") or max(1, (os.cpu_count() or 1) // count)
        shared = replace(model, options={**model.options, "threads": threads})
        plan = replace(self._plan, model=shared)
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
        settings = self._plan.settings
        return write_result(
            self._out,
            self._kind,
            facts,
            entries,
            (self._jobs[bag.name].parts() for bag in self._bags),
            settings={
                "seeds": settings.seeds,
                "seed": settings.seed,
                "policy_rate_hz": settings.policy_rate_hz,
                "baselines": settings.baselines,
                "instruction": settings.instruction or None,
            },
            parameters=self._plan.values,
        )


def _part_name(bag: str) -> str:
    return hashlib.sha256(bag.encode()).hexdigest()[:12]


def load(model: ModelOptions) -> Policy:
    """The policy, warm."""
    from xvla_ros.runtime.policy import load_policy

    policy = load_policy(model.folder, **model.options)
    policy.warm_up()
    return policy


def _affordable(model: ModelOptions, bags: int, device: str) -> int:
    """Processes for which there are bags, cores and memory; an accelerator has room for one."""
    if not device.startswith("cpu"):
        return 1
    weights = sum(path.stat().st_size for path in model.folder.glob("*.safetensors"))
    by_memory = _available_bytes() // (2 * weights + _PROCESS_BYTES)
    return max(1, min(bags, os.cpu_count() or 1, by_memory))


def _resident_mb() -> float:
    """Memory that this process holds now; NaN where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return math.nan
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


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
