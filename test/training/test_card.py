"""The model card says what was chosen and measured."""

from xvla_ros.evaluation.closed_loop import EpisodeResult, LoopSettings
from xvla_ros.evaluation.summary import Summary
from xvla_ros.training.card import model_card
from xvla_ros.training.pipeline import History


def result(seed: int, success: bool) -> EpisodeResult:
    return EpisodeResult("pick", seed, success, 4.0, 8, 0, 0, 0.005, 0.02, (0.05,))


def test_card_states_data_seed_loss_and_success_with_its_interval(recipe):
    history = History(900, 700, 12345, 6, 60.0, 120.0, {"position": 0.0123, "gripper": 0.4})
    seeing = Summary("pick", "seeing", [result(seed, seed != 3) for seed in range(20)])
    blind = Summary("pick", "blind: mean", [result(seed, False) for seed in range(10)])
    card = model_card(recipe, history, [seeing, blind], LoopSettings())
    assert "| pick | seeing | 19/20 | 76-99 % | 4.0 s |" in card
    assert "| pick | blind: mean | 0/10 | 0-28 % | - |" in card
    assert "700 pictures from 2 demonstrations" in card
    assert "200 pictures from corrections" in card
    assert "12,345 parameters" in card
    assert "position 0.0123, gripper 0.4000" in card
    assert "xvla train-demo --out models/demo --seed 0" in card
