"""`xvla evaluate`: measures a policy in closed loop, or on recordings."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xvla_ros.errors import UsageError
from xvla_ros.evaluation import bag_command, compare_command
from xvla_ros.runtime.arguments import add_run_arguments, run_arguments
from xvla_ros.scheduler.params import STRATEGIES
from xvla_ros.sim.tasks import TASKS

if TYPE_CHECKING:
    from xvla_ros.evaluation.closed_loop import EpisodeResult, LoopSettings, Watcher
    from xvla_ros.evaluation.summary import Summary
    from xvla_ros.runtime.interface import Policy
    from xvla_ros.sim.world import SimWorld

# Seeds of the pictures behind a blindfold lie far from those of any evaluation.
_BANK_SEED = 900_000
_BANK_EPISODES = 10
_ASKED = (
    *("task", "episodes", "seed", "latency", "policy_rate", "strategy", "limit"),
    "blindfold",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla evaluate`."""
    parser = subparsers.add_parser("evaluate", description="Measures a policy.")
    kinds = parser.add_subparsers(title="where", metavar="where", required=True)
    sim = kinds.add_parser(
        "sim",
        help="lockstep episodes in the simulator, without ROS",
        description="Runs lockstep episodes: policy, scheduler and simulated arm share one "
        "simulated clock, so the same seeds give the same result on every run.",
    )
    sim.add_argument("--model", type=Path, required=True, help="model folder")
    sim.add_argument("--task", choices=tuple(TASKS), default="pick")
    sim.add_argument("--episodes", type=int, default=100)
    sim.add_argument("--seed", type=int, default=0, help="of the first episode")
    sim.add_argument("--latency", type=float, default=0.1, help="simulated, seconds")
    sim.add_argument("--policy-rate", type=float, default=2.0, help="Hz")
    sim.add_argument(
        "--strategy", default="anchor_fade", help=f"how chunks are joined: {', '.join(STRATEGIES)}"
    )
    sim.add_argument("--limit", type=float, default=15.0, help="seconds of an episode")
    sim.add_argument(
        "--blindfold",
        choices=("none", "other", "mean"),
        default="none",
        help="show pictures of another episode, or the mean picture",
    )
    sim.add_argument("--json", type=Path, help="write all results to this file")
    sim.add_argument(
        "--out", type=Path, help="folder for the result and the report of `xvla evaluate bag`"
    )
    add_run_arguments(sim)
    sim.set_defaults(run=run_sim)
    bag_command.add_parser(kinds)
    compare_command.add_parser(kinds)


def run_sim(arguments: argparse.Namespace) -> int:
    """Prints the success rate with its interval."""
    from xvla_ros.evaluation.closed_loop import LoopSettings
    from xvla_ros.runtime.policy import load_policy
    from xvla_ros.scheduler.params import SchedulerParams
    from xvla_ros.sim.world import SimWorld

    if arguments.episodes < 1:
        raise UsageError(f"--episodes is {arguments.episodes}; ask for at least one")
    try:
        settings = LoopSettings(
            latency_s=arguments.latency,
            policy_rate_hz=arguments.policy_rate,
            limit_s=arguments.limit,
            scheduler=SchedulerParams(strategy=arguments.strategy),
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    policy = load_policy(arguments.model, **run_arguments(arguments))
    begun = time.perf_counter()
    watcher = None
    if arguments.out is not None:
        from xvla_ros.evaluation.sim_result import SimResult

        arguments.out.mkdir(parents=True, exist_ok=True)
        watcher = SimResult(policy, settings, arguments.out)
    world = SimWorld(arguments.task)
    try:
        summary = measure(
            world,
            policy,
            arguments.task,
            range(arguments.seed, arguments.seed + arguments.episodes),
            settings,
            arguments.blindfold,
            watcher,
        )
    finally:
        world.close()
    print(summary.line())
    if arguments.json is not None:
        content: dict[str, Any] = {
            "model": str(arguments.model),
            "model_hash": policy.model_hash,
            "device": policy.device,
            "time_grid": policy.time_grid,
            "approximation": policy.approximation,
            "latency_s": settings.latency_s,
            "policy_rate_hz": settings.policy_rate_hz,
            "strategy": settings.scheduler.strategy,
            **summary.to_dict(),
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if watcher is not None:
        asked = {name: getattr(arguments, name) for name in _ASKED}
        asked |= {"time_grid": policy.time_grid, "approximation": policy.approximation}
        watcher.write(arguments.model, summary, time.perf_counter() - begun, asked)
        print(f"written to {arguments.out}")
    policy.close()
    return 0


def measure(
    world: SimWorld,
    policy: Policy,
    task: str,
    seeds: range,
    settings: LoopSettings,
    blindfold: str = "none",
    watcher: Watcher | None = None,
) -> Summary:
    """Runs the episodes behind a progress bar, with a blindfold or without ("none")."""
    from tqdm import tqdm

    from xvla_ros.evaluation.ablation import PictureBank
    from xvla_ros.evaluation.closed_loop import evaluate
    from xvla_ros.evaluation.summary import Summary

    bank = None
    if blindfold != "none":
        seen = range(_BANK_SEED, _BANK_SEED + _BANK_EPISODES)
        bank = PictureBank.record(world, policy, task, seen, settings)
    results: list[EpisodeResult] = []
    with tqdm(total=len(seeds), desc=f"{task}, {blindfold}", unit="episode") as bar:
        for index, seed in enumerate(seeds):
            sight = bank.blindfold(blindfold, index) if bank is not None else None
            results.extend(evaluate(world, policy, task, [seed], settings, sight, watcher=watcher))
            bar.set_postfix(success=sum(result.success for result in results))
            bar.update()
    return Summary(task, "seeing" if bank is None else f"blind: {blindfold}", results)
