"""The soft-prompted action transformer of X-VLA.

Zheng et al. 2025, "X-VLA: Soft-Prompted Transformer as Scalable Cross-Embodiment
Vision-Language-Action Model", arXiv:2510.10274.

Pre-norm blocks with full attention over [actions | encoder tokens | auxiliary views | soft
prompts]. Time enters through the action tokens only. What depends on the embodiment (prompts,
first and last layer of the actions) is looked up by domain.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from xvla_ros.model.config import XVLAConfig

_MAX_PERIOD = 100.0


def time_embedding(t: Tensor, dim: int) -> Tensor:
    """Cosines, then sines, of t (B,) in [0, 1] at dim / 2 frequencies from 1 to 1 / 100."""
    half = dim // 2
    k = torch.arange(half, dtype=torch.float32, device=t.device)
    frequencies = torch.exp(-math.log(_MAX_PERIOD) * k / half)
    angles = t.float()[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class DomainLinear(nn.Module):
    """A linear layer with its own weights for every domain.

    A row of `fc` is the (dim_in, dim_out) matrix of one domain, row by row.
    """

    def __init__(self, dim_in: int, dim_out: int, domains: int) -> None:
        super().__init__()
        self.dim_in, self.dim_out = dim_in, dim_out
        self.fc = nn.Embedding(domains, dim_in * dim_out)
        self.bias = nn.Embedding(domains, dim_out)

    def reset_parameters(self) -> None:
        """Xavier's uniform distribution for the matrix of every domain."""
        limit = math.sqrt(6.0 / (self.dim_in + self.dim_out))
        nn.init.uniform_(self.fc.weight, -limit, limit)
        nn.init.zeros_(self.bias.weight)

    def forward(self, values: Tensor, domain_id: Tensor) -> Tensor:
        """(B, L, dim_in) to (B, L, dim_out), with the weights of each sample's domain (B,)."""
        weight = self.fc(domain_id).unflatten(1, (self.dim_in, self.dim_out))
        return torch.baddbmm(self.bias(domain_id)[:, None], values, weight)


class Attention(nn.Module):
    """Multi-head attention of every token to every token."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L, dim) to tokens (B, L, dim)."""
        qkv = self.qkv(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        return self.proj(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Two linear layers with the tanh form of GELU, unlike the two encoders."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, inner)
        self.fc2 = nn.Linear(inner, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L, dim) to tokens (B, L, dim)."""
        return self.fc2(functional.gelu(self.fc1(tokens), approximate="tanh"))


class Block(nn.Module):
    """Attention and MLP, each normalised before."""

    def __init__(self, dim: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = MLP(dim, inner)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L, dim) to tokens (B, L, dim)."""
        tokens = tokens + self.attn(self.norm1(tokens))
        return tokens + self.mlp(self.norm2(tokens))


class ActionTransformer(nn.Module):
    """Predicts the clean actions from noisy ones."""

    def __init__(self, config: XVLAConfig) -> None:
        super().__init__()
        dim, domains = config.hidden_size, config.num_domains
        self.horizon = config.num_actions
        self.dim_time = config.dim_time
        self.hetero = config.use_hetero_proj
        self.prompts = (config.len_soft_prompts, dim)
        self.blocks = nn.ModuleList(
            Block(dim, config.num_heads, int(dim * config.mlp_ratio)) for _ in range(config.depth)
        )
        self.vlm_proj = self._projection(config.projection_dim, dim, domains)
        self.aux_visual_proj = self._projection(config.projection_dim, dim, domains)
        self.pos_emb = nn.Parameter(torch.zeros(1, config.max_len_seq, dim))
        self.norm = nn.LayerNorm(dim)
        dim_in = config.dim_action + config.dim_proprio + config.dim_time
        self.action_encoder = DomainLinear(dim_in, dim, domains)
        self.action_decoder = DomainLinear(dim, config.dim_action, domains)
        self.soft_prompt_hub = nn.Embedding(domains, config.len_soft_prompts * dim)

    def _projection(self, dim_in: int, dim: int, domains: int) -> nn.Module:
        return DomainLinear(dim_in, dim, domains) if self.hetero else nn.Linear(dim_in, dim)

    def reset_parameters(self) -> None:
        """Small random positions and prompts."""
        nn.init.normal_(self.pos_emb, std=0.02)
        nn.init.normal_(self.soft_prompt_hub.weight, std=0.02)

    def condition(self, encoded: Tensor, auxiliary: Tensor, domain_id: Tensor) -> Tensor:
        """The tokens beside the action tokens (B, C, hidden), which no denoising step changes.

        Args:
            encoded: output of the text encoder (B, L, projection_dim).
            auxiliary: image features of all views but the first (B, M, projection_dim).
            domain_id: (B,) int64.
        """
        if self.hetero:
            parts = [
                self.vlm_proj(encoded, domain_id),
                self.aux_visual_proj(auxiliary, domain_id),
            ]
        else:
            parts = [self.vlm_proj(encoded), self.aux_visual_proj(auxiliary)]
        tokens = torch.cat(parts, dim=1)
        end = self.horizon + tokens.shape[1]
        if end > self.pos_emb.shape[1]:
            raise ValueError(
                f"{end} tokens exceed max_len_seq = {self.pos_emb.shape[1]}; use fewer views"
            )
        # The soft prompts come last and have no position.
        prompts = self.soft_prompt_hub(domain_id).unflatten(1, self.prompts)
        return torch.cat([tokens + self.pos_emb[:, self.horizon : end], prompts], dim=1)

    def forward(
        self, noisy: Tensor, t: Tensor, proprio: Tensor, domain_id: Tensor, condition: Tensor
    ) -> Tensor:
        """Clean actions (B, H, A) of noisy ones (B, H, A) at times t (B,).

        `proprio` (B, P) and t are repeated for every action; the order inside a token is
        action, proprio, time. `condition` is what `condition()` returned.
        """
        steps = noisy.shape[1]
        time = time_embedding(t, self.dim_time).to(noisy.dtype)
        shared = torch.cat([proprio, time], dim=-1)[:, None].expand(-1, steps, -1)
        tokens = self.action_encoder(torch.cat([noisy, shared], dim=-1), domain_id)
        tokens = torch.cat([tokens + self.pos_emb[:, :steps], condition], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        return self.action_decoder(self.norm(tokens[:, :steps]), domain_id)
