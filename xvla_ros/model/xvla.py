"""The X-VLA network: images, instruction and proprio to a chunk of actions.

Florence-2's vision tower and text encoder (Xiao et al. 2023, arXiv:2311.06242) feed a
soft-prompted action transformer. Parameter names are those of the published checkpoints
(github.com/2toinf/X-VLA). Dropout and stochastic depth of the original training are not part of
it: they do nothing at inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from xvla_ros.model.action_transformer import ActionTransformer, Condition
from xvla_ros.model.config import VisionConfig, XVLAConfig
from xvla_ros.model.davit import DaViT
from xvla_ros.model.sampler import Guide, denoise
from xvla_ros.model.text_encoder import LanguageModel


@dataclass(frozen=True, eq=False)
class Context:
    """What the actions are conditioned on; the same for every denoising step."""

    encoded: Tensor
    """(B, tokens of a view + L, projection_dim): first view and instruction."""
    auxiliary: Tensor
    """(B, (V - 1) * tokens of a view, projection_dim): the other views, as image features."""


class PositionTables(nn.Module):
    """Learned embeddings of the row and of the column of an image token."""

    def __init__(self, dim: int, rows: int) -> None:
        super().__init__()
        self.row_embeddings = nn.Embedding(rows, dim // 2)
        self.column_embeddings = nn.Embedding(rows, dim - dim // 2)

    def forward(self, grid: tuple[int, int]) -> Tensor:
        """(h * w, dim): the column in the first half, the row in the second."""
        height, width = grid
        rows = self.row_embeddings.weight
        if max(grid) > len(rows):
            raise ValueError(f"a grid of {grid} tokens exceeds max_pos_embeddings = {len(rows)}")
        column = self.column_embeddings.weight[:width].expand(height, -1, -1)
        row = rows[:height, None].expand(-1, width, -1)
        return torch.cat([column, row], dim=-1).flatten(0, 1)


def temporal_table(frames: int, dim: int) -> Tensor:
    """Sines (even channels) and cosines (odd channels) of the frame number (frames, dim).

    On the CPU whatever the default device is: its contents are known before any weights are.
    """
    channel = torch.arange(0, dim, 2, device="cpu")
    frequency = torch.exp(-math.log(10000.0) * channel / dim)
    angles = torch.arange(frames, device="cpu")[:, None] * frequency
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class TemporalTable(nn.Module):
    """Embedding of the frame number; one frame has number 0, whose embedding is not zero."""

    pos_idx_to_embed: Tensor

    def __init__(self, frames: int, dim: int) -> None:
        super().__init__()
        table = temporal_table(frames, dim).to(torch.get_default_device())
        self.register_buffer("pos_idx_to_embed", table)


class VisionLanguageModel(nn.Module):
    """Image features, and the encoder over the first view and the instruction."""

    def __init__(self, config: XVLAConfig) -> None:
        super().__init__()
        vision: VisionConfig = config.vision
        dim = vision.out_dim
        self.vision_tower = DaViT(vision)
        self.image_projection = nn.Parameter(torch.zeros(dim, config.projection_dim))
        self.image_proj_norm = nn.LayerNorm(config.projection_dim)
        self.image_pos_embed = PositionTables(dim, vision.max_pos_embeddings)
        self.visual_temporal_embed = TemporalTable(vision.max_temporal_embeddings, dim)
        self.language_model = LanguageModel(config.text)
        self.one_by_one = False
        """Whether the vision tower is given one image at a time."""

    def reset_parameters(self) -> None:
        """A projection that keeps the variance of its input."""
        nn.init.normal_(self.image_projection, std=self.image_projection.shape[0] ** -0.5)

    def image_features(self, images: Tensor) -> Tensor:
        """(n, 3, S, S) to (n, 1 + h * w, projection_dim); the mean token comes first."""
        if self.one_by_one and len(images) > 1:
            return torch.cat([self.image_features(image) for image in images.split(1)])
        tokens, grid = self.vision_tower(images)
        tokens = tokens + self.image_pos_embed(grid)
        tokens = tokens + self.visual_temporal_embed.pos_idx_to_embed[0]
        tokens = torch.cat([tokens.mean(dim=1, keepdim=True), tokens], dim=1)
        return self.image_proj_norm(tokens @ self.image_projection)

    def forward(self, input_ids: Tensor, images: Tensor, image_mask: Tensor) -> Context:
        """See `XVLA.encode`."""
        batch, views = images.shape[:2]
        # Found where the mask is: a mask on the host keeps an accelerator from being waited for.
        present = image_mask.flatten().nonzero().squeeze(1)
        if not len(present):
            raise ValueError("every view is absent; at least one image is needed")
        present = present.to(images.device)
        valid = self.image_features(images.flatten(0, 1).index_select(0, present))
        # An absent view is zero features, which no black image gives.
        features = valid.new_zeros(batch * views, *valid.shape[1:])
        features = features.index_copy(0, present, valid).unflatten(0, (batch, views))
        return self.join(input_ids, features)

    def join(self, input_ids: Tensor, features: Tensor) -> Context:
        """See `XVLA.encode_features`."""
        text = self.language_model.model.embed(input_ids)
        encoded = self.language_model.model.encoder(torch.cat([features[:, 0], text], dim=1))
        return Context(encoded, features[:, 1:].flatten(1, 2))


class XVLA(nn.Module):
    """The whole network, of the sizes of its configuration."""

    def __init__(self, config: XVLAConfig) -> None:
        super().__init__()
        self.config = config
        self.space = config.action_space
        self.vlm = VisionLanguageModel(config)
        self.transformer = ActionTransformer(config)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights to begin a training with; convolutions and norms keep torch's own."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        for module in self.modules():
            if module is not self and not isinstance(module, (nn.Linear, nn.Embedding)):
                reset = getattr(module, "reset_parameters", None)
                if reset is not None:
                    reset()

    def encode(self, input_ids: Tensor, images: Tensor, image_mask: Tensor) -> Context:
        """Everything that the denoising steps share.

        Args:
            input_ids: (B, L) int64, padded to L; the padding takes part.
            images: (B, V, 3, S, S), normalised; the first view is the main one.
            image_mask: (B, V) bool, False for an absent view; best left on the CPU.
        """
        context: Context = self.vlm(input_ids, images, image_mask)
        return context

    def encode_features(self, input_ids: Tensor, features: Tensor) -> Context:
        """`encode` for views whose `vlm.image_features` are known.

        Args:
            input_ids: (B, L) int64, padded to L; the padding takes part.
            features: (B, V, tokens of a view, projection_dim), zero for an absent view.
        """
        return self.vlm.join(input_ids, features)

    def predict_clean(
        self, x_t: Tensor, t: Tensor, proprio: Tensor, domain_id: Tensor, context: Context
    ) -> Tensor:
        """The network's estimate of the clean actions (B, H, A), gripper channels as logits.

        Args:
            x_t: noisy actions (B, H, A).
            t: (B,) in [0, 1]; 1 is pure noise.
            proprio: (B, P), in the same numbers as the actions.
            domain_id: (B,) int64.
            context: of `encode`.
        """
        condition = self._condition(context, proprio, domain_id)
        clean: Tensor = self.transformer(self.space.mask(x_t), t, condition)
        return clean

    def _condition(self, context: Context, proprio: Tensor, domain_id: Tensor) -> Condition:
        shown = self.space.mask(proprio)
        return self.transformer.condition(context.encoded, context.auxiliary, shown, domain_id)

    def generate_actions(
        self,
        context: Context,
        proprio: Tensor,
        domain_id: Tensor,
        noise: Tensor,
        grid: Sequence[float],
        guide: Guide | None = None,
    ) -> Tensor:
        """A chunk of actions (B, H, A), gripper channels as probabilities.

        Args:
            context: of `encode`.
            proprio: (B, P), metres and rot6d in the checkpoint's own frame and layout.
            domain_id: (B,) int64.
            noise: (B, H, A) standard normal.
            grid: descending times in (0, 1], see `time_grid.uniform_grid`.
            guide: what is known of the actions, see `denoise`.
        """
        condition = self._condition(context, proprio, domain_id)

        def predict(x_t: Tensor, t: float) -> Tensor:
            times = torch.full((len(x_t),), t, device=x_t.device)
            clean: Tensor = self.transformer(self.space.mask(x_t), times, condition)
            return clean

        return self.space.finish(denoise(predict, noise, grid, guide))

    def forward_training(
        self,
        context: Context,
        proprio: Tensor,
        domain_id: Tensor,
        actions: Tensor,
        noise: Tensor,
        t: Tensor,
    ) -> dict[str, Tensor]:
        """Terms of X-VLA's training loss; their sum is minimised.

        Args:
            context: of `encode`, with gradients.
            proprio: (B, P).
            domain_id: (B,) int64.
            actions: clean actions (B, H, A), grippers as 0 or 1.
            noise: (B, H, A) standard normal.
            t: (B,) in [0, 1), see `sampler.sample_times`.
        """
        weight = t[:, None, None]
        x_t = weight * noise + (1.0 - weight) * actions
        clean = self.predict_clean(x_t, t, proprio, domain_id, context)
        return self.space.loss(clean, actions)
