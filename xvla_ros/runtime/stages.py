"""Names of the stages of a prediction, and how long each takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

PREPARATION = "image_preparation"
VISION = "davit"
TEXT = "text_encoder"
DENOISING = "denoising"
POST = "post_processing"
STAGES = (PREPARATION, VISION, TEXT, DENOISING, POST)
NETWORK = (VISION, TEXT, DENOISING)
"""Those of the network itself."""

Stages = Callable[[str], AbstractContextManager[None]]
"""What a policy enters a stage with."""


def untimed(_name: str) -> AbstractContextManager[None]:
    """Enters a stage that nobody measures."""
    return nullcontext()


class StageClock:
    """Adds up the seconds spent in each stage.

    Args:
        synchronize: waits for the device; called before and after every stage, so that a stage
            is charged what it started.
    """

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @property
    def network(self) -> float:
        """Seconds spent in the network so far."""
        return sum(self.seconds[name] for name in NETWORK)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Times what is inside."""
        self._synchronize()
        start = time.perf_counter()
        try:
            yield
        finally:
            self._synchronize()
            self.seconds[name] += time.perf_counter() - start
