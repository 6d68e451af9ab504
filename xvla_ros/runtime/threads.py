"""How many CPU threads a network is given: the fewest that are about as fast as any.

More threads than physical cores wait for one another, a small network gains nothing from a second
one, and the command stream needs a core as well. What is best depends on machine and network, so
it is measured where it runs.
"""

from __future__ import annotations

from collections.abc import Callable

# So much slower than the fastest is as fast, for one thread less.
_MARGIN = 0.05
_REPEATS = 3
# Work that has taken so many seconds is not repeated: pauses of the machine are short beside it.
_LONG_S = 0.5
# With so much more time than the best, fewer threads are not worth trying.
_HOPELESS = 1.5


def halvings(most: int) -> list[int]:
    """Numbers of threads to try, the largest first: 12, 6, 3, 1."""
    tried = [max(most, 1)]
    while tried[-1] > 1:
        tried.append(tried[-1] // 2)
    return tried


def times_by_threads(
    most: int,
    use: Callable[[int], None],
    work: Callable[[], object],
    clock: Callable[[], float],
) -> dict[int, float]:
    """Seconds of some work by number of threads, the best of three if it is short.

    Args:
        most: the largest number that is tried.
        use: sets the number.
        work: is done once for each number before it is timed: libraries prepare themselves.
        clock: seconds.
    """
    found: dict[int, float] = {}
    for threads in halvings(most):
        use(threads)
        work()
        found[threads] = _best(work, clock)
        if found[threads] > _HOPELESS * min(found.values()):
            break
    return found


def fewest_threads(seconds: dict[int, float]) -> int:
    """The smallest number of threads whose time is within 5 % of the best."""
    enough = (1.0 + _MARGIN) * min(seconds.values())
    return min(threads for threads, time in seconds.items() if time <= enough)


def describe_times(seconds: dict[int, float]) -> str:
    """`1, of a denoising step in 3.1 ms (1), 3.0 ms (2)`: what was chosen and why."""
    each = ", ".join(f"{1e3 * time:.1f} ms ({n})" for n, time in sorted(seconds.items()))
    return f"{fewest_threads(seconds)}, of a denoising step in {each}"


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    taken: list[float] = []
    while len(taken) < _REPEATS and sum(taken) < _LONG_S:
        start = clock()
        work()
        taken.append(clock() - start)
    return min(taken)
