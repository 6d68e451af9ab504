"""Blindfolds: does the policy act on what it sees?

A policy that succeeds with pictures of another episode, or with the mean of all pictures, has
learned a motion and not a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from xvla_ros.evaluation.closed_loop import Images, LoopSettings, Sight, evaluate
from xvla_ros.geometry import Pose
from xvla_ros.runtime.interface import Policy
from xvla_ros.sim.world import SimWorld

BLINDFOLDS = ("other", "mean")
"""Pictures of another episode in their order; the mean picture of each camera."""


class PictureBank:
    """The pictures of seeing episodes."""

    def __init__(self, episodes: Sequence[Sequence[Images]]) -> None:
        if not episodes or not all(episodes):
            raise ValueError("a bank of pictures needs at least one episode with a picture")
        self._episodes = episodes
        views = [
            [moment[view] for moments in episodes for moment in moments]
            for view in range(len(episodes[0][0]))
        ]
        self._mean: Images = tuple(_mean(pictures) for pictures in views)

    @staticmethod
    def record(
        world: SimWorld,
        policy: Policy,
        task: str,
        seeds: Iterable[int],
        settings: LoopSettings,
        limit_s: float = 8.0,
    ) -> PictureBank:
        """Keeps what the policy saw in episodes from these seeds."""
        episodes = []
        for seed in seeds:
            moments: list[Images] = []

            def keep(
                _world: SimWorld, _pose: Pose, images: Images, kept: list[Images] = moments
            ) -> None:
                kept.append(images)

            brief = replace(settings, limit_s=limit_s)
            list(evaluate(world, policy, task, [seed], brief, observer=keep))
            episodes.append(moments)
        return PictureBank(episodes)

    def blindfold(self, kind: str, index: int) -> Sight:
        """What to show in the episode of that index: one of BLINDFOLDS.

        Raises:
            ValueError: no such kind.
        """
        if kind == "mean":
            return lambda _images: self._mean
        if kind != "other":
            raise ValueError(f"no blindfold '{kind}'; known: {', '.join(BLINDFOLDS)}")
        moments = iter(self._episodes[index % len(self._episodes)])
        last = self._episodes[index % len(self._episodes)][-1]
        return lambda _images: next(moments, last)


def _mean(pictures: Sequence[NDArray[np.uint8] | None]) -> NDArray[np.uint8] | None:
    present = [picture for picture in pictures if picture is not None]
    if not present:
        return None
    total = np.zeros(present[0].shape, np.float64)
    for picture in present:
        total += picture
    return np.asarray(np.round(total / len(present)), dtype=np.uint8)
