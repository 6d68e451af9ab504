"""How much arithmetic one chunk takes, counted from the sizes of the network alone.

Matrix products only: linear layers, convolutions and attention. A product of (m, k) by (k, n)
counts 2 m k n operations, as torch.utils.flop_counter does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from xvla_ros.model.config import XVLAConfig
from xvla_ros.runtime.stages import DENOISING, TEXT, VISION


@dataclass(frozen=True)
class Gemm:
    """A product of matrices, `batch` at once, done `count` times."""

    m: int
    k: int
    n: int
    batch: int = 1
    count: int = 1
    kind: str = "linear"
    """linear, attention (both operands are computed), or depthwise (a convolution of each
    channel by itself, which no matrix product can be made of)."""

    @property
    def flops(self) -> int:
        """Operations of all of them."""
        return 2 * self.m * self.k * self.n * self.batch * self.count

    def times(self, count: int) -> Gemm:
        """The same, so many times more often."""
        return replace(self, count=self.count * count)


@dataclass(frozen=True)
class Tokens:
    """Lengths of the sequences of one chunk."""

    view: int
    """Tokens of a view."""
    text: int
    context: int
    """Everything but the actions in a denoising step."""
    horizon: int

    @staticmethod
    def of(config: XVLAConfig, image_size: int, slots: int) -> Tokens:
        """For square images of that size and so many view slots."""
        view = config.vision.grid(image_size) ** 2 + 1
        context = slots * view + config.text_length + config.len_soft_prompts
        return Tokens(view, config.text_length, context, config.num_actions)


@dataclass(frozen=True)
class Work:
    """Matrix products of one chunk by stage."""

    stages: dict[str, tuple[Gemm, ...]]

    def gflop(self) -> dict[str, float]:
        """Billions of operations by stage, and their `total`."""
        by_stage = {name: sum(g.flops for g in gemms) / 1e9 for name, gemms in self.stages.items()}
        return by_stage | {"total": sum(by_stage.values())}

    def gemms(self) -> Iterable[Gemm]:
        """Those of all stages."""
        return (gemm for gemms in self.stages.values() for gemm in gemms)


def published_work(config: XVLAConfig, image_size: int, views: int, slots: int, steps: int) -> Work:
    """What the published code does: windows padded, every row in every layer of every step.

    Args:
        config: sizes of the network.
        image_size: side of its images.
        views: slots that hold a picture.
        slots: view slots.
        steps: denoising steps.
    """
    return _work(config, image_size, views, slots, steps, padded=True, trimmed=False)


def exact_work(config: XVLAConfig, image_size: int, views: int, slots: int, steps: int) -> Work:
    """What has to be done for the same numbers; arguments as for `published_work`."""
    return _work(config, image_size, views, slots, steps, padded=False, trimmed=True)


def _work(
    config: XVLAConfig,
    image_size: int,
    views: int,
    slots: int,
    steps: int,
    *,
    padded: bool,
    trimmed: bool,
) -> Work:
    tokens = Tokens.of(config, image_size, slots)
    vision = [gemm.times(views) for gemm in _davit(config, image_size, padded)]
    vision.append(Gemm(tokens.view, config.vision.out_dim, config.projection_dim, count=views))
    denoise = _trimmed_steps if trimmed else _full_steps
    return Work(
        {
            VISION: tuple(vision),
            TEXT: tuple(_text_encoder(config, tokens)),
            DENOISING: (
                *_condition(config, tokens, slots, steps if not trimmed else 1),
                *denoise(config, tokens, steps),
            ),
        }
    )


def _davit(config: XVLAConfig, image_size: int, padded: bool) -> list[Gemm]:
    """Of one image (Ding et al. 2022, arXiv:2204.03645)."""
    vision, gemms = config.vision, []
    side, channels = image_size, 3
    for stage, dim in enumerate(vision.dim_embed):
        kernel, stride = vision.patch_size[stage], vision.patch_stride[stage]
        side = (side + 2 * vision.patch_padding[stage] - kernel) // stride + 1
        n, depth = side * side, vision.depths[stage]
        gemms.append(Gemm(n, channels * kernel * kernel, dim))
        channels = dim
        rows, window_attention = _windows(side, vision.window_size, padded)
        heads = vision.num_heads[stage]
        groups = vision.num_groups[stage]
        per_group = dim // groups
        block = [
            Gemm(n, 9, 1, batch=dim, count=4, kind="depthwise"),
            Gemm(rows, dim, 3 * dim),
            *(
                gemm
                for queries, keys, windows in window_attention
                for gemm in _attention(queries, keys, dim, heads, windows)
            ),
            Gemm(rows, dim, dim),
            Gemm(n, dim, 3 * dim),
            *_attention(per_group, per_group, n * groups, groups),
            Gemm(n, dim, dim),
            Gemm(n, dim, 4 * dim, count=2),
            Gemm(n, 4 * dim, dim, count=2),
        ]
        gemms += [gemm.times(depth) for gemm in block if depth]
    return gemms


def _text_encoder(config: XVLAConfig, tokens: Tokens) -> list[Gemm]:
    text, length = config.text, tokens.view + tokens.text
    dim, inner = text.d_model, text.encoder_ffn_dim
    layer = [
        Gemm(length, dim, dim, count=4),
        *_attention(length, length, dim, text.encoder_attention_heads),
        Gemm(length, dim, inner),
        Gemm(length, inner, dim),
    ]
    return [gemm.times(text.encoder_layers) for gemm in layer]


def _windows(side: int, window: int, padded: bool) -> tuple[int, list[tuple[int, int, int]]]:
    """Of a square grid: rows that are projected; queries, keys and number of windows by size."""
    keys = window * window
    if padded:
        count = ceil(side / window) ** 2
        return count * keys, [(keys, keys, count)]
    # A cut window has all keys, because those of the padding are known, but fewer queries.
    whole, cut = divmod(side, window)
    spans = [(window, whole)] * bool(whole) + [(cut, 1)] * bool(cut)
    return side * side, [(h * w, keys, down * across) for h, down in spans for w, across in spans]


def _attention(queries: int, keys: int, dim: int, heads: int, times: int = 1) -> list[Gemm]:
    """Of `times` sequences at once."""
    return [
        Gemm(queries, dim // heads, keys, batch=heads * times, kind="attention"),
        Gemm(queries, keys, dim // heads, batch=heads * times, kind="attention"),
    ]


def _condition(config: XVLAConfig, tokens: Tokens, slots: int, times: int) -> list[Gemm]:
    """Projections of what the actions are conditioned on."""
    dim, source = config.hidden_size, config.projection_dim
    rows = [tokens.view + tokens.text, (slots - 1) * tokens.view]
    return [Gemm(m, source, dim, count=times) for m in rows if m]


def _full_steps(config: XVLAConfig, tokens: Tokens, steps: int) -> list[Gemm]:
    dim, heads = config.hidden_size, config.num_heads
    rows, horizon = tokens.horizon + tokens.context, tokens.horizon
    dim_in = config.dim_action + config.dim_proprio + config.dim_time
    block = _block(rows, rows, rows, dim, heads, int(dim * config.mlp_ratio))
    step = [
        Gemm(horizon, dim_in, dim),
        *(gemm.times(config.depth) for gemm in block),
        Gemm(horizon, dim, config.dim_action),
    ]
    return [gemm.times(steps) for gemm in step]


def _trimmed_steps(config: XVLAConfig, tokens: Tokens, steps: int) -> list[Gemm]:
    """Without what no step changes, and in the last block without the rows that nobody reads."""
    dim, heads = config.hidden_size, config.num_heads
    horizon, context = tokens.horizon, tokens.context
    rows, inner = horizon + context, int(dim * config.mlp_ratio)
    once = [
        # Proprio is the same in every step and for every action.
        Gemm(1, config.dim_proprio, dim),
        # So is what the first block makes of the context by itself.
        Gemm(context, dim, 3 * dim),
    ]
    step = [Gemm(horizon, config.dim_action, dim), Gemm(1, config.dim_time, dim)]
    for layer in range(config.depth):
        fresh = horizon if layer == 0 else rows
        wanted = horizon if layer == config.depth - 1 else rows
        step += _block(fresh, wanted, rows, dim, heads, inner)
    step.append(Gemm(horizon, dim, config.dim_action))
    return [*once, *(gemm.times(steps) for gemm in step)]


def _block(projected: int, queries: int, keys: int, dim: int, heads: int, inner: int) -> list[Gemm]:
    """A pre-norm block: `projected` rows go through qkv, `queries` through everything after."""
    return [
        Gemm(projected, dim, 3 * dim),
        *_attention(queries, keys, dim, heads),
        Gemm(queries, dim, dim),
        Gemm(queries, dim, inner),
        Gemm(queries, inner, dim),
    ]
