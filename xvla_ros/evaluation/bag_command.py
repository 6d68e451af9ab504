"""`xvla evaluate bag`: what a policy would have done on recordings."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xvla_ros.errors import UsageError
from xvla_ros.runtime.arguments import add_run_arguments, run_arguments

if TYPE_CHECKING:
    from xvla_ros.evaluation.bag.discovery import Found
    from xvla_ros.evaluation.bag.files import BagFiles
    from xvla_ros.evaluation.bag_settings import Plan

EXIT_FAILED = 1


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla evaluate bag`."""
    parser = kinds.add_parser(
        "bag",
        help="what the policy would have done on recordings, without moving anything",
        description="Reads rosbag2 recordings (sqlite3, mcap) without ROS, and LeRobot datasets "
        "(v2.1, v3) whose states are BridgeData's, and compares the "
        "policy's chunks with what the arm then did. Deterministic; goes on where an interrupted "
        "run ended.",
    )
    parser.add_argument(
        "bags", nargs="+", type=Path, metavar="BAG", help="bag, LeRobot dataset, or folder of them"
    )
    parser.add_argument("--params", type=Path, help="parameter file of the nodes")
    parser.add_argument("--out", type=Path, default=Path("out/evaluation"), help="result folder")
    parser.add_argument("--model", type=Path, help="model folder; default: the parameter file's")
    parser.add_argument("--instruction", help="instead of what the recording says")
    parser.add_argument("--seeds", type=int, default=1, help="chunks for each observation")
    parser.add_argument("--seed", type=int, default=0, help="other noise everywhere")
    parser.add_argument("--rate", type=float, help="predictions per second of the recording, Hz")
    parser.add_argument(
        "--closed-form",
        dest="baselines",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="baselines in the same table: hold still, constant velocity, previous chunk",
    )
    parser.add_argument(
        "--jobs", type=int, help="processes; default: what cores, bags and memory allow"
    )
    parser.add_argument("--fresh", action="store_true", help="discard an unfinished run in --out")
    parser.add_argument("--no-report", action="store_true", help="write no report.html")
    parser.add_argument(
        "--propose",
        action="store_true",
        help="print the parameter file that names the topics found in each bag, and end",
    )
    add_run_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Evaluates, or proposes; 1 if a bag failed."""
    from xvla_ros import resources
    from xvla_ros.evaluation.bag.files import find
    from xvla_ros.evaluation.bag_run import BagRun
    from xvla_ros.evaluation.bag_settings import plan
    from xvla_ros.evaluation.report.page import write_report

    for option in ("seeds", "jobs"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option} is {value}; ask for at least one")
    bags = find(arguments.bags)
    options = {
        name: getattr(arguments, name)
        for name in ("instruction", "rate", "seeds", "seed", "baselines")
    } | {"run": run_arguments(arguments)}
    chosen = plan(arguments.params, arguments.model, resources.demo_model(), options)
    if arguments.propose:
        return propose(bags, chosen)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with _Bar({bag.name: bag.size for bag in bags}) as bar:
        summary = BagRun(bags, chosen, arguments.out, fresh=arguments.fresh).run(
            arguments.jobs, bar.show
        )
    print_summary(summary)
    print_timing(arguments.out)
    if not arguments.no_report:
        write_report(arguments.out)
    print(f"written to {arguments.out}")
    return EXIT_FAILED if summary["counts"]["bags_failed"] else 0


def propose(bags: Sequence[BagFiles], chosen: Plan) -> int:
    """Prints what is found in each bag as a parameter file; 1 if that fails in one of them."""
    return max(_propose(files, chosen) for files in bags)


def _propose(files: BagFiles, chosen: Plan) -> int:
    from xvla_ros.evaluation.bag.discovery import as_yaml, discover, first_instruction
    from xvla_ros.evaluation.bag.files import LEROBOT, BagError
    from xvla_ros.evaluation.bag.reader import Bag

    try:
        if files.format == LEROBOT:
            found = _in_dataset(files, chosen)
            print(f"# {files.path}\n{as_yaml(found, chosen.settings.instruction)}")
            return 0
        with Bag(files) as bag:
            found = discover(bag, chosen.for_bag(bag.custom).wanted)
            instruction = chosen.settings.instruction or first_instruction(bag, found)
            print(f"# {files.path}\n{as_yaml(found, instruction)}")
    except BagError as error:
        print(f"{files.name}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _in_dataset(files: BagFiles, chosen: Plan) -> Found:
    """The cameras of a dataset; everything else in it has its place."""
    from xvla_ros.evaluation.bag.discovery import Found
    from xvla_ros.evaluation.lerobot.layout import Dataset
    from xvla_ros.evaluation.lerobot.source import find_views
    from xvla_ros.parameters.policy import SLOTS

    views, notes = find_views(Dataset(files.path), chosen.wanted, SLOTS)
    return Found(views, "", None, None, tuple(notes))


def print_summary(summary: dict[str, Any]) -> None:
    """The table of methods, and what is to be said about each bag."""
    from rich.table import Table

    from xvla_ros.evaluation.console import terminal

    console = terminal()
    for bag in summary["bags"]:
        if bag["message"]:
            console.print(f"[red]{bag['name']}: {bag['message']}[/]", soft_wrap=True)
        for warning in bag["warnings"]:
            console.print(f"[yellow]{bag['name']}: {warning}[/]", soft_wrap=True)
    table = Table(title=_title(summary))
    table.add_column("method")
    for unit in ("mm", "deg"):
        for name in ("dt", "1s", "end"):
            table.add_column(f"{unit}\n{name}", justify="right")
    table.add_column("gripper\nagrees", justify="right")
    table.add_column("spread\nmm 1s", justify="right")
    for method, figures in summary["methods"].items():
        cells = [
            _cell(figures[kind][name]["mean"])
            for kind in ("position_error_mm", "rotation_error_deg")
            for name in ("dt", "1s", "end")
        ]
        agreement = figures["gripper_agreement"]["all"]
        share = "" if agreement is None else f"{100.0 * agreement:.0f} %"
        spread = figures["spread_mm"]
        cells += [share, "" if spread is None else _cell(spread["1s"]["mean"])]
        table.add_row(method, *cells)
    console.print(table)
    limits = summary["limits"]
    met = ", ".join(f"{name} {count}" for name, count in limits["counts"].items())
    console.print(
        f"limits: {limits['any']} of {limits['checked']} chunks {f'({met})' if met else ''}"
    )
    for reason, count in summary["refusals"].items():
        console.print(f"refused: {count} chunks, {reason}")


def print_timing(out: Path) -> None:
    """How long an observation took: the network, and everything else."""
    from xvla_ros.evaluation.result import TIMING

    found = json.loads((out / TIMING).read_text(encoding="utf-8")).get("per_observation")
    if found is not None:
        print(
            f"per observation: network {found['network_ms']:.1f} ms, beside it "
            f"{found['beside_ms']:.1f} ms, together {found['total_over_network']:.2f} times the "
            "network's own time"
        )


def _title(summary: dict[str, Any]) -> str:
    counts = summary["counts"]
    return (
        f"{counts['predictions']} predictions in {counts['episodes']} episodes of "
        f"{counts['bags'] - counts['bags_failed']} bags: mean errors"
    )


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


class _Bar:
    """One progress bar over the bytes of all bags."""

    def __init__(self, sizes: dict[str, int]) -> None:
        from tqdm import tqdm

        self._sizes = sizes
        self._shares = dict.fromkeys(sizes, 0.0)
        total = max(sum(sizes.values()), 1) / 1e6
        self._bar = tqdm(total=total, unit="MB", desc="evaluating", bar_format=_FORMAT)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._bar.close()

    def show(self, name: str, share: float) -> None:
        """Takes the progress of one bag."""
        if share > self._shares[name]:
            step = (share - self._shares[name]) * self._sizes[name] / 1e6
            self._shares[name] = share
            # Sums of shares may pass the total by a rounding.
            self._bar.update(min(step, self._bar.total - self._bar.n))


_FORMAT = "{desc}: {percentage:3.0f}% |{bar}| {elapsed} < {remaining}"
