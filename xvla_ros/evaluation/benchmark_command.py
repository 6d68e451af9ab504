"""`xvla benchmark`: figures that anyone can measure again, one sub-command for each part."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from xvla_ros.evaluation import benchmark_commands_command, benchmark_model_command
from xvla_ros.evaluation.benchmark_scheduler import command as scheduler
from xvla_ros.evaluation.soak import command as sequences

if TYPE_CHECKING:
    # What `add_subparsers` returns has no public name.
    Kinds = argparse._SubParsersAction[argparse.ArgumentParser]

# Each adds the parser of one sub-command; their modules import what they measure only in `run`.
PARTS: tuple[Callable[[Kinds], None], ...] = (
    scheduler.add_parser,
    benchmark_model_command.add_parser,
    benchmark_commands_command.add_parser,
    sequences.add_parser,
)


def add_parser(subparsers: Kinds) -> None:
    """Adds `xvla benchmark`."""
    parser = subparsers.add_parser(
        "benchmark",
        description="Measures a part of the package and writes the figures as JSON, with the "
        "machine and the versions they were measured with.",
    )
    kinds = parser.add_subparsers(title="what", metavar="what", required=True)
    for add in PARTS:
        add(kinds)
