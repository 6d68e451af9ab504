"""Arithmetic counted from the sizes against what torch counts while the networks run."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from xvla_ros.model.config import XVLAConfig
from xvla_ros.model.time_grid import uniform_grid
from xvla_ros.runtime.benchmark.gemm_rate import GemmRates, ShapeRate, measure_rates
from xvla_ros.runtime.benchmark.lerobot_peer import Inputs, Peer
from xvla_ros.runtime.benchmark.work import Gemm, exact_work, published_work
from xvla_ros.runtime.device import resolve_device

STEPS = 3


def fused(query, key, value, *_args, **_kwargs) -> int:
    return sdpa_flop_count(query, key, value)


# The counter does not know the CPU's fused attention by itself.
FUSED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: fused}


def inputs(make, config: XVLAConfig, side: int) -> Inputs:
    b = make.batch(config, side)
    mask = torch.tensor([[True, True, False]])
    return Inputs(b.ids[:1], b.images[:1], mask, b.proprio[:1], b.domain[:1], b.noise[:1])


def counted(run) -> float:
    counter = FlopCounterMode(display=False, custom_mapping=FUSED)
    with torch.inference_mode(), counter:
        run()
    return counter.get_total_flops()


def config_of(make, stages: str, **fields) -> XVLAConfig:
    return make.sizes(getattr(make, stages), **fields)


@pytest.mark.parametrize(("stages", "side"), [("THREE_STAGES", 93), ("FOUR_STAGES", 100)])
def test_the_published_code_does_what_is_counted_for_it(make, stages, side) -> None:
    config = config_of(make, stages)
    peer, i = Peer(make.network(config)), inputs(make, config, side)

    found = counted(lambda: peer.actions(i, STEPS))

    expected = 1e9 * published_work(config, side, 2, 3, STEPS).gflop()["total"]
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("stages", "side", "fields"),
    [
        ("THREE_STAGES", 93, {}),
        ("FOUR_STAGES", 100, {"depth": 1}),
        ("FOUR_STAGES", 100, {"depth": 3}),
    ],
)
def test_our_network_does_what_is_counted_for_it(make, stages, side, fields) -> None:
    config = config_of(make, stages, **fields)
    model, i = make.network(config), inputs(make, config, side)

    def run() -> None:
        context = model.encode(i.input_ids, i.images, i.image_mask)
        model.generate_actions(context, i.proprio, i.domain_id, i.noise, uniform_grid(STEPS))

    expected = 1e9 * exact_work(config, side, 2, 3, STEPS).gflop()["total"]
    assert counted(run) == pytest.approx(expected, rel=1e-9)


def test_ours_is_less_work_than_the_published_code() -> None:
    for views, slots in ((1, 1), (1, 3), (3, 3)):
        ours, theirs = (
            work(XVLAConfig(), 224, views, slots, 10).gflop()
            for work in (exact_work, published_work)
        )
        assert ours["davit"] < 0.79 * theirs["davit"]
        assert ours["text_encoder"] == theirs["text_encoder"]
        assert ours["denoising"] < 0.97 * theirs["denoising"]


def test_the_published_size_takes_as_much_as_others_have_counted() -> None:
    gflop = published_work(XVLAConfig(), 224, 1, 3, 1).gflop()
    # torch's counter on the published code; attention is 6.8 of a step.
    assert gflop["davit"] == pytest.approx(162.3, abs=0.1)
    assert gflop["text_encoder"] == pytest.approx(30.7, abs=0.1)
    assert gflop["denoising"] == pytest.approx(165.4, abs=0.1)


def test_rates_are_weighted_as_the_network_has_the_shapes() -> None:
    often, rare = Gemm(10, 10, 10, count=9), Gemm(100, 10, 10)
    rates = GemmRates((ShapeRate(often, 1.0), ShapeRate(rare, 2.0)))
    assert rates.seconds == 9 * 1.0 + 2.0
    assert rates.gflop_per_s == pytest.approx((9 * 2000 + 20000) / 1e9 / 11.0)
    assert often.times(2).flops == 2 * often.flops


def test_equal_shapes_are_measured_once_and_depthwise_convolutions_are_none() -> None:
    gemms = [
        Gemm(4, 8, 8, count=2),
        Gemm(4, 8, 8),
        Gemm(2, 4, 2, batch=3, kind="attention"),
        Gemm(9, 9, 1, batch=8, kind="depthwise"),
    ]
    told: list[tuple[int, int]] = []

    rates = measure_rates(
        gemms,
        resolve_device("cpu"),
        torch.float32,
        seconds_per_shape=0.0,
        progress=lambda done, total: told.append((done, total)),
    )

    assert [(s.gemm.kind, s.gemm.count) for s in rates.shapes] == [("linear", 3), ("attention", 1)]
    assert rates.gflop == pytest.approx((3 * 512 + 96) / 1e9)
    assert all(shape.seconds > 0.0 for shape in rates.shapes)
    assert told == [(0, 2), (1, 2), (2, 2)]
