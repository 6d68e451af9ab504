"""Corrections of a policy: it drives, and the expert says what it should have done (DAgger).

Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and Structured Prediction to
No-Regret Online Learning" (2011): states that the policy itself gets into are labelled too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xvla_ros.evaluation.closed_loop import Images, LoopSettings, evaluate
from xvla_ros.geometry import Pose
from xvla_ros.runtime.policy import load_policy
from xvla_ros.sim.world import SimWorld
from xvla_ros.training.recipe import TASKS
from xvla_ros.training.recorder import Recorder, episode_rng
from xvla_ros.training.samples import Samples

# Pictures are dear and episodes are not: the loop runs a little faster than on the robot.
_POLICY_RATE_HZ = 3.0
_LIMIT_S = 10.0
_LONGEST_LATENCY_S = 0.35
_PICK_SHARE = 0.8


def correct(
    world: SimWorld, folder: Path, episodes: Sequence[int], cameras: tuple[str, ...]
) -> list[Samples]:
    """Labelled episodes of the policy in `folder`, one entry each (see `collect.Job`).

    Latency differs from episode to episode, as it does between machines.
    """
    policy = load_policy(folder, device="cpu", threads=1)
    parts = []
    for seed in episodes:
        rng = episode_rng(seed)
        recorder = Recorder.of_folder(folder, cameras, rng)

        def observe(
            seen: SimWorld, pose: Pose, images: Images, recorder: Recorder = recorder
        ) -> None:
            recorder.keep(seen, pose, [image for image in images if image is not None])

        task = "pick" if rng.random() < _PICK_SHARE else TASKS[0]
        settings = LoopSettings(
            latency_s=rng.uniform(0.0, _LONGEST_LATENCY_S),
            policy_rate_hz=_POLICY_RATE_HZ,
            limit_s=_LIMIT_S,
            cameras=cameras,
        )
        list(evaluate(world, policy, task, [seed], settings, observer=observe))
        parts.append(recorder.samples())
    policy.close()
    return parts
