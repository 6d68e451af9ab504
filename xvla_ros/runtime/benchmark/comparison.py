"""Ours and LeRobot's network in turn: time, and how far their numbers are from one another."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xvla_ros.model.checkpoint import load_checkpoint
from xvla_ros.runtime.benchmark.lerobot_peer import Inputs, Peer
from xvla_ros.runtime.benchmark.model_run import ModelRun
from xvla_ros.runtime.benchmark.samples import figures
from xvla_ros.runtime.interface import PolicyInput
from xvla_ros.runtime.policy import LocalPolicy


@dataclass(eq=False)
class Comparison:
    """Pairs of calls.

    Args:
        run: of our policy.
        peer: LeRobot's network with the same weights.
        steps: denoising steps of theirs.
    """

    run: ModelRun
    peer: Peer
    steps: int
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    agreement: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(run: ModelRun, dtype: str, steps: int) -> Comparison:
        """Loads the weights once more, as their file has them, for the other network."""
        device = run.policy.target
        weights = load_checkpoint(run.folder, device.torch_device, torch.float32)
        return Comparison(run, Peer(weights, dtype), steps)

    def first(self) -> None:
        """The first call of both, with the same noise: how far apart their numbers are."""
        observation = self.run.observations.next()
        inputs = peer_inputs(self.run.policy, observation)
        chunk = self.run.call(observation).raw
        features = torch.cat([f.float() for f in self.peer.features(inputs)], dim=1)
        actions = self.peer.actions(inputs, self.steps, own_noise=False)[0]
        own = self.run.policy.features(observation)
        dims = chunk.shape[1]
        self.agreement = {
            "encoder_features": _differences(features[0].cpu().numpy(), own),
            "actions": _differences(actions[:, :dims].float().cpu().numpy(), chunk),
        }

    def pair(self) -> None:
        """One call of each, in turn first, on the same new observation."""
        observation = self.run.observations.next()
        order = (self._theirs, self._ours) if len(self.ours) % 2 else (self._ours, self._theirs)
        for call in order:
            call(observation)

    def _ours(self, observation: PolicyInput) -> None:
        self.run.call(observation)
        self.ours.append(self.run.calls[-1].seconds)

    def _theirs(self, observation: PolicyInput) -> None:
        device = self.run.policy.target
        start = time.perf_counter()
        # Image preparation is in both times; LeRobot's does the same work.
        self.peer.actions(peer_inputs(self.run.policy, observation), self.steps)
        device.synchronize()
        self.theirs.append(time.perf_counter() - start)

    @property
    def speedup(self) -> float:
        """Median of theirs over median of ours."""
        return float(np.median(self.theirs) / np.median(self.ours))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        ratios = np.array(self.theirs) / np.array(self.ours)
        return {
            "peer": f"lerobot {self.peer.version}",
            "dtype": self.peer.dtype,
            "steps": self.steps,
            "pairs": len(self.ours),
            "ours_s": figures(self.ours),
            "theirs_s": figures(self.theirs),
            "speedup": self.speedup,
            "speedup_of_pairs": {
                "median": float(np.median(ratios)),
                "min": float(ratios.min()),
                "max": float(ratios.max()),
            },
            "agreement": self.agreement,
        }


def peer_inputs(policy: LocalPolicy, observation: PolicyInput) -> Inputs:
    """What our policy makes of an observation, for another network of the same weights."""
    device = policy.target.torch_device
    pixels, mask = policy.processor.images(observation.images, policy.num_views)
    proprio, noise = policy.numbers(observation)

    def batch(array: Any) -> Tensor:
        return torch.as_tensor(array[None], device=device)

    return Inputs(
        batch(policy.processor.text(observation.instruction)),
        batch(pixels),
        batch(mask),
        batch(proprio),
        torch.tensor([policy.domain_id], device=device),
        batch(noise),
    )


def _differences(reference: np.ndarray[Any, Any], own: np.ndarray[Any, Any]) -> dict[str, float]:
    """Largest difference, also as a share of the reference's largest number, and Pearson's r."""
    a, b = np.ravel(reference).astype(np.float64), np.ravel(own).astype(np.float64)
    largest = float(np.abs(a - b).max())
    return {
        "max_abs": largest,
        "relative": largest / float(np.abs(a).max()),
        "rms": float(np.sqrt(np.mean(a * a))),
        "pearson": float(np.corrcoef(a, b)[0, 1]),
    }
