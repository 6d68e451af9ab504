"""Observes, predicts and publishes while the policy node is active.

The executor's thread asks and the inference thread answers. What has been asked for before a
deactivation, or under another instruction, is never published.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rclpy.impl.rcutils_logger import RcutilsLogger

from xvla_ros.chunk import ChunkRefused
from xvla_ros.images import ImageError
from xvla_ros.msg import ActionChunk
from xvla_ros.nodes import conversions as convert
from xvla_ros.nodes.inference_worker import InferenceWorker
from xvla_ros.nodes.policy_inputs import AnyImage, PolicyInputs
from xvla_ros.nodes.policy_state import Assessment, Figures, PolicyState
from xvla_ros.observation import Observation
from xvla_ros.runtime.observer import Frames
from xvla_ros.runtime.prediction import Request, predict_chunk
from xvla_ros.streams import CLOCK_BACK_S

if TYPE_CHECKING:
    from xvla_ros.runtime.policy import Policy

_SEEDS = 2**31


@dataclass
class Settings:
    """What may change while the loop runs."""

    instruction: str
    seed: int
    inference_timeout_s: float


class PolicyLoop:
    """The loop of one configured policy.

    Args:
        policy: loaded in the worker's thread, and used only there.
        worker: owner of the device.
        inputs: what the policy may look at.
        frames: of the chunks.
        settings: may be changed by the caller at any time.
        clock: seconds on the ROS clock.
        publish: takes the finished message, in the worker's thread.
        logger: for what an operator should hear.
        network: seconds that the network has taken so far; None if nobody knows.
        sequence: of the last chunk that this process has published.
    """

    def __init__(
        self,
        policy: Policy,
        worker: InferenceWorker,
        inputs: PolicyInputs,
        frames: Frames,
        settings: Settings,
        clock: Callable[[], float],
        publish: Callable[[ActionChunk], None],
        logger: RcutilsLogger,
        network: Callable[[], float] | None = None,
        sequence: int = 0,
    ) -> None:
        self.policy = policy
        self.settings = settings
        self.figures = Figures()
        self.sequence = sequence
        self.proprio_source = inputs.proprio.params.source
        self._worker = worker
        self._inputs = inputs
        self._frames = frames
        self._clock = clock
        self._publish = publish
        self._logger = logger
        self._network = network
        self._state = PolicyState()
        self._active = False
        self._future: Future[None] | None = None
        self._started = 0.0
        # Guards what is decided in one thread and acted upon in the other.
        self._lock = threading.Lock()
        self._generation = 0

    def activate(self) -> None:
        """From now on observations become chunks."""
        self.figures = Figures()
        self._state = PolicyState()
        self._inputs.observer.restart()
        self._active = True

    def deactivate(self, timeout: float) -> bool:
        """No chunk is published after this; false if the inference still runs after `timeout` s."""
        with self._lock:
            self._active = False
            self._generation += 1
        return self._future is None or bool(wait([self._future], timeout).done)

    def tick(self) -> None:
        """The time for an inference has come."""
        self._inputs.observer.ask()
        wanted = self._active and bool(self.settings.instruction) and not self.busy
        if wanted and not self.try_start() and self._inputs.buffer.problems(self._clock()):
            self.figures.refused += 1

    def try_start(self) -> bool:
        """Starts an inference if one is due, none is running, and there is something to see."""
        generation = self._generation
        if not (self._active and self.settings.instruction) or self.busy:
            return False
        now, begun = self._clock(), time.perf_counter()
        observation = self._inputs.observer.look(now)
        if observation is None:
            return False
        seed = self.settings.seed
        request = self._inputs.observer.request(
            observation,
            now,
            policy=self.policy,
            instruction=self.settings.instruction,
            seed=random.randrange(_SEEDS) if seed < 0 else seed,
            sequence=self.sequence + 1,
            frames=self._frames,
        )
        with self._lock:
            # A deactivation, which comes from another thread, sees the inference or prevents it.
            if generation != self._generation:
                return False
            self._started = time.monotonic()
            self._future = self._worker.submit(
                lambda: self._infer(
                    observation, request, generation, now - observation.stamp, begun
                )
            )
        self.proprio_source = request.proprio.source
        return True

    @property
    def busy(self) -> bool:
        """Whether an inference is running."""
        return self._future is not None and not self._future.done()

    def assess(self, now: float) -> Assessment:
        """The state of the loop."""
        return self._state.assess(
            now,
            active=self._active,
            instruction=self.settings.instruction,
            problems=self._inputs.buffer.problems(now),
            inference_s=time.monotonic() - self._started if self.busy else 0.0,
            inference_timeout_s=self.settings.inference_timeout_s,
        )

    # Below is what the inference thread does.

    def _infer(
        self,
        observation: Observation[AnyImage],
        request: Request,
        generation: int,
        age: float,
        begun: float,
    ) -> None:
        from xvla_ros.runtime.policy import PredictionError

        start = time.perf_counter()
        before = 0.0 if self._network is None else self._network()
        try:
            seen = replace(request, images=self._inputs.observer.rgb(observation))
            chunk = predict_chunk(self.policy, seen, self._clock)
            message = convert.chunk_msg(chunk, self._inputs.stamps(observation))
        except (PredictionError, ChunkRefused, ImageError) as error:
            self._fail(str(error), str(error))
            return
        except Exception as error:
            summary = f"{type(error).__name__}: {error}"
            self._fail(summary, f"{summary}\n{traceback.format_exc()}")
            return
        self._state.error = ""
        with self._lock:
            current = generation == self._generation
            if not current or request.instruction != self.settings.instruction:
                return
            # The clock went back meanwhile (a bag that loops): what was seen lies in its future.
            if self._clock() < request.stamp - CLOCK_BACK_S:
                return
            self._publish(message)
            self.sequence = request.sequence
        end = time.perf_counter()
        self.figures.published(time.monotonic(), end - start, age)
        if self._network is not None:
            self.figures.beside(end - begun - (self._network() - before))

    def _fail(self, summary: str, details: str) -> None:
        """Notes why there is no chunk; the operator hears of each kind once."""
        if summary != self._state.error:
            self._logger.error(f"no chunk: {details}")
        self._state.error = summary
