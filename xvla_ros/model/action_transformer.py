"""The soft-prompted action transformer of X-VLA.

Zheng et al. 2025, "X-VLA: Soft-Prompted Transformer as Scalable Cross-Embodiment
Vision-Language-Action Model", arXiv:2510.10274.

Pre-norm blocks with full attention over [actions | encoder tokens | auxiliary views | soft
prompts]. Time enters through the action tokens only. What depends on the embodiment (prompts,
first and last layer of the actions) is looked up by domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class Affine:
    """A linear layer for each sample of a batch."""

    weight: Tensor
    """(B, dim_in, dim_out)."""
    bias: Tensor
    """(B, 1 or L, dim_out)."""

    def __call__(self, values: Tensor) -> Tensor:
        """(B, L, dim_in) to (B, L, dim_out), in the number format of the weights."""
        return torch.baddbmm(self.bias, values.to(self.weight.dtype), self.weight)


@dataclass(frozen=True, eq=False)
class Condition:
    """What is the same in every denoising step of a chunk."""

    tokens: Tensor
    """(B, C, hidden): the tokens beside the action tokens, as they enter the first block."""
    first_qkv: Tensor
    """(B, C, 3 * hidden): their queries, keys and values in the first block."""
    noisy: Affine
    """From noisy actions to action tokens; its bias holds proprio and positions."""
    time: Tensor
    """(B, dim_time, hidden): from a time embedding to what it adds to every action token."""
    clean: Affine
    """From normalised action tokens to actions."""


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

    def of(self, domain_id: Tensor) -> Affine:
        """The layer of each sample's domain (B,)."""
        weight = self.fc(domain_id).unflatten(1, (self.dim_in, self.dim_out))
        return Affine(weight, self.bias(domain_id)[:, None])

    def forward(self, values: Tensor, domain_id: Tensor) -> Tensor:
        """(B, L, dim_in) to (B, L, dim_out), with the weights of each sample's domain (B,)."""
        return self.of(domain_id)(values)


class Attention(nn.Module):
    """Multi-head attention of every token to every token."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(
        self, tokens: Tensor, known: Tensor | None = None, rows: int | None = None
    ) -> Tensor:
        """Tokens (B, L, dim) to tokens (B, rows, dim).

        Args:
            tokens: what attends and is attended to.
            known: `qkv` (B, C, 3 * dim) of further tokens, which follow.
            rows: so many leading tokens are wanted; None wants all.
        """
        qkv = self.qkv(tokens)
        if known is not None:
            qkv = torch.cat([qkv, known], dim=1)
        q, k, v = qkv.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q[:, :, :rows], k, v)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Two linear layers with the tanh form of GELU, unlike the two encoders."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, inner)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(inner, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L, dim) to tokens (B, L, dim)."""
        return self.fc2(self.act(self.fc1(tokens)))


class Block(nn.Module):
    """Attention and MLP, each normalised before."""

    def __init__(self, dim: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = MLP(dim, inner)

    def forward(
        self, tokens: Tensor, known: Tensor | None = None, rows: int | None = None
    ) -> Tensor:
        """Tokens (B, L, dim) to tokens (B, rows, dim).

        Args:
            tokens: all tokens.
            known: `attn.qkv` of the last of them (B, C, 3 * dim), if somebody has it already.
            rows: so many leading tokens are wanted; None wants all.
        """
        fresh = tokens if known is None else tokens[:, : tokens.shape[1] - known.shape[1]]
        tokens = tokens[:, :rows] + self.attn(self.norm1(fresh), known, rows)
        return tokens + self.mlp(self.norm2(tokens))


class ActionTransformer(nn.Module):
    """Predicts the clean actions from noisy ones."""

    def __init__(self, config: XVLAConfig) -> None:
        super().__init__()
        dim, domains = config.hidden_size, config.num_domains
        self.horizon = config.num_actions
        self.hetero = config.use_hetero_proj
        self.prompts = (config.len_soft_prompts, dim)
        self.blocks = nn.ModuleList(
            Block(dim, config.num_heads, int(dim * config.mlp_ratio)) for _ in range(config.depth)
        )
        self.vlm_proj = self._projection(config.projection_dim, dim, domains)
        self.aux_visual_proj = self._projection(config.projection_dim, dim, domains)
        self.pos_emb = nn.Parameter(torch.zeros(1, config.max_len_seq, dim))
        self.norm = nn.LayerNorm(dim)
        self.split = (config.dim_action, config.dim_proprio, config.dim_time)
        self.action_encoder = DomainLinear(sum(self.split), dim, domains)
        self.action_decoder = DomainLinear(dim, config.dim_action, domains)
        self.soft_prompt_hub = nn.Embedding(domains, config.len_soft_prompts * dim)

    def _projection(self, dim_in: int, dim: int, domains: int) -> nn.Module:
        return DomainLinear(dim_in, dim, domains) if self.hetero else nn.Linear(dim_in, dim)

    def reset_parameters(self) -> None:
        """Small random positions and prompts."""
        nn.init.normal_(self.pos_emb, std=0.02)
        nn.init.normal_(self.soft_prompt_hub.weight, std=0.02)

    def condition(
        self, encoded: Tensor, auxiliary: Tensor, proprio: Tensor, domain_id: Tensor
    ) -> Condition:
        """What no denoising step changes.

        Args:
            encoded: output of the text encoder (B, L, projection_dim).
            auxiliary: image features of all views but the first (B, M, projection_dim).
            proprio: (B, P); the same for every action.
            domain_id: (B,) int64.
        """
        tokens = self._context_tokens(encoded, auxiliary, domain_id)
        first: Block = self.blocks[0]  # type: ignore[assignment]
        # A token of an action is made of action, proprio and time, in this order.
        encoder = self.action_encoder.of(domain_id)
        action, state, time = encoder.weight.split(self.split, dim=1)
        shared = encoder.bias + proprio[:, None].to(state.dtype) @ state
        shared = shared + self.pos_emb[:, : self.horizon]
        return Condition(
            tokens,
            first.attn.qkv(first.norm1(tokens)),
            Affine(action, shared),
            time,
            self.action_decoder.of(domain_id),
        )

    def _context_tokens(self, encoded: Tensor, auxiliary: Tensor, domain_id: Tensor) -> Tensor:
        """The tokens beside the action tokens (B, C, hidden)."""
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

    def forward(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        """Clean actions (B, H, A) of noisy ones (B, H, A) at times t (B,)."""
        time = time_embedding(t, self.split[2]).to(condition.time.dtype)
        actions = condition.noisy(noisy) + time[:, None] @ condition.time
        tokens = torch.cat([actions.to(condition.tokens.dtype), condition.tokens], dim=1)
        last = len(self.blocks) - 1
        for number, block in enumerate(self.blocks):
            tokens = block(
                tokens,
                condition.first_qkv if number == 0 else None,
                # Nobody reads the other tokens after the last block.
                self.horizon if number == last else None,
            )
        return condition.clean(self.norm(tokens.to(self.norm.weight.dtype)))
