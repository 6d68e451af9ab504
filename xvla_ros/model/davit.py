"""DaViT, the vision encoder of Florence-2.

Ding et al. 2022, "DaViT: Dual Attention Vision Transformers", arXiv:2204.03645. Parameter names
are those of the published X-VLA checkpoints.

Features are (n, tokens, channels), tokens row by row over a grid (height, width).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from xvla_ros.model.config import VisionConfig

Grid = tuple[int, int]


def to_grid(tokens: Tensor, grid: Grid) -> Tensor:
    """(n, height * width, c) tokens as an image (n, c, height, width)."""
    return tokens.transpose(1, 2).unflatten(2, grid)


def to_tokens(image: Tensor) -> Tensor:
    """An image (n, c, height, width) as tokens (n, height * width, c)."""
    return image.flatten(2).transpose(1, 2)


class PatchEmbedding(nn.Module):
    """Strided convolution between stages; the norm comes before it or after it."""

    def __init__(
        self, dim_in: int, dim_out: int, kernel: int, stride: int, padding: int, prenorm: bool
    ) -> None:
        super().__init__()
        self.prenorm = prenorm
        self.proj = nn.Conv2d(dim_in, dim_out, kernel, stride, padding)
        self.norm = nn.LayerNorm(dim_in if prenorm else dim_out)

    def forward(self, image: Tensor) -> tuple[Tensor, Grid]:
        """(n, dim_in, H, W) to tokens (n, h * w, dim_out) and their grid."""
        if self.prenorm:
            image = self.norm(image.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        image = self.proj(image)
        tokens = to_tokens(image)
        return tokens if self.prenorm else self.norm(tokens), (image.shape[2], image.shape[3])


class DepthwiseConv(nn.Module):
    """3x3 convolution of each channel by itself; carries the position information."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dw = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Tokens (n, h * w, c) of a grid (h, w) to tokens (n, h * w, c)."""
        return to_tokens(self.dw(to_grid(tokens, grid)))


class WindowAttention(nn.Module):
    """Self-attention inside square windows of the grid, without shift or relative bias.

    A grid that the windows do not divide is padded at its right and bottom. The padding is neither
    normalised nor masked: all its keys and values are the bias of `qkv`. They are put in where
    they are needed, and nothing else is computed of the padding.
    """

    def __init__(self, dim: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads = heads
        self.window = window
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Tokens (n, h * w, c) of a grid (h, w) to tokens (n, h * w, c)."""
        qkv = self.qkv(tokens).unflatten(1, grid)
        rows, columns = (_window_spans(length, self.window) for length in grid)
        mixed = [
            torch.cat([self._mix(qkv[:, down, across]) for across in columns], dim=2)
            for down in rows
        ]
        return self.proj(torch.cat(mixed, dim=1).flatten(1, 2))

    def _mix(self, qkv: Tensor) -> Tensor:
        """Attention in windows of one size: (n, h, w, 3 * c) to (n, h, w, c)."""
        height, width = min(qkv.shape[1], self.window), min(qkv.shape[2], self.window)
        # (n, windows down, windows across, height, width, 3 * c)
        windows = qkv.unflatten(2, (-1, width)).unflatten(1, (-1, height)).transpose(2, 3)
        parts = windows.reshape(-1, height * width, 3, self.heads, qkv.shape[3] // 3 // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        padding = self.window**2 - height * width
        if padding:
            bias = self.qkv.bias.view(3, 1, self.heads, 1, -1)
            _, pad_k, pad_v = bias.expand(-1, len(k), -1, padding, -1)
            k, v = torch.cat([k, pad_k], dim=2), torch.cat([v, pad_v], dim=2)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        image = mixed.reshape(*windows.shape[:5], -1).transpose(2, 3)
        return image.flatten(3, 4).flatten(1, 2)


def _window_spans(length: int, window: int) -> list[slice]:
    """Where the whole windows are along a side of the grid, and where the cut one at its end."""
    whole = length - length % window
    return [span for span in (slice(0, whole), slice(whole, length)) if span.stop > span.start]


class ChannelAttention(nn.Module):
    """Self-attention among the channels of a group; the tokens are the feature dimension."""

    def __init__(self, dim: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Tokens (n, h * w, c) of a grid (h, w) to tokens (n, h * w, c)."""
        # (3, n, groups, tokens, channels of the group)
        q, k, v = self.qkv(tokens).unflatten(2, (3, self.groups, -1)).permute(2, 0, 3, 1, 4)
        weights = (q * tokens.shape[1] ** -0.5).transpose(-1, -2) @ k
        mixed = weights.softmax(dim=-1) @ v.transpose(-1, -2)
        return self.proj(mixed.permute(0, 3, 1, 2).flatten(2))


class MLP(nn.Module):
    """Two linear layers with the exact (erf) GELU."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = nn.ModuleDict({"fc1": nn.Linear(dim, 4 * dim), "fc2": nn.Linear(4 * dim, dim)})
        self.act = nn.GELU()

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Tokens (n, h * w, c) of a grid (h, w) to tokens (n, h * w, c)."""
        return self.net["fc2"](self.act(self.net["fc1"](tokens)))


class Residual(nn.Module):
    """Adds `fn` of the (normalised) tokens to the tokens."""

    def __init__(self, fn: nn.Module, norm_dim: int | None = None) -> None:
        super().__init__()
        if norm_dim is not None:
            self.norm = nn.LayerNorm(norm_dim)
        self.fn = fn
        self.normed = norm_dim is not None

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Tokens (n, h * w, c) of a grid (h, w) to tokens (n, h * w, c)."""
        update: Tensor = self.fn(self.norm(tokens) if self.normed else tokens, grid)
        return tokens + update


class Block(nn.Module):
    """Convolution, attention, convolution, MLP, each as a residual; `kind` names the attention."""

    def __init__(self, kind: str, attention: nn.Module, dim: int) -> None:
        super().__init__()
        self.conv1 = Residual(DepthwiseConv(dim))
        self.add_module(kind, Residual(attention, dim))
        self.conv2 = Residual(DepthwiseConv(dim))
        self.ffn = Residual(MLP(dim), dim)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Tokens (n, h * w, c) of a grid (h, w) to tokens (n, h * w, c)."""
        for layer in self.children():
            tokens = layer(tokens, grid)
        return tokens


class DualBlock(nn.Module):
    """A spatial (window) block followed by a channel block."""

    def __init__(self, dim: int, heads: int, groups: int, window: int) -> None:
        super().__init__()
        self.spatial_block = Block("window_attn", WindowAttention(dim, heads, window), dim)
        self.channel_block = Block("channel_attn", ChannelAttention(dim, groups), dim)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Tokens (n, h * w, c) of a grid (h, w) to tokens (n, h * w, c)."""
        tokens = self.spatial_block(tokens, grid)
        return self.channel_block(tokens, grid)


class DaViT(nn.Module):
    """The whole vision tower; as many stages as the configuration lists."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        dims_in = (3, *config.dim_embed[:-1])
        self.convs = nn.ModuleList(
            PatchEmbedding(*sizes)
            for sizes in zip(
                dims_in,
                config.dim_embed,
                config.patch_size,
                config.patch_stride,
                config.patch_padding,
                config.patch_prenorm,
                strict=True,
            )
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(DualBlock(dim, heads, groups, config.window_size) for _ in range(depth))
            for dim, heads, groups, depth in zip(
                config.dim_embed, config.num_heads, config.num_groups, config.depths, strict=True
            )
        )
        self.one_by_one = 0
        """So many stages get one image at a time; features are the largest in the first ones."""

    def forward(self, images: Tensor) -> tuple[Tensor, Grid]:
        """Normalised images (n, 3, S, S) to tokens (n, h * w, dim_embed[-1]) and their grid."""
        image = images
        for stage in range(len(self.convs)):
            if stage < self.one_by_one:
                parts = [self._stage(stage, part) for part in image.split(1)]
                tokens, grid = torch.cat([part for part, _ in parts]), parts[0][1]
            else:
                tokens, grid = self._stage(stage, image)
            image = to_grid(tokens, grid)
        return tokens, grid

    def _stage(self, number: int, image: Tensor) -> tuple[Tensor, Grid]:
        tokens, grid = self.convs[number](image)
        for block in self.blocks[number]:  # type: ignore[attr-defined]
            tokens = block(tokens, grid)
        return tokens, grid
