"""`xvla verify`: is another device, number format or time grid as good as the exact network?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xvla_ros.errors import UsageError

if TYPE_CHECKING:
    from xvla_ros.evaluation.verify.closed_loop import ClosedLoop
    from xvla_ros.evaluation.verify.variant import Variant

SCHEMA = "xvla_ros.verify/1"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla verify`."""
    parser = subparsers.add_parser(
        "verify",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="""\
Compares ways of running one model: on the same observations and noise, and in closed loop on the
same seeds. --a is the reference and each --b is compared with it. Both are options of the policy,
name=value, separated by commas, as in the parameter file; none is the exact network.""",
        epilog="""\
examples:
  xvla verify --model DIR --b dtype=bfloat16 --b "steps=[1,.7,.4,.1]"
  xvla verify --model DIR --a device=cpu --b device=npu:0 --inputs recording.mcap
  xvla verify --model models/demo --inputs sim --b steps=5 --closed-loop 400 --jobs 2

Ends with 1 when a --b is outside the tolerances or, in closed loop, is not shown to be as good as
the reference up to --margin.""",
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--a", default="", metavar="OPTIONS", help="the reference")
    parser.add_argument(
        "--b", action="append", default=[], metavar="OPTIONS", help="compared; may be repeated"
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    _add_same_inputs(parser.add_argument_group("on the same observations and noise"))
    _add_closed_loop(parser.add_argument_group("in closed loop, in the simulator"))
    parser.set_defaults(run=run)


def _add_same_inputs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--inputs",
        default="generated",
        metavar="FROM",
        help="a bag or LeRobot dataset; a folder of pictures, or one with a sub-folder for each "
        "view; sim: episodes of the reference; generated (default)",
    )
    group.add_argument(
        "--observations", type=int, default=20, metavar="N", help="0: closed loop only; 20"
    )
    group.add_argument(
        "--noise-seeds", type=int, default=3, metavar="K", help="of each observation, >= 2; 3"
    )
    group.add_argument("--views", type=int, default=3, help="pictures of a generated observation")
    group.add_argument("--instruction", help="instead of what the recording says")
    group.add_argument(
        "--tolerance",
        type=float,
        default=10.0,
        metavar="PERCENT",
        help="root mean square of mm and degrees, as a share of that between two noise seeds; 10",
    )
    group.add_argument(
        "--max-flips", type=float, default=0.1, metavar="PERCENT", help="of the steps; 0.1"
    )
    group.add_argument("--max-mm", type=float, metavar="MM", help="largest difference allowed")
    group.add_argument("--max-deg", type=float, metavar="DEG", help="largest angle allowed")


def _add_closed_loop(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--closed-loop", type=int, metavar="N", help="episodes; 400 or more")
    group.add_argument("--task", choices=("reach", "pick"), default="pick")
    group.add_argument("--seed", type=int, default=0, help="of the first episode")
    group.add_argument("--latency", type=float, default=0.1, help="simulated, seconds")
    group.add_argument("--policy-rate", type=float, default=2.0, help="Hz")
    group.add_argument("--limit", type=float, default=15.0, help="seconds of an episode")
    group.add_argument(
        "--margin", type=float, default=2.0, help="loss of success allowed, percentage points"
    )
    group.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    group.add_argument(
        "--out",
        type=Path,
        default=Path("out/verify"),
        help="keeps every episode: the same command goes on where it was interrupted",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the tables; 1 when a variant is not good enough."""
    from xvla_ros.evaluation.machine import machine
    from xvla_ros.evaluation.result import write_json
    from xvla_ros.evaluation.verify.variant import Variant
    from xvla_ros.model.checkpoint import weights_hash

    if not arguments.b:
        raise UsageError("--b is missing: say what to compare, e.g. --b dtype=bfloat16")
    reference = Variant.parse(arguments.a)
    variants = [Variant.parse(text) for text in arguments.b]
    labels = [variant.label for variant in (reference, *variants)]
    if len(set(labels)) < len(labels):
        raise UsageError(f"two ways are the same: {'; '.join(labels)}")
    for name, least in (("observations", 0), ("noise_seeds", 2), ("views", 1), ("jobs", 1)):
        _at_least(arguments, name, least)
    digest = weights_hash(arguments.model)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "machine": machine(),
        "model": {"name": arguments.model.absolute().name, "hash": digest},
        "a": reference.label,
    }
    good = True
    if arguments.observations:
        content["same_inputs"] = part = _same_inputs(arguments, reference, variants)
        good = all(row["within"] for row in part["variants"])
    if arguments.closed_loop is not None:
        found = _closed_loop(arguments, reference, variants, digest)
        content["closed_loop"] = found.to_dict()
        good = good and all(verdict.accepted for _, verdict in found.verdicts())
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.json, content)
    return 0 if good else 1


def _at_least(arguments: argparse.Namespace, name: str, least: int) -> None:
    value = getattr(arguments, name)
    if value < least:
        raise UsageError(f"--{name.replace('_', '-')} is {value}; at least {least} is needed")


def _same_inputs(
    arguments: argparse.Namespace, reference: Variant, variants: Sequence[Variant]
) -> dict[str, Any]:
    """Asks one policy after the other: only one network is in memory at a time."""
    from tqdm import tqdm

    from xvla_ros.evaluation.console import terminal
    from xvla_ros.evaluation.verify import inputs, same_inputs
    from xvla_ros.evaluation.verify.agreement import to_json
    from xvla_ros.evaluation.verify.tables import same_inputs_table

    allowed = same_inputs.Tolerance(
        arguments.tolerance / 100.0,
        arguments.max_flips / 100.0,
        arguments.max_mm,
        arguments.max_deg,
    )
    policy = reference.load(arguments.model)
    threshold = policy.gripper_threshold
    asked = inputs.observations(
        arguments.inputs,
        policy,
        arguments.observations,
        min(arguments.views, policy.num_views),
        arguments.instruction,
        arguments.task,
    )
    total = len(asked) * arguments.noise_seeds
    found = []
    with tqdm(total=total * (1 + len(variants)), unit="prediction") as bar:
        bar.set_description(reference.label)
        base = same_inputs.Answers.of(policy, asked, arguments.noise_seeds, bar.update)
        policy.close()
        for variant in variants:
            bar.set_description(variant.label)
            policy = variant.load(arguments.model)
            answers = same_inputs.Answers.of(policy, asked, arguments.noise_seeds, bar.update)
            policy.close()
            found.append(same_inputs.compare(variant.label, base, answers, threshold))
    spread = same_inputs.spread_of_seeds(base, threshold)
    terminal().print(same_inputs_table(found, spread, allowed, len(asked)))
    return {
        "inputs": arguments.inputs,
        "observations": len(asked),
        "noise_seeds": arguments.noise_seeds,
        "prediction_s_a": base.seconds,
        "spread_of_seeds": to_json(spread),
        "variants": [row.to_dict(spread, allowed) for row in found],
    }


def _closed_loop(
    arguments: argparse.Namespace, reference: Variant, variants: Sequence[Variant], digest: str
) -> ClosedLoop:
    from xvla_ros.evaluation.console import terminal
    from xvla_ros.evaluation.verify.closed_loop import compare_in_closed_loop
    from xvla_ros.evaluation.verify.tables import closed_loop_table
    from xvla_ros.evaluation.verify.trial import Conditions

    _at_least(arguments, "closed_loop", 1)
    conditions = Conditions(
        str(arguments.model),
        arguments.task,
        arguments.latency,
        arguments.policy_rate,
        arguments.limit,
    )
    try:
        conditions.settings()
    except ValueError as error:
        raise UsageError(str(error)) from error
    found = compare_in_closed_loop(
        arguments.out,
        conditions,
        reference,
        variants,
        range(arguments.seed, arguments.seed + arguments.closed_loop),
        model_hash=digest,
        margin=arguments.margin / 100.0,
        processes=arguments.jobs,
    )
    terminal().print(closed_loop_table(found))
    return found
