"""Many random sequences, in several processes, put together."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Any

from xvla_ros.evaluation.result import versions
from xvla_ros.evaluation.soak.journal import Journal
from xvla_ros.evaluation.soak.sequence import SECONDS, Outcome, Sequence
from xvla_ros.scheduler.params import STRATEGIES

_BLOCK = 250
# Seeds of bad sequences that a result names.
_NAMED = 20

Progress = Callable[[int], None]
"""Told how many sequences are done."""


def play(first: int, count: int) -> Outcome:
    """The sequences of `count` seeds from `first` on."""
    total = Outcome()
    for seed in range(first, first + count):
        total.add(Sequence(seed).run())
    return total


def run(
    first: int, count: int, jobs: int, journal: Journal, progress: Progress | None = None
) -> dict[str, Any]:
    """Plays the sequences of `count` seeds and says what came of them, for JSON.

    Args:
        first: seed of the first sequence.
        count: number of sequences.
        jobs: processes.
        journal: has what was played before, and gets what is played.
        progress: called in this process.
    """
    blocks = [
        (start, min(_BLOCK, first + count - start)) for start in range(first, first + count, _BLOCK)
    ]
    todo = [block for block in blocks if block not in journal.blocks]
    done = count - sum(size for _, size in todo)
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        futures = {pool.submit(play, *block): block for block in todo}
        try:
            left = set(futures)
            while left:
                ready, left = wait(left, return_when=FIRST_COMPLETED)
                for future in ready:
                    journal.add(*futures[future], future.result())
                    done += futures[future][1]
                    if progress is not None:
                        progress(done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    total = Outcome()
    for block in blocks:
        total.add(journal.blocks[block])
    return to_dict(total, first, count)


def to_dict(total: Outcome, first: int, count: int) -> dict[str, Any]:
    """For JSON."""
    found = total.findings
    return {
        "sequences": count,
        "seconds_each": SECONDS,
        "through_limits_and_kinematics": total.with_arm,
        "first_seed": first,
        "strategies": list(STRATEGIES),
        "commands": found.commands,
        "published": found.published,
        "violations": dict(found.violations),
        "bad_seeds": sorted(total.bad)[:_NAMED],
        "worst_fraction_of_bound": dict(sorted(found.worst.items())),
        "largest_splice_step_m": total.splice_m,
        "largest_splice_step_rad": total.splice_rad,
        "chunks_accepted": total.accepted,
        "chunks_refused": dict(total.refused.most_common()),
        "limits_acted": dict(total.limited.most_common()),
        "events": dict(total.events.most_common()),
        "versions": versions(),
    }
