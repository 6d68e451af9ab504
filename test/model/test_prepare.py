"""What makes the network faster on a CPU changes nothing but rounding, unless it is asked to."""

from __future__ import annotations

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from xvla_ros.model.checkpoint import load_checkpoint, save_checkpoint
from xvla_ros.model.davit import WindowAttention
from xvla_ros.model.packed import (
    MklLinear,
    OneDnnConv,
    OneDnnLinear,
    convolves,
    release_pages,
    works,
)
from xvla_ros.model.precision import number_formats
from xvla_ros.model.prepare import forms, prepare
from xvla_ros.model.quantized import Int8Linear
from xvla_ros.model.time_grid import uniform_grid

needs_mkl = pytest.mark.skipif(
    not works(MklLinear, torch.float32), reason="this build of torch has no MKL"
)
needs_onednn = pytest.mark.skipif(
    not convolves(torch.float32), reason="this build of torch has no oneDNN"
)
needs_bfloat16 = pytest.mark.skipif(
    not works(OneDnnLinear, torch.bfloat16), reason="no bfloat16 products on this processor"
)


def chunk(net, b, grid=(1.0, 0.6, 0.2)):
    dtype = next(net.parameters()).dtype
    with torch.inference_mode():
        context = net.encode(b.ids, b.images.to(dtype), b.mask)
        return net.generate_actions(context, b.proprio.to(dtype), b.domain, b.noise.to(dtype), grid)


def error(a, b) -> float:
    return float((a - b).detach().abs().max())


@needs_mkl
@pytest.mark.parametrize(
    ("stages", "side"), [("THREE_STAGES", 93), ("THREE_STAGES", 96), ("FOUR_STAGES", 100)]
)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_prepared_network_gives_the_same_chunk(make, stages, side, depth) -> None:
    config = make.sizes(getattr(make, stages), depth=depth)
    plain, fast = make.network(config), make.network(config)
    prepare(fast)
    b = make.batch(config, side)

    for mask in ([[1, 1, 0], [1, 0, 1]], [[1, 0, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 1]]):
        b.mask[:] = torch.tensor(mask, dtype=torch.bool)
        assert error(chunk(fast, b), chunk(plain, b)) < 1e-5


@needs_mkl
def test_nothing_of_an_earlier_chunk_is_left_in_a_prepared_network(make) -> None:
    config = make.sizes()
    plain, fast = make.network(config), make.network(config)
    prepare(fast)
    first, other = make.batch(config), make.batch(config, side=85, seed=9)
    chunk(fast, first)
    two = type(other)(
        other.ids[:1], other.images[:1, :2], other.mask[:1, :2], other.proprio[:1],
        other.domain[1:], other.noise[:1],
    )  # fmt: skip

    for b in (other, two, first):
        assert error(chunk(fast, b, uniform_grid(2)), chunk(plain, b, uniform_grid(2))) < 1e-5


@needs_bfloat16
def test_a_prepared_network_in_bfloat16_is_as_close_to_the_exact_one_as_a_plain_one(make) -> None:
    config = make.sizes()
    b = make.batch(config)
    exact = chunk(make.network(config), b)
    plain, fast = make.network(config).bfloat16(), make.network(config).bfloat16()
    prepare(fast)

    off = (chunk(plain, b) - exact).square().mean().sqrt()
    assert (chunk(fast, b) - exact).square().mean().sqrt() < 1.3 * off


@needs_bfloat16
def test_weights_laid_out_while_they_are_read_are_those_laid_out_afterwards(make, tmp_path) -> None:
    config = make.sizes()
    save_checkpoint(make.network(config), tmp_path)
    b = make.batch(config)
    formats = number_formats(torch.bfloat16)
    late = load_checkpoint(tmp_path, dtype=formats)
    early = load_checkpoint(tmp_path, dtype=formats, forms=lambda net: forms(net, torch.bfloat16))

    packed = {name for name, weight in early.named_parameters() if weight.is_mkldnn}
    assert "transformer.blocks.0.attn.qkv.weight" in packed
    assert "transformer.pos_emb" not in packed
    for net in (late, early):
        prepare(net)
    with torch.inference_mode():
        chunks = [
            net.generate_actions(
                net.encode(b.ids, b.images.bfloat16(), b.mask),
                b.proprio, b.domain, b.noise, (1.0, 0.5),
            )
            for net in (late, early)
        ]  # fmt: skip
    assert torch.equal(*chunks)


@needs_onednn
@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 1, 1), (7, 4, 3), (2, 2, 0)])
def test_a_packed_convolution_takes_images_of_any_number_and_size(
    groups, kernel, stride, padding
) -> None:
    torch.manual_seed(3)
    conv = nn.Conv2d(6, 12, kernel, stride, padding, groups=groups)
    packed = OneDnnConv(conv)
    with torch.inference_mode():
        for size in ((1, 6, 9, 9), (3, 6, 9, 9), (2, 6, 14, 11)):
            image = torch.randn(size)
            assert error(packed(image), conv(image)) < 1e-5
            turned = image.to(memory_format=torch.channels_last)
            assert error(packed(turned), conv(image)) < 1e-5


def test_a_network_in_8_bits_is_close_and_its_linear_layers_are_gone(make) -> None:
    config = make.sizes()
    exact, coarse = make.network(config), make.network(config)
    prepare(coarse, int8=True)
    b = make.batch(config)

    before, after = chunk(exact, b), chunk(coarse, b)
    assert 0.0 < (after - before).square().mean().sqrt() < 0.05 * before.std()
    assert not any(isinstance(m, nn.Linear) for m in coarse.transformer.blocks.modules())


@pytest.mark.parametrize("grid", [(5, 5), (10, 5), (7, 11), (3, 2), (4, 9)])
def test_attention_without_padding_is_that_with_padding(grid) -> None:
    torch.manual_seed(0)
    attention = WindowAttention(12, heads=3, window=5)
    tokens = torch.randn(2, grid[0] * grid[1], 12)

    height, width = grid
    padded = functional.pad(tokens.view(2, *grid, 12), (0, 0, 0, -width % 5, 0, -height % 5))
    expected = torch.empty_like(padded)
    for top in range(0, padded.shape[1], 5):
        for left in range(0, padded.shape[2], 5):
            window = padded[:, top : top + 5, left : left + 5].flatten(1, 2)
            q, k, v = (
                part.unflatten(2, (3, 4)).transpose(1, 2)
                for part in attention.qkv(window).chunk(3, dim=2)
            )
            weights = (q @ k.transpose(2, 3) / 2.0).softmax(dim=-1)
            out = attention.proj((weights @ v).transpose(1, 2).flatten(2))
            expected[:, top : top + 5, left : left + 5] = out.unflatten(1, (5, 5))
    expected = expected[:, :height, :width].flatten(1, 2)

    assert error(attention(tokens, grid), expected) < 1e-6


@needs_mkl
@pytest.mark.parametrize("shape", [(7, 24), (1, 7, 24), (3, 24), (2, 5, 24), (1, 1, 24), (14, 24)])
def test_a_packed_layer_takes_other_numbers_of_rows_than_its_first(shape) -> None:
    torch.manual_seed(1)
    linear = nn.Linear(24, 10)
    packed = MklLinear(linear)
    with torch.inference_mode():
        packed(torch.randn(7, 24))
        values = torch.randn(shape[::-1]).permute(*range(len(shape))[::-1])
        assert error(packed(values), linear(values)) < 1e-5
        assert packed(values).shape == linear(values).shape


def test_every_output_and_every_token_has_its_own_scale_in_8_bits() -> None:
    torch.manual_seed(2)
    linear = nn.Linear(64, 6)
    values = torch.randn(5, 64)
    with torch.no_grad():
        linear.weight[0] *= 1000.0
        linear.weight[1] = 0.0
        values[3] *= 1e4
        values[4] = 0.0
    coarse = Int8Linear(linear)

    with torch.inference_mode():
        exact, found = linear(values), coarse(values)
    size = values.norm(dim=1)[:, None] * linear.weight.norm(dim=1)[None]
    assert ((found - exact).abs() <= 0.01 * size + 1e-5).all()
    assert torch.equal(found[4], linear.bias)


def test_released_pages_come_back_from_the_file_and_memory_stays(tmp_path) -> None:
    weight = torch.randn(512, 64)
    expected = weight.clone()
    save_file({"w": weight}, tmp_path / "w.safetensors")
    with safe_open(tmp_path / "w.safetensors", framework="pt") as file:
        mapped = file.get_tensor("w")

    release_pages(weight)
    release_pages(mapped)
    assert torch.equal(weight, expected)
    assert torch.equal(mapped, expected)


def test_poses_are_never_held_in_half_precision(make, tmp_path) -> None:
    config = make.sizes()
    save_checkpoint(make.network(config), tmp_path)
    b = make.batch(config)
    islands = load_checkpoint(tmp_path, dtype=number_formats(torch.bfloat16))
    everywhere = load_checkpoint(tmp_path, dtype=torch.bfloat16)

    assert islands.transformer.action_decoder.fc.weight.dtype == torch.float32
    assert islands.transformer.pos_emb.dtype == torch.bfloat16
    with torch.inference_mode():
        context = islands.encode(b.ids, b.images.bfloat16(), b.mask)
        fine = islands.generate_actions(context, b.proprio, b.domain, b.noise, (1.0, 0.5))
        coarse = chunk(everywhere, b, (1.0, 0.5))
        # Half of a thousandth is told to the network, and comes back.
        moved = islands.generate_actions(context, b.proprio + 5e-4, b.domain, b.noise, (1.0, 0.5))
    assert fine.dtype == torch.float32
    assert (fine != fine.bfloat16().float()).any()
    assert coarse.dtype == torch.bfloat16
    assert error(moved, fine) > 0.0
