"""The network computes what LeRobot's X-VLA computes with the same weights and noise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from xvla_ros.model.action_space import action_space
from xvla_ros.model.action_transformer import ActionTransformer
from xvla_ros.model.time_grid import uniform_grid

TOLERANCE = 1e-5


def largest(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


@pytest.mark.parametrize(
    ("stages", "side"), [("THREE_STAGES", 93), ("THREE_STAGES", 96), ("FOUR_STAGES", 100)]
)
@pytest.mark.parametrize("steps", [1, 10])
def test_a_chunk_is_the_same(make, lerobot, stages, side, steps) -> None:
    config = make.sizes(getattr(make, stages))
    ours, theirs = make.network(config), lerobot.model(config)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    b = make.batch(config, side)
    torch.manual_seed(11)
    expected = theirs.generate_actions(b.ids, b.images, b.mask, b.domain, b.proprio, steps)
    torch.manual_seed(11)
    noise = torch.randn(2, config.num_actions, config.dim_action)

    with torch.inference_mode():
        context = ours.encode(b.ids, b.images, b.mask)
        chunk = ours.generate_actions(context, b.proprio, b.domain, noise, uniform_grid(steps))

    assert expected.std() > 0.1
    assert largest(chunk, expected) < TOLERANCE


def test_the_shared_context_is_the_same(make, lerobot) -> None:
    config = make.sizes()
    ours, theirs = make.network(config), lerobot.model(config)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    b = make.batch(config)

    with torch.inference_mode():
        expected = theirs.forward_vlm(b.ids, b.images, b.mask)
        context = ours.encode(b.ids, b.images, b.mask)

    assert largest(context.encoded, expected["vlm_features"]) < TOLERANCE
    assert largest(context.auxiliary, expected["aux_visual_inputs"]) < TOLERANCE


@pytest.mark.parametrize("mode", ["ee6d", "agibot_ee6d", "joint", "auto"])
@pytest.mark.parametrize("hetero", [False, True])
def test_the_head_is_the_same_in_every_mode_with_a_time_per_sample(
    make, lerobot, mode, hetero
) -> None:
    config = make.sizes(action_mode=mode, use_hetero_proj=hetero)
    ours = ActionTransformer(config).eval()
    make.randomise(ours)
    theirs = lerobot.soft_transformer.SoftPromptedTransformer(
        hidden_size=config.hidden_size,
        multi_modal_input_size=config.projection_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_ratio,
        num_domains=config.num_domains,
        dim_action=config.dim_action,
        dim_propio=config.dim_proprio,
        len_soft_prompts=config.len_soft_prompts,
        dim_time=config.dim_time,
        max_len_seq=config.max_len_seq,
        use_hetero_proj=hetero,
    ).eval()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    b = make.batch(config)
    t = torch.tensor([0.15, 0.8])
    encoded, auxiliary = torch.randn(2, 87, 48), torch.randn(2, 74, 48)

    with torch.inference_mode():
        expected = theirs(b.domain, encoded, auxiliary, b.noise, b.proprio, t)
        condition = ours.condition(encoded, auxiliary, b.proprio, b.domain)
        clean = ours(b.noise, t, condition)

    assert largest(clean, expected) < TOLERANCE


@pytest.mark.parametrize("mode", ["ee6d", "agibot_ee6d", "joint"])
def test_masks_sigmoids_and_losses_are_the_same(lerobot, mode) -> None:
    ours, theirs = action_space(mode), lerobot.action_hub.build_action_space(mode)
    g = torch.Generator().manual_seed(3)
    predicted, proprio = torch.randn(2, 7, ours.dim, generator=g), torch.randn(2, ours.dim)
    target = torch.rand(2, 7, ours.dim, generator=g)

    seen_proprio, seen_actions = theirs.preprocess(proprio, predicted)
    assert torch.equal(ours.mask(proprio), seen_proprio)
    assert torch.equal(ours.mask(predicted), seen_actions)
    assert torch.equal(ours.finish(predicted), theirs.postprocess(predicted.clone()))
    expected = theirs.compute_loss(predicted, target)
    assert sorted(float(v) for v in ours.loss(predicted, target).values()) == pytest.approx(
        sorted(float(v) for v in expected.values()), rel=1e-6
    )


def test_training_follows_the_same_gradient(make, lerobot) -> None:
    config = make.sizes()
    ours, theirs = make.network(config), lerobot.model(config)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    b = make.batch(config)
    actions = torch.rand(2, config.num_actions, 20)
    torch.manual_seed(5)
    sum(theirs(b.ids, b.images, b.mask, b.domain, b.proprio, actions).values()).backward()
    torch.manual_seed(5)
    t = (torch.rand(1) + torch.arange(2) / 2) % (1 - 1e-5)
    noise = torch.randn_like(actions)

    context = ours.encode(b.ids, b.images, b.mask)
    terms = ours.forward_training(context, b.proprio, b.domain, actions, noise, t)
    sum(terms.values()).backward()

    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        gradient = expected[name].grad
        assert parameter.grad is not None, name
        # The bias of the keys has no influence: its gradient is rounding and nothing else.
        tolerance = 1e-5 + 1e-4 * float(gradient.abs().max())
        assert largest(parameter.grad, gradient) < tolerance, name
