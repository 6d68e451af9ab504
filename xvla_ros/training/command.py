"""`xvla train-demo`: makes the demo checkpoint again, from nothing."""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xvla_ros.errors import UsageError

if TYPE_CHECKING:
    from xvla_ros.training.pipeline import History
    from xvla_ros.training.recipe import Recipe

REPORT_FILE = "training.json"
_EVALUATION_SEEDS = range(100)
_BLIND_SEEDS = range(50)
_GOAL, _BLIND_GOAL = 0.95, 0.20


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla train-demo`."""
    parser = subparsers.add_parser(
        "train-demo",
        description="Records scripted demonstrations in the simulator, trains a small X-VLA on "
        "them with rounds of corrections, evaluates it and writes its model card.",
    )
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--seed", type=int, default=0, help="of weights, noise and batches")
    parser.add_argument("--steps", type=int, help="training steps; default: the recipe's")
    parser.add_argument("--episodes", type=int, help="demonstrations; default: the recipe's")
    parser.add_argument("--processes", type=int, default=2, help="that record episodes")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of the training")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("out/train-demo"),
        help="recordings; used again when the same run is repeated",
    )
    parser.add_argument("--log", type=Path, help="also write the log to this file")
    parser.add_argument("--no-evaluation", action="store_true", help="stop after the training")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Makes the folder; 1 when the policy that came out fails its own evaluation."""
    import torch
    from tqdm import tqdm

    from xvla_ros.training.pipeline import Pipeline
    from xvla_ros.training.recipe import Recipe

    recipe = replace(Recipe(), seed=arguments.seed)
    if arguments.steps is not None:
        recipe = recipe.shortened(arguments.steps)
    if arguments.episodes is not None:
        plan = replace(recipe.collection, expert_episodes=arguments.episodes)
        recipe = replace(recipe, collection=plan)
    for name, value in (
        ("steps", recipe.optimisation.steps),
        ("processes", arguments.processes),
        ("threads", arguments.threads),
        ("episodes", recipe.collection.expert_episodes),
    ):
        if value < 1:
            raise UsageError(f"--{name} is {value}; it must be at least 1")
    _start_log(arguments.log)
    torch.set_num_threads(arguments.threads)
    bars: dict[str, tqdm[None]] = {}

    def progress(what: str, done: int, total: int) -> None:
        if what not in bars:
            bars[what] = tqdm(total=total, desc=what)
        bar = bars[what]
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    cache = arguments.cache / recipe.fingerprint()
    history = Pipeline(arguments.out, cache, recipe, arguments.processes, progress).run()
    report = cache / REPORT_FILE
    report.write_text(json.dumps(history.to_dict(), indent=2) + "\n", encoding="utf-8")
    if arguments.no_evaluation:
        return 0
    return _evaluate(arguments, recipe, history)


def _evaluate(arguments: argparse.Namespace, recipe: Recipe, history: History) -> int:
    """Lockstep episodes of both tasks, seeing and blind; writes the model card."""
    from xvla_ros.evaluation.closed_loop import LoopSettings
    from xvla_ros.evaluation.command import measure
    from xvla_ros.runtime.policy import load_policy
    from xvla_ros.sim.world import SimWorld
    from xvla_ros.training.card import model_card

    settings = LoopSettings(cameras=recipe.cameras)
    policy = load_policy(arguments.out, device="cpu", threads=arguments.threads)
    world = SimWorld()
    try:
        summaries = [
            measure(world, policy, task, seeds, settings, blindfold)
            for task, seeds, blindfold in (
                ("pick", _EVALUATION_SEEDS, "none"),
                ("reach", _EVALUATION_SEEDS, "none"),
                ("pick", _BLIND_SEEDS, "other"),
                ("pick", _BLIND_SEEDS, "mean"),
            )
        ]
    finally:
        world.close()
        policy.close()
    for summary in summaries:
        print(summary.line())
    card = model_card(recipe, history, summaries, settings)
    (arguments.out / "README.md").write_text(card, encoding="utf-8")
    seeing, blind = summaries[:2], summaries[2:]
    good = all(summary.success.rate >= _GOAL for summary in seeing)
    good = good and all(summary.success.rate <= _BLIND_GOAL for summary in blind)
    return 0 if good else 1


def _start_log(file: Path | None) -> None:
    """Progress goes to the screen through the bars, the log to a file if one is named."""
    logger = logging.getLogger("xvla.training")
    logger.setLevel(logging.INFO)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(file, mode="w", encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger.addHandler(handler)
