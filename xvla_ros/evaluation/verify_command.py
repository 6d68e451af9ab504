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
Compares ways of running one model: on the same inputs and noise, and in closed loop on the same
seeds. --a is the reference and --b each way that is compared with it. Both are options of the
policy, name=value, separated by commas; nothing is the exact network.""",
        epilog="""\
examples:
  xvla verify --model DIR --b dtype=bfloat16 --b "steps=[1,.7,.4,.1]"
  xvla verify --model DIR --a device=cpu --b device=npu:0 --inputs recording.mcap
  xvla verify --model models/demo --b steps=5 --closed-loop 400 --jobs 2 --out out/verify

Ends with 1 when a --b is outside the tolerances or, in closed loop, not shown to be as good as
the reference up to --margin.""",
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--a", default="", metavar="OPTIONS", help="the reference")
    parser.add_argument(
        "--b", action="append", default=[], metavar="OPTIONS", help="compared; may be repeated"
    )
    loop = parser.add_argument_group("in closed loop, in the simulator")
    loop.add_argument("--closed-loop", type=int, metavar="N", help="episodes of each way; 400")
    loop.add_argument("--task", choices=("reach", "pick"), default="pick")
    loop.add_argument("--seed", type=int, default=0, help="of the first episode")
    loop.add_argument("--latency", type=float, default=0.1, help="simulated, seconds")
    loop.add_argument("--policy-rate", type=float, default=2.0, help="Hz")
    loop.add_argument("--limit", type=float, default=15.0, help="seconds of an episode")
    loop.add_argument(
        "--margin", type=float, default=2.0, help="loss of success allowed, percentage points"
    )
    loop.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    loop.add_argument(
        "--out",
        type=Path,
        default=Path("out/verify"),
        help="keeps every episode: the same command goes on where it was interrupted",
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the tables; 1 when a variant is not good enough."""
    from xvla_ros.evaluation.result import versions, write_json
    from xvla_ros.evaluation.verify.variant import Variant
    from xvla_ros.model.checkpoint import weights_hash

    if not arguments.b:
        raise UsageError("--b is missing: say what to compare, e.g. --b dtype=bfloat16")
    reference = Variant.parse(arguments.a)
    variants = [Variant.parse(text) for text in arguments.b]
    labels = [variant.label for variant in (reference, *variants)]
    if len(set(labels)) < len(labels):
        raise UsageError(f"two ways are the same: {'; '.join(labels)}")
    digest = weights_hash(arguments.model)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "versions": versions(),
        "model": {"name": arguments.model.absolute().name, "hash": digest},
        "a": reference.label,
    }
    good = True
    if arguments.closed_loop is not None:
        found = _closed_loop(arguments, reference, variants, digest)
        content["closed_loop"] = found.to_dict()
        good = all(verdict.accepted for _, verdict in found.verdicts())
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.json, content)
    return 0 if good else 1


def _closed_loop(
    arguments: argparse.Namespace, reference: Variant, variants: Sequence[Variant], digest: str
) -> ClosedLoop:
    from rich.console import Console

    from xvla_ros.evaluation.verify.closed_loop import compare_in_closed_loop
    from xvla_ros.evaluation.verify.tables import closed_loop_table
    from xvla_ros.evaluation.verify.trial import Conditions

    for name in ("closed_loop", "jobs"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
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
    Console().print(closed_loop_table(found))
    return found
