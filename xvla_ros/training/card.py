"""The model card: only what was chosen and what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from xvla_ros.evaluation.closed_loop import LoopSettings
from xvla_ros.evaluation.summary import Summary
from xvla_ros.training.pipeline import FIRST_SEED, History
from xvla_ros.training.recipe import INSTRUCTIONS, Recipe


def model_card(
    recipe: Recipe, history: History, summaries: Sequence[Summary], settings: LoopSettings
) -> str:
    """The README.md of a model folder."""
    network, optimisation, plan = recipe.network, recipe.optimisation, recipe.collection
    loss = ", ".join(f"{name} {value:.4f}" for name, value in history.loss.items())
    rounds = ", ".join(str(step) for step in plan.rounds)
    asked = "\n".join(
        f"- {task}: " + "; ".join(f'"{sentence}"' for sentence in sentences)
        for task, sentences in INSTRUCTIONS.items()
    )
    return f"""# Demo policy: a small X-VLA for the simulated WidowX 250S

Reaches for the red cube, or picks it up, from two 640x480 camera pictures, the commanded pose and
an instruction. It shares architecture, conventions and loader with the published X-VLA
checkpoints (Zheng et al. 2025, arXiv:2510.10274; github.com/2toinf/X-VLA), at a size that runs on
one CPU core. It was trained in the simulator of this package and knows nothing else: it is a means
to see and test the loop, not a policy for a real arm.

## Network

{history.parameters:,} parameters, float32. Pictures {network.image_size}x{network.image_size};
DaViT of widths {network.vision_widths} with {network.vision_depths} blocks; text encoder of
{network.text_layers} layers and action transformer of {network.depth} blocks, both
{network.width} wide with {network.heads} heads; {network.soft_prompts} soft prompts;
{network.horizon} actions.

Conventions are those of the WidowX checkpoint: domain 0 (Bridge), positions in metres without
normalisation, row-interleaved rot6d of R_ee D^T with D = Ry(+90 deg), gripper = probability of
closed and never shown to the network, 1/6 s between actions, proprio = commanded pose. View
slot 0 is the simulator's camera "{recipe.cameras[0]}", slot 1 "{recipe.cameras[1]}", slot 2 is
empty.

## Instructions

The first of each line is what the simulator states; the others were trained with too.

{asked}

## Data

Scripted expert in the simulator, which labels any state for either task; the task of an example
is drawn independently of its picture, so only the instruction tells it. Every picture is labelled
from the commanded pose and from a second one near it, turned a good deal about the vertical.

- {history.expert_pictures} pictures from {plan.expert_episodes} demonstrations with drifting
  commands, gripper slips and starts anywhere above the table (episode seeds from {FIRST_SEED}).
- {history.pictures - history.expert_pictures} pictures from corrections (DAgger):
  {plan.round_episodes} episodes driven by the policy as it was after {rounds} steps, with a
  latency from 0 to 0.35 s, labelled by the expert.

## Training

X-VLA's own loss (mean squared error x 500 for positions, x 10 for rotations, binary cross-entropy
for the gripper) on noisy actions with stratified time, plus one small term that is not part of
X-VLA: a linear layer, dropped at the end, must tell the cube's position and yaw from the mean token
of each view (mean squared error x {optimisation.landmark_weight:g}). Without it the vision tower
takes very long to notice how the cube is turned. AdamW, {history.steps} steps of
{optimisation.batch}, learning rate {optimisation.learning_rate} with warm-up and cosine decay,
weight decay {optimisation.weight_decay}, gradient norm at most {optimisation.clip_norm}, averaged
weights (decay {optimisation.ema_decay}), brightness, contrast and colour changes. Seed
{recipe.seed}. Wall time on a shared machine with two cores: {history.collection_s / 60:.0f} min for
the demonstrations, {history.training_s / 60:.0f} min for training and corrections. Loss over the
last steps: {loss}.

## Results

Lockstep episodes with the package's own scheduler and command tick: {settings.latency_s} s of
latency, {settings.policy_rate_hz:g} predictions a second, limit {settings.limit_s:g} s, seeds
0 and up, none of them in the training. "Blind" shows pictures of another episode, or the mean
picture, in place of what the cameras see.

| task | pictures | success | 95 % interval (Wilson) | mean time to success |
|---|---|---|---|---|
{_rows(summaries)}

## Making it again

```
xvla train-demo --out models/demo --seed {recipe.seed}
xvla evaluate sim --model models/demo --task pick --episodes 100
```

The same seed gives the same data and steps; results differ in the last digits between versions of
the libraries and between CPUs.
"""


def _rows(summaries: Sequence[Summary]) -> str:
    lines = []
    for summary in summaries:
        low, high = summary.success.interval()
        rate = f"{summary.success.successes}/{summary.success.trials}"
        time = f"{summary.seconds_to_success:.1f} s" if summary.success.successes else "-"
        lines.append(
            f"| {summary.task} | {summary.condition} | {rate} | "
            f"{100 * low:.0f}-{100 * high:.0f} % | {time} |"
        )
    return "\n".join(lines)
