"""Action spaces of X-VLA: which of the numbers are what, how they are masked, squashed and scored.

Positions and rotations are neither normalised nor clipped: a network predicts metres, and the
scales of the loss do the balancing (X-VLA, models/action_hub.py, github.com/2toinf/X-VLA).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

Criterion = Literal["mse", "bce"]


@dataclass(frozen=True)
class Term:
    """One term of the loss: the mean error over some channels, times a scale."""

    name: str
    channels: tuple[int, ...]
    scale: float
    criterion: Criterion = "mse"


@dataclass(frozen=True)
class ActionSpace:
    """One action mode as data.

    `logits` are channels that a network predicts as logits of a probability. They are set to
    zero in whatever the network is shown (proprio and noisy actions), and the finished chunk
    gets one sigmoid.
    """

    name: str
    dim: int
    logits: tuple[int, ...]
    terms: tuple[Term, ...]
    used: int
    """Leading dimensions that mean something; the rest is padding."""

    def mask(self, values: Tensor) -> Tensor:
        """A copy of (..., D) values with the logit channels at zero."""
        if not self.logits:
            return values
        out = values.clone()
        out[..., list(self.logits)] = 0.0
        return out

    def finish(self, actions: Tensor) -> Tensor:
        """What a predicted chunk (..., dim) means: logits become probabilities."""
        if not self.logits:
            return actions
        out = actions.clone()
        channels = list(self.logits)
        out[..., channels] = out[..., channels].sigmoid()
        return out

    def loss(self, predicted: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Terms of the loss of predictions (B, H, dim) against clean actions; sum them."""
        from torch.nn import functional

        if predicted.shape != target.shape:
            raise ValueError(
                f"predictions {tuple(predicted.shape)} and actions {tuple(target.shape)} differ"
            )
        losses: dict[str, Tensor] = {}
        for term in self.terms:
            channels = list(term.channels)
            pair = predicted[..., channels], target[..., channels]
            if term.criterion == "bce":
                value = functional.binary_cross_entropy_with_logits(*pair)
            else:
                value = functional.mse_loss(*pair)
            value = term.scale * value
            losses[term.name] = losses[term.name] + value if term.name in losses else value
        return losses


def _two_arms(name: str, logits: tuple[int, ...], gripper: Term) -> ActionSpace:
    """Position (3), rotation (6) and gripper (1) of two arms; an error is summed over the arms."""
    terms = []
    for start in (0, 10):
        terms.append(Term("position", tuple(range(start, start + 3)), 500.0))
        terms.append(Term("rotation", tuple(range(start + 3, start + 9)), 10.0))
    return ActionSpace(name, 20, logits, (*terms, gripper), used=20)


_FIXED = {
    space.name: space
    for space in (
        _two_arms("ee6d", (9, 19), Term("gripper", (9, 19), 1.0, "bce")),
        _two_arms("agibot_ee6d", (), Term("gripper", (9, 19), 10.0)),
        ActionSpace(
            "joint",
            14,
            (6, 13),
            (
                Term("joints", (*range(6), *range(7, 13)), 1.0),
                Term("gripper", (6, 13), 0.1, "bce"),
            ),
            used=14,
        ),
    )
}
ACTION_MODES = (*_FIXED, "auto")


def action_space(mode: str, real_dim: int = 20, max_dim: int = 20) -> ActionSpace:
    """The action space of a mode of `config.json`; the two sizes matter to "auto" only.

    Raises:
        KeyError: the mode is unknown.
    """
    key = mode.lower()
    if key == "auto":
        used = min(real_dim, max_dim)
        return ActionSpace(
            key, max_dim, (), (Term("actions", tuple(range(used)), 100.0),), used=used
        )
    return _FIXED[key]
