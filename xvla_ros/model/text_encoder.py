"""BART encoder over image and text tokens (Lewis et al. 2020, "BART", arXiv:1910.13461).

Post-norm layers, learned positions with BART's offset of two, exact (erf) GELU. Nothing is
masked: X-VLA attends to the padding of the instruction.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from xvla_ros.model.config import TextConfig

# BART keeps the first two rows of the position table for padding ids of older models.
_POSITION_OFFSET = 2
# Distance to the largest half-precision number at which BART clamps an overflow.
_OVERFLOW_MARGIN = 1000.0


class SelfAttention(nn.Module):
    """Multi-head attention of every token to every token."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.q_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L, d) to tokens (B, L, d)."""
        q, k, v = (
            proj(tokens).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """Attention and MLP, each normalised after its residual."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        dim, inner = config.d_model, config.encoder_ffn_dim
        self.self_attn = SelfAttention(dim, config.encoder_attention_heads)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, inner)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(inner, dim)
        self.final_layer_norm = nn.LayerNorm(dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L, d) to tokens (B, L, d)."""
        tokens = self.self_attn_layer_norm(tokens + self.self_attn(tokens))
        update = self.fc2(self.act(self.fc1(tokens)))
        tokens = self.final_layer_norm(tokens + update)
        return _without_overflow(tokens) if tokens.dtype == torch.float16 else tokens


def _without_overflow(tokens: Tensor) -> Tensor:
    """Clamps a half-precision tensor, but only if something in it overflowed.

    Chosen on the device, so that nothing waits for the answer.
    """
    limit = torch.finfo(tokens.dtype).max - _OVERFLOW_MARGIN
    return torch.where(tokens.isfinite().all(), tokens, tokens.clamp(-limit, limit))


class Encoder(nn.Module):
    """The encoder stack; `embed_tokens` is another name of the shared token embedding."""

    def __init__(self, config: TextConfig, shared: nn.Embedding) -> None:
        super().__init__()
        self.embed_tokens = shared
        self.embed_positions = nn.Embedding(
            config.max_position_embeddings + _POSITION_OFFSET, config.d_model
        )
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.layernorm_embedding = nn.LayerNorm(config.d_model)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embedded tokens (B, L, d) to encoded tokens (B, L, d)."""
        length = tokens.shape[1]
        positions = self.embed_positions.weight[_POSITION_OFFSET : _POSITION_OFFSET + length]
        if len(positions) < length:
            raise ValueError(
                f"{length} tokens exceed text_config.max_position_embeddings = {len(positions)}"
            )
        tokens = self.layernorm_embedding(tokens + positions)
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens


class TextModel(nn.Module):
    """Token embedding and encoder."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = Encoder(config, self.shared)
        self.scale = config.d_model**0.5 if config.scale_embedding else 1.0

    def embed(self, input_ids: Tensor) -> Tensor:
        """Ids (B, L), padding included, to embeddings (B, L, d)."""
        embedded: Tensor = self.shared(input_ids)
        return embedded * self.scale if self.scale != 1.0 else embedded


class LanguageModel(nn.Module):
    """What X-VLA keeps of Florence-2's language model: everything but decoder and head."""

    final_logits_bias: Tensor

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.model = TextModel(config)
        # Read by nothing here; checkpoints contain it.
        self.register_buffer("final_logits_bias", torch.zeros(1, config.vocab_size))
