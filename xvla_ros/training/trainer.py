"""The optimisation of a small X-VLA on labelled observations, with X-VLA's own loss."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from xvla_ros import ee6d
from xvla_ros.model.checkpoint import save_checkpoint
from xvla_ros.model.config import VIEWS, XVLAConfig
from xvla_ros.model.domain import BRIDGE
from xvla_ros.model.processor import Processor
from xvla_ros.model.sampler import sample_times
from xvla_ros.model.xvla import XVLA
from xvla_ros.training.recipe import INSTRUCTIONS, TASKS, Optimisation
from xvla_ros.training.samples import Batch

# Metres are small beside unit noise and unit features: without a head start the network spends
# its first thousand steps learning to notice where the arm is.
_POSITION_GAIN = 10.0
_OUTPUT_GAIN = 0.1
_STATED_SHARE = 0.5
LANDMARKS = 4


class Trainer:
    """Owns the weights, their running average and the optimiser.

    Beside X-VLA's loss there is one small term: a linear layer, which is not saved, must tell the
    cube's position and yaw from the mean token of each view. Which way a small cube is turned
    takes the vision tower very long to notice by the actions alone.

    Attributes:
        steps: updates so far.
        average: the network with averaged weights, which is what gets saved.
    """

    def __init__(
        self, folder: Path, settings: Optimisation, seed: int, actions: NDArray[np.float32]
    ) -> None:
        """Starts from random weights.

        Args:
            folder: a model folder that may lack its weights.
            settings: see `Optimisation`.
            seed: of the weights, the noise and the choice of instructions.
            actions: example labels (..., 20), from whose mean the output starts.
        """
        torch.manual_seed(seed)
        self.steps = 0
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._noise = torch.Generator().manual_seed(seed)
        config = XVLAConfig.from_folder(folder)
        processor = Processor.from_folder(folder, config.text_length)
        self._mean = torch.tensor(processor.transform.mean).view(1, 1, 3, 1, 1)
        self._std = torch.tensor(processor.transform.std).view(1, 1, 3, 1, 1)
        self._text = {
            task: torch.stack([torch.as_tensor(processor.text(s)) for s in INSTRUCTIONS[task]])
            for task in TASKS
        }
        self._model = XVLA(config)
        prepare_weights(self._model, actions.reshape(-1, ee6d.DIM).mean(axis=0))
        self._landmarks = nn.Linear(2 * config.projection_dim, LANDMARKS)
        self.average = copy.deepcopy(self._model).eval().requires_grad_(False)
        self._optimiser = torch.optim.AdamW(
            _decay_groups(nn.ModuleList([self._model, self._landmarks]), settings.weight_decay),
            lr=settings.learning_rate,
            betas=settings.betas,
        )

    def step(self, batch: Batch) -> dict[str, float]:
        """One update of the weights; returns the terms of the loss before it."""
        rate = learning_rate(self.steps, self._settings)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        terms = self._losses(batch)
        self._optimiser.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), self._settings.clip_norm)
        self._optimiser.step()
        self.steps += 1
        self._update_average()
        return {name: float(value.detach()) for name, value in terms.items()}

    def save(self, folder: Path) -> None:
        """Writes the averaged weights into a model folder."""
        save_checkpoint(self.average, folder)

    def _losses(self, batch: Batch) -> dict[str, torch.Tensor]:
        size, views = batch.images.shape[:2]
        images = torch.zeros(size, VIEWS, *batch.images.shape[2:])
        images[:, :views] = (torch.from_numpy(batch.images) - self._mean) / self._std
        mask = (torch.arange(VIEWS) < views).expand(size, -1)
        actions = torch.from_numpy(batch.actions)
        noise = torch.randn(actions.shape, generator=self._noise)
        context = self._model.encode(self._instructions(batch.tasks), images, mask)
        terms = self._model.forward_training(
            context,
            torch.from_numpy(batch.proprio),
            torch.full((size,), BRIDGE.id),
            actions,
            noise,
            sample_times(size, self._noise),
        )
        found = self._landmarks(torch.cat([context.encoded[:, 0], context.auxiliary[:, 0]], dim=1))
        misses = functional.mse_loss(found, landmarks(actions))
        return {**terms, "landmarks": self._settings.landmark_weight * misses}

    def _instructions(self, tasks: NDArray[np.int64]) -> torch.Tensor:
        """Token ids (B, L): the stated sentence half of the time, else any that means it."""
        rows = []
        for task in tasks:
            sentences = self._text[TASKS[task]]
            stated = self._rng.random() < _STATED_SHARE
            rows.append(sentences[0 if stated else int(self._rng.integers(len(sentences)))])
        return torch.stack(rows)

    @torch.no_grad()
    def _update_average(self) -> None:
        """Exponential running average, short at first so that random weights are forgotten."""
        keep = min(self._settings.ema_decay, (1.0 + self.steps) / (20.0 + self.steps))
        for mean, value in zip(self.average.parameters(), self._model.parameters(), strict=True):
            mean.lerp_(value, 1.0 - keep)


def landmarks(actions: torch.Tensor) -> torch.Tensor:
    """What can be said of the cube without regard to the arm, from chunks (B, H, 20): (B, 4).

    Every chunk ends over the cube, aligned with it: position in decimetres, and cosine and sine
    of four times the yaw, because a cube looks the same after a quarter turn.
    """
    last = actions[:, -1]
    yaw = torch.atan2(last[:, 5], last[:, 3])
    return torch.stack(
        [10.0 * last[:, 0] - 2.6, 10.0 * last[:, 1], (4.0 * yaw).cos(), (4.0 * yaw).sin()], dim=1
    )


def learning_rate(step: int, settings: Optimisation) -> float:
    """Linear warm-up, then half a cosine to the final rate."""
    if step < settings.warm_up_steps:
        return settings.learning_rate * (step + 1) / settings.warm_up_steps
    span = max(1, settings.steps - settings.warm_up_steps)
    progress = min(1.0, (step - settings.warm_up_steps) / span)
    fall = 0.5 * (1.0 + math.cos(math.pi * progress))
    return settings.final_learning_rate + fall * (
        settings.learning_rate - settings.final_learning_rate
    )


@torch.no_grad()
def prepare_weights(model: XVLA, mean_action: NDArray[np.float32]) -> None:
    """Random weights that suit actions in metres.

    The proprio's positions get larger weights, the action tokens start out knowing their step,
    and the output starts near the mean action.
    """
    head = model.transformer
    weight = head.action_encoder.fc.weight.unflatten(1, (head.action_encoder.dim_in, -1))
    for arm in (0, ee6d.ARM_DIM):
        first = ee6d.DIM + arm
        weight[:, first : first + 3] *= _POSITION_GAIN
    steps = torch.arange(head.horizon)[:, None] / head.horizon
    waves = torch.arange(1, head.pos_emb.shape[2] // 2 + 1)[None] * math.pi / 8
    table = torch.cat([(steps * waves).sin(), (steps * waves).cos()], dim=1)
    head.pos_emb[0, : head.horizon] += 0.3 * table
    mean = torch.as_tensor(mean_action)
    decoder = head.action_decoder
    decoder.fc.weight *= _OUTPUT_GAIN
    decoder.bias.weight[:] = mean
    # Their targets are probabilities, their outputs logits.
    for channel in ee6d.GRIPPERS:
        odds = mean[channel].clamp(0.01, 0.99)
        decoder.bias.weight[:, channel] = torch.logit(odds)


def _decay_groups(model: nn.Module, decay: float) -> list[dict[str, object]]:
    """Matrices decay; norms, biases and embeddings do not."""
    embeddings = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters()
    }
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for parameter in _unique(model.parameters()):
        plain = parameter.ndim >= 2 and id(parameter) not in embeddings
        (matrices if plain else rest).append(parameter)
    return [
        {"params": matrices, "weight_decay": decay},
        {"params": rest, "weight_decay": 0.0},
    ]


def _unique(parameters: Iterator[nn.Parameter]) -> list[nn.Parameter]:
    return list(dict.fromkeys(parameters))
