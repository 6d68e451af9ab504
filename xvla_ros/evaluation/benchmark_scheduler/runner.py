"""Runs the episodes of a benchmark, in several processes if wanted, and goes on where it ended."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.benchmark_scheduler.cases import NOISE, Benchmark, Case
from xvla_ros.evaluation.benchmark_scheduler.figures import FiguresProbe
from xvla_ros.evaluation.closed_loop import evaluate
from xvla_ros.evaluation.expert_policy import ExpertPolicy
from xvla_ros.runtime.interface import Policy
from xvla_ros.sim.world import SimWorld

EPISODES = "episodes.jsonl"
_FACTS = "facts.json"
# So many episodes per process wait in its queue: enough to keep it busy, few to take back.
_AHEAD = 2

Record = dict[str, Any]
"""One episode: the fields of Case, of EpisodeResult and of Figures."""


class Laboratory:
    """A world and a policy in which cases are run one after the other."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark
        self._world = SimWorld()
        self._policy: Policy = (
            ExpertPolicy(self._world, NOISE) if benchmark.model is None else load(benchmark)
        )

    def run(self, case: Case) -> Record:
        """The figures of one case."""
        probe = FiguresProbe(self._benchmark.contender(case).make)
        begun = time.perf_counter()
        (result,) = evaluate(
            self._world,
            self._policy,
            case.task,
            [case.seed],
            self._benchmark.settings(case),
            probe=probe,
        )
        found = asdict(result)
        del found["inference_s"]
        wall = round(time.perf_counter() - begun, 3)
        return {**case._asdict(), **found, **asdict(probe.figures()), "wall_s": wall}

    def close(self) -> None:
        """Frees what the policy and the pictures hold."""
        self._policy.close()
        self._world.close()


def load(benchmark: Benchmark) -> Policy:
    """The policy of a model folder, on one thread: episodes are what runs side by side."""
    from xvla_ros.runtime.policy import load_policy

    if benchmark.model is None:
        raise ValueError("the scripted policy has no folder")
    options: dict[str, Any] = {"threads": 1, **dict(benchmark.options)}
    return load_policy(benchmark.model, **options)


def model_hash(benchmark: Benchmark) -> str:
    """Of the policy's weights; empty without any.

    Raises:
        CheckpointError, DeviceError: the policy cannot be loaded.
    """
    if benchmark.model is None:
        return ""
    policy = load(benchmark)
    try:
        return policy.model_hash
    finally:
        policy.close()


class Journal:
    """The episodes that are done, in a file that a repetition of the command goes on from.

    Args:
        out: folder of the result.
        facts: of the benchmark; others in the folder are in the way.
        fresh: forgets what is in the folder.

    Raises:
        UsageError: the folder holds episodes of another policy or of other code.
    """

    def __init__(self, out: Path, facts: dict[str, Any], *, fresh: bool = False) -> None:
        self._path = out / EPISODES
        path, text = out / _FACTS, json.dumps(facts, indent=1) + "\n"
        out.mkdir(parents=True, exist_ok=True)
        if fresh:
            self._path.unlink(missing_ok=True)
        elif self._path.exists() and (not path.is_file() or path.read_text("utf-8") != text):
            raise UsageError(
                f"{self._path} holds episodes of another policy or of other code: choose another "
                "--out, or discard them with --fresh"
            )
        path.write_text(text, encoding="utf-8")
        self.records = {_case(record): record for record in self._read()}
        # Without what was being written when the process was ended.
        lines = "".join(json.dumps(record) + "\n" for record in self.records.values())
        self._path.write_text(lines, encoding="utf-8")

    def _read(self) -> list[Record]:
        if not self._path.is_file():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("}\n")]

    def add(self, record: Record) -> None:
        """Keeps one more."""
        self.records[_case(record)] = record
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _case(record: Record) -> Case:
    return Case(*(record[name] for name in Case._fields))


def run(
    benchmark: Benchmark,
    todo: Sequence[Case],
    jobs: int,
    done: Callable[[Record], None],
) -> None:
    """Runs cases, and tells of each when it is done.

    Args:
        benchmark: that they belong to.
        todo: what to run.
        jobs: processes; one is this one.
        done: called in this thread.
    """
    if jobs == 1 or len(todo) < 2:
        laboratory = Laboratory(benchmark)
        try:
            for case in todo:
                done(laboratory.run(case))
        finally:
            laboratory.close()
        return
    context = get_context("spawn")
    waiting = iter(todo)
    with ProcessPoolExecutor(jobs, context, _begin_worker, (benchmark,)) as pool:
        flying: set[Future[Record]] = set()
        try:
            while True:
                while len(flying) < _AHEAD * jobs and (following := next(waiting, None)):
                    flying.add(pool.submit(_work, following))
                if not flying:
                    break
                finished, flying = wait(flying, return_when=FIRST_COMPLETED)
                for future in finished:
                    done(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in (pool._processes or {}).values():
                process.terminate()
            raise


# What a process of the pool keeps from case to case.
_worker: dict[str, Laboratory] = {}


def _begin_worker(benchmark: Benchmark) -> None:
    # Ctrl-C reaches the whole process group; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker["laboratory"] = Laboratory(benchmark)


def _work(case: Case) -> Record:
    return _worker["laboratory"].run(case)
