"""What the network must and must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xvla_ros.model.action_transformer import time_embedding
from xvla_ros.model.sampler import Guide, denoise, sample_times
from xvla_ros.model.time_grid import check_grid, uniform_grid
from xvla_ros.model.xvla import temporal_table


@pytest.fixture
def net(make):
    return make.network(make.sizes())


def chunk(net, b, grid=(1.0, 0.5)):
    with torch.inference_mode():
        context = net.encode(b.ids, b.images, b.mask)
        return net.generate_actions(context, b.proprio, b.domain, b.noise, grid)


def differs(a, b) -> bool:
    return float((a - b).abs().max()) > 1e-4


def test_an_absent_view_is_not_a_black_image(net, make) -> None:
    b = make.batch(net.config)
    b.images[0, 2] = 0.0
    absent = chunk(net, b)
    b.mask[0, 2] = True

    assert differs(chunk(net, b)[0], absent[0])


def test_the_pixels_of_an_absent_view_are_never_read(net, make) -> None:
    b = make.batch(net.config)
    absent = chunk(net, b)
    b.images[0, 2] = torch.nan

    assert torch.equal(chunk(net, b), absent)


def test_an_absent_view_still_takes_part_as_a_slot(net, make) -> None:
    b = make.batch(net.config)
    b.mask[:, 1:] = torch.tensor([True, False])
    three = chunk(net, b)
    two = type(b)(b.ids, b.images[:, :2], b.mask[:, :2], b.proprio, b.domain, b.noise)

    assert differs(chunk(net, two), three)


def test_views_in_other_slots_are_another_input(net, make) -> None:
    b = make.batch(net.config)
    before = chunk(net, b)
    b.images[0, [0, 1]] = b.images[0, [1, 0]]

    assert differs(chunk(net, b)[0], before[0])


def test_all_views_absent_is_an_error(net, make) -> None:
    b = make.batch(net.config)
    b.mask[:] = False

    with pytest.raises(ValueError, match="absent"):
        chunk(net, b)


def test_padding_of_the_instruction_is_attended_to(net, make) -> None:
    b = make.batch(net.config)
    b.ids[:, 10:] = 1
    before = chunk(net, b)
    with torch.no_grad():
        net.vlm.language_model.model.shared.weight[1] += torch.randn(48)

    assert differs(chunk(net, b), before)


def test_gripper_channels_of_proprio_and_noise_are_never_seen(net, make) -> None:
    b = make.batch(net.config)
    before = chunk(net, b)
    b.proprio[:, [9, 19]] += 5.0
    b.noise[..., [9, 19]] -= 3.0

    assert torch.equal(chunk(net, b), before)


def test_a_gripper_is_a_probability_and_a_position_is_not(net, make) -> None:
    b = make.batch(net.config)
    with torch.inference_mode():
        context = net.encode(b.ids, b.images, b.mask)
        one = torch.ones(2)
        logits = net.predict_clean(b.noise, one, b.proprio, b.domain, context)
    out = chunk(net, b, grid=[1.0])

    grippers = [9, 19]
    others = [i for i in range(20) if i not in grippers]
    assert torch.equal(out[..., others], logits[..., others])
    expected = 1.0 / (1.0 + torch.exp(-logits[..., grippers]))
    assert float((out[..., grippers] - expected).abs().max()) < 1e-6


@pytest.mark.parametrize("field", ["domain", "proprio", "noise", "ids", "images"])
def test_every_input_matters(net, make, field) -> None:
    b = make.batch(net.config)
    before = chunk(net, b)
    value = getattr(b, field)
    if field in ("domain", "ids"):
        value.copy_((value + 1) % 5)
    else:
        value.add_(0.5)

    assert differs(chunk(net, b), before)


def test_samples_of_a_batch_do_not_mix(net, make) -> None:
    b = make.batch(net.config)
    both = chunk(net, b)
    alone = [
        chunk(
            net,
            type(b)(
                b.ids[i : i + 1],
                b.images[i : i + 1],
                b.mask[i : i + 1],
                b.proprio[i : i + 1],
                b.domain[i : i + 1],
                b.noise[i : i + 1],
            ),
        )
        for i in range(2)
    ]

    assert float((torch.cat(alone) - both).abs().max()) < 1e-5


def test_too_many_tokens_name_the_limit(make) -> None:
    config = make.sizes(max_len_seq=100)
    b = make.batch(config)

    with pytest.raises(ValueError, match="max_len_seq = 100"):
        chunk(make.network(config), b)


def test_half_precision_stays_finite(make) -> None:
    config = make.sizes()
    b = make.batch(config)
    exact = chunk(make.network(config), b)
    net = make.network(config).bfloat16()
    half = type(b)(
        b.ids, b.images.bfloat16(), b.mask, b.proprio.bfloat16(), b.domain, b.noise.bfloat16()
    )
    out = chunk(net, half)

    assert out.dtype == torch.bfloat16
    assert float((out.float() - exact).abs().mean()) < 0.05 * float(exact.abs().mean())


def test_an_overflow_in_float16_is_clamped_and_the_rest_is_kept(make) -> None:
    layer = make.network(make.sizes()).vlm.language_model.model.encoder.layers[0]
    with torch.no_grad():
        layer.final_layer_norm.weight.fill_(6e4)
        layer.final_layer_norm.bias.zero_()
    tokens = torch.randn(1, 9, 48)

    with torch.inference_mode():
        wide = layer(tokens)
        out = layer.half()(tokens.half())

    assert wide.abs().max() > 65504
    assert out.isfinite().all()
    assert out.abs().max() == 64512  # 65504 - 1000, rounded to half precision


def test_time_embedding_is_cosines_then_sines_of_raw_time() -> None:
    t = torch.tensor([0.0, 0.3])
    k = np.arange(4)
    angles = 0.3 * 100.0 ** (-k / 4)

    out = time_embedding(t, 8).numpy()
    assert np.allclose(out[0], [1, 1, 1, 1, 0, 0, 0, 0])
    assert np.allclose(out[1], np.r_[np.cos(angles), np.sin(angles)], atol=1e-6)


def test_the_first_frame_adds_one_to_every_odd_channel() -> None:
    assert torch.equal(temporal_table(3, 6)[0], torch.tensor([0.0, 1, 0, 1, 0, 1]))


def test_the_sampler_mixes_the_same_noise_anew_at_every_step() -> None:
    seen = []

    def predict(x_t, t):
        seen.append((x_t.clone(), t))
        return torch.full_like(x_t, 10.0 * len(seen))

    noise = torch.full((1, 1, 1), 2.0)
    out = denoise(predict, noise, (1.0, 0.75, 0.5))

    assert out.item() == 30.0
    # t * noise + (1 - t) * the last prediction
    assert [round(float(x), 6) for x, _ in seen] == [2.0, 0.75 * 2 + 0.25 * 10, 0.5 * 2 + 0.5 * 20]
    assert [t for _, t in seen] == [1.0, 0.75, 0.5]


def noisy(generator, guide=None, steps=4):
    """What a network that squashes its input is shown at each step, and its last answer."""
    seen = []

    def predict(x_t, t):
        seen.append(x_t.clone())
        return torch.tanh(x_t) + 0.1 * t

    noise = torch.randn(1, 6, 20, generator=generator)
    return noise, seen, denoise(predict, noise, uniform_grid(steps), guide)


def guide_for(weight) -> Guide:
    target = torch.linspace(-0.5, 0.5, 120).reshape(1, 6, 20)
    return Guide(target, torch.as_tensor(weight).reshape(1, -1, 1).expand(1, 6, 20))


def test_a_guide_without_weight_changes_no_bit() -> None:
    plain = noisy(torch.Generator().manual_seed(1))[2]
    guided = noisy(torch.Generator().manual_seed(1), guide_for([0.0] * 6))[2]

    assert torch.equal(plain, guided)


def test_imposed_steps_are_seen_as_if_the_network_had_predicted_them() -> None:
    guide = guide_for([1.0, 1.0, 0.25, 0.0, 0.0, 0.0])
    noise, seen, last = noisy(torch.Generator().manual_seed(1), guide)
    free = noisy(torch.Generator().manual_seed(1))

    for t, x_t in zip((0.75, 0.5, 0.25), seen[1:], strict=True):
        expected = t * noise + (1.0 - t) * guide.target
        assert torch.equal(x_t[:, :2], expected[:, :2])
    # One that is imposed in part is so by its weight; the others are untouched.
    first = torch.tanh(noise) + 0.1
    mixed = 0.75 * first[:, 2] + 0.25 * guide.target[:, 2]
    assert torch.allclose(seen[1][:, 2], 0.75 * noise[:, 2] + 0.25 * mixed)
    assert all(torch.equal(a[:, 3:], b[:, 3:]) for a, b in zip(seen, free[1], strict=True))
    # What comes out is the network's own: the scheduler joins it to the command.
    assert torch.equal(last, torch.tanh(seen[-1]) + 0.1 * 0.25)


def test_a_grid_of_steps_ends_at_one_step_from_zero() -> None:
    assert uniform_grid(4) == (1.0, 0.75, 0.5, 0.25)
    assert uniform_grid(1) == (1.0,)


@pytest.mark.parametrize("grid", [(), (1.0, 1.0), (0.5, 0.7), (1.0, 0.0), (1.1, 0.5), (np.nan,)])
def test_a_grid_that_does_not_descend_is_refused(grid) -> None:
    with pytest.raises(ValueError, match="descend"):
        check_grid(grid)


def test_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        uniform_grid(0)


def test_training_times_cover_the_interval_evenly() -> None:
    t = sample_times(8, torch.Generator().manual_seed(2))

    assert float(t.min()) >= 0.0
    assert float(t.max()) < 1.0
    assert sorted((t * 8).long().tolist()) == list(range(8))
