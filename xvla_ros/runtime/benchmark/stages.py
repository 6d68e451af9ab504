"""Where the time of a prediction goes, by stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xvla_ros.runtime.benchmark.work import DENOISING, IMAGE, TEXT
from xvla_ros.runtime.device import Device
from xvla_ros.runtime.policy import LocalPolicy

PREPARATION, POST = "image_preparation", "post_processing"
STAGES = (PREPARATION, IMAGE, TEXT, DENOISING, POST)
REST = "rest"
"""What is between the stages."""


class StageClock:
    """Adds up the time spent in each stage; the device is waited for before and after."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)

    def reset(self) -> None:
        """Begins anew."""
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def attached(self, policy: LocalPolicy) -> Iterator[StageClock]:
        """While inside, the stages of this policy are timed."""
        model = policy.model
        places: list[tuple[str, Any, str]] = [
            (PREPARATION, policy.processor, "images"),
            (IMAGE, model.vlm, "image_features"),
            (TEXT, model.vlm.language_model.model.encoder, "forward"),
            (DENOISING, model, "generate_actions"),
            (POST, policy.domain, "decode_actions"),
        ]
        try:
            for name, owner, attribute in places:
                # Into the instance: its class goes on as it is.
                owner.__dict__[attribute] = self._timed(name, getattr(owner, attribute))
            yield self
        finally:
            for _, owner, attribute in places:
                owner.__dict__.pop(attribute, None)

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._device.synchronize()
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._device.synchronize()
                self.seconds[name] += time.perf_counter() - start

        return timed
