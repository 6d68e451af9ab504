"""One policy measured: calls, stages, arithmetic, and the matrix products it is made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from xvla_ros.geometry import Pose
from xvla_ros.runtime.benchmark.gemm_rate import Layer, measure_rates, plain
from xvla_ros.runtime.benchmark.operators import operator_times
from xvla_ros.runtime.benchmark.samples import figures
from xvla_ros.runtime.benchmark.work import Work, exact_work, published_work
from xvla_ros.runtime.interface import PolicyInput, Prediction
from xvla_ros.runtime.policy import LocalPolicy, load_policy
from xvla_ros.runtime.stages import NETWORK, STAGES, StageClock, untimed

Progress = Callable[[int, int], None]
"""Told how many shapes of how many have been measured."""
_SIDES = (480, 640)
INSTRUCTION = "put the spoon on the towel"


class Observations:
    """Random pictures as a camera of 640x480 gives them; each call has new ones, unless cached."""

    def __init__(self, views: int, fresh: bool = True) -> None:
        self._views = views
        self._fresh = fresh
        self._count = 0

    def next(self) -> PolicyInput:
        """The next observation."""
        self._count += 1
        rng = np.random.default_rng(self._count if self._fresh else 0)
        pictures = tuple(rng.integers(0, 256, (*_SIDES, 3), np.uint8) for _ in range(self._views))
        return PolicyInput(pictures, Pose.identity(), INSTRUCTION, self._count)


@dataclass(frozen=True, eq=False)
class Call:
    """One prediction."""

    seconds: float
    stages: dict[str, float]


class ModelRun:
    """Calls of a policy, one at a time, so that another network can be called between two.

    Args:
        folder: of the model.
        options: for `load_policy`.
        views: pictures of an observation.
        cached: the same pictures at every call, and what the policy keeps of them.
    """

    def __init__(
        self, folder: Path, options: Mapping[str, Any], views: int, cached: bool = False
    ) -> None:
        self.policy: LocalPolicy = load_policy(folder, view_cache=cached, **options)
        self.folder = folder
        self.views = views
        self.observations = Observations(views, fresh=not cached)
        self.first: Call | None = None
        self.calls: list[Call] = []
        # Hashing the file must not go on beside what is measured.
        self.model_hash = self.policy.model_hash

    def call(self, inputs: PolicyInput | None = None) -> Prediction:
        """One prediction; the time of the first one is kept apart."""
        observation = inputs or self.observations.next()
        clock = StageClock(self.policy.target.synchronize)
        self.policy.time_stages(clock)
        start = time.perf_counter()
        prediction = self.policy.predict(observation)
        call = Call(time.perf_counter() - start, clock.seconds)
        self.policy.time_stages(untimed)
        if self.first is None:
            self.first = call
        else:
            self.calls.append(call)
        return prediction

    def profile(self) -> dict[str, Any]:
        """Shares of torch's operators in one more call."""
        return operator_times(lambda: self.policy.predict(self.observations.next()))

    def work(self) -> tuple[Work, Work]:
        """Arithmetic of one call: of the published code, and of what the numbers need."""
        config, size = self.policy.model.config, self.policy.processor.image_size
        steps = len(self.policy.time_grid)
        arguments = (config, size, self.views, self.policy.num_views)
        return published_work(*arguments, steps), exact_work(*arguments, steps)

    def to_dict(self, rates: bool, progress: Progress) -> dict[str, Any]:
        """All figures; `rates` measures the machine's matrix products, too."""
        assert self.first is not None
        published, exact = self.work()
        gflop = exact.gflop()
        network = [sum(call.stages[name] for name in NETWORK) for call in self.calls]
        found: dict[str, Any] = {
            "approximation": self.policy.approximation,
            "time_grid": list(self.policy.time_grid),
            "first_call_s": self.first.seconds,
            "chunk_s": figures([call.seconds for call in self.calls]),
            "stages_s": {
                name: figures([call.stages[name] for call in self.calls]) for name in STAGES
            },
            "network_s": figures(network),
            "gflop": gflop,
            "gflop_published": published.gflop(),
        }
        if rates:
            seconds = found["network_s"]["median"]
            found["gemm"] = self._rates(exact, seconds, plain, progress)
            own: Any = type(self.policy.model.transformer.blocks[-1].mlp.fc2)  # type: ignore[union-attr]
            if own is not nn.Linear:
                found["gemm_own_layers"] = self._rates(exact, seconds, own, progress)
        return found

    def _rates(
        self, work: Work, seconds: float, layer: Layer, progress: Progress
    ) -> dict[str, Any]:
        """Rates of all shapes with linear layers of one kind, and what of them is reached."""
        policy = self.policy
        dtype = policy.options.torch_dtype
        rates = measure_rates(work.gemms(), policy.target, dtype, layer, progress=progress)
        achieved = rates.gflop / seconds
        return rates.to_dict() | {
            "dtype": policy.options.dtype,
            "stages_s": {name: rates.seconds_of(gemms) for name, gemms in work.stages.items()},
            "linear": "torch.nn.Linear" if layer is plain else layer.__name__,
            "achieved_gflop_per_s": achieved,
            "fraction": achieved / rates.gflop_per_s,
        }
