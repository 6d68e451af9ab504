"""`xvla parameters`: the reference page of all nodes, and the check of a parameter file. No ROS."""

from __future__ import annotations

import argparse
from pathlib import Path

from xvla_ros import names
from xvla_ros.nodes.parameters.sim import SIM_PARAMETERS
from xvla_ros.parameters.evaluation import EVALUATE, EVALUATION_PARAMETERS
from xvla_ros.parameters.files import check_file
from xvla_ros.parameters.parameter import Parameter, reference_markdown
from xvla_ros.parameters.policy import POLICY_PARAMETERS
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS

NODES: dict[str, tuple[Parameter, ...]] = {
    names.POLICY_NODE: POLICY_PARAMETERS,
    names.SCHEDULER_NODE: SCHEDULER_PARAMETERS,
    names.SIM_NODE: SIM_PARAMETERS,
    EVALUATE: EVALUATION_PARAMETERS,
}

_HEAD = """# Parameters

Made by `xvla parameters`; `xvla parameters --check FILE` checks a file of your own.

Where a parameter changes at run time, `ros2 param set NODE NAME VALUE` sets it; the others are
read at start. A value out of its range, a name that a node does not have, and values that do not
fit together are refused with the reason, and nothing changes.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `xvla parameters`."""
    parser = subparsers.add_parser(
        "parameters",
        description="Describes the parameters of the nodes in Markdown, or checks a file.",
    )
    parser.add_argument("--node", choices=list(NODES), help="only this node")
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="check this file; ends with 2 if it is wrong"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the reference, or that the file is right.

    Raises:
        ParameterFileError: the file is not right.
    """
    nodes = NODES if arguments.node is None else {arguments.node: NODES[arguments.node]}
    if arguments.check is not None:
        check_file(arguments.check, nodes)
        print(f"{arguments.check}: right for {', '.join(nodes)}")
    else:
        print(reference(nodes), end="")
    return 0


def reference(nodes: dict[str, tuple[Parameter, ...]]) -> str:
    """The reference page."""
    sections = (reference_markdown(f"`{node}`", parameters) for node, parameters in nodes.items())
    return "\n".join([_HEAD, *sections])
