"""A policy that keeps what it is asked."""

from __future__ import annotations

from typing import Any

from xvla_ros.runtime.interface import Policy, PolicyInput, Prediction


class Enough(Exception):
    """As many observations as were wanted are there."""


class Capture:
    """Answers as another policy does, until it has seen enough.

    Attributes:
        seen: the observations.
    """

    def __init__(self, policy: Policy, count: int) -> None:
        self._policy = policy
        self._count = count
        self.seen: list[PolicyInput] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def predict(self, inputs: PolicyInput) -> Prediction:
        """The other policy's prediction; raises Enough after the last one."""
        if len(self.seen) == self._count:
            raise Enough
        self.seen.append(inputs)
        return self._policy.predict(inputs)
