"""The `xvla` command.

A sub-command lives in its own module with a function `add_parser(subparsers)`, which adds the
parser and sets its default `run` to a function from the parsed arguments to the exit code. Only
the module of the command that is asked for is imported, so that the command works, and explains
what is missing, with any subset of the optional libraries installed.

Exit codes: 0 success; 1 the command ran and its result is a failure; 2 wrong usage or environment,
with one line of cause and mend; 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from xvla_ros import __version__
from xvla_ros.errors import UsageError

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

COMMANDS = {
    "benchmark": (
        "xvla_ros.evaluation.benchmark_command",
        "measure a part of the package: figures that anyone can repeat",
    ),
    "calibrate": (
        "xvla_ros.evaluation.calibrate_command",
        "measure the lag of arm and gripper, from a recording or live",
    ),
    "deadman": (
        "xvla_ros.nodes.deadman_command",
        "the space bar as a button that must be held for the arm to move",
    ),
    "demo": (
        "xvla_ros.evaluation.demo_command",
        "run the demo policy on the simulated arm through ROS 2, with report, video and bag",
    ),
    "doctor": ("xvla_ros.runtime.doctor", "report what this machine offers and what is missing"),
    "evaluate": ("xvla_ros.evaluation.command", "measure a policy in closed loop"),
    "parameters": (
        "xvla_ros.nodes.parameters.command",
        "describe the nodes' parameters, check a parameter file",
    ),
    "record": (
        "xvla_ros.evaluation.record_command",
        "record everything needed to repeat an episode to a bag",
    ),
    "replay": (
        "xvla_ros.evaluation.replay_command",
        "play a recording into the real nodes without moving anything, and report",
    ),
    "verify": (
        "xvla_ros.evaluation.verify_command",
        "compare devices, number formats and time grids of one model",
    ),
    "train-demo": ("xvla_ros.training.command", "make the demo checkpoint again"),
}

# Errors that already say in one line what to mend. Named, not imported: a command that does not
# reach these modules must not need their libraries.
_USAGE_ERRORS = (
    ("xvla_ros.runtime.device", "DeviceError"),
    ("xvla_ros.model.errors", "CheckpointError"),
    ("xvla_ros.parameters.parameter", "ParameterRefused"),
)
_EXTRAS = {
    "policy": ("torch", "safetensors", "tokenizers", "PIL"),
    "sim": ("mujoco",),
    "eval": ("rosbags", "matplotlib", "pyarrow", "tqdm", "rich"),
    "bench": ("transformers", "einops"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (without the program's name) and returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        arguments = _parser(chosen).parse_args(words)
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except ImportError as error:
        return _refuse(_missing(error))
    except Exception as error:
        if not _is_usage_error(error):
            raise
        return _refuse(str(error))


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """The parser, with the arguments of the chosen command only."""
    parser = argparse.ArgumentParser(
        prog="xvla", description="X-VLA policies in a closed loop on a WidowX 250S."
    )
    parser.add_argument("--version", action="version", version=f"xvla {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="command", required=True)
    for name, (module, text) in COMMANDS.items():
        if name == chosen:
            importlib.import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=text)
    return parser


def _is_usage_error(error: Exception) -> bool:
    kinds = [
        getattr(sys.modules[module], name)
        for module, name in _USAGE_ERRORS
        if module in sys.modules
    ]
    return isinstance(error, (UsageError, *kinds))


def _missing(error: ImportError) -> str:
    """Cause and mend of a library that is not there or does not load."""
    cause = " ".join(str(error).split())
    root = (error.name or "").split(".")[0]
    for extra, modules in _EXTRAS.items():
        if root in modules:
            return f"{cause} (pip install 'xvla-ros[{extra}]')"
    if error.name in ("xvla_ros.msg", "xvla_ros.srv", "xvla_ros.action"):
        return f"{cause}: the messages are not built (colcon build, then source the workspace)"
    if root.endswith(("_msgs", "_interfaces", "_srvs")) or root in ("rclpy", "rosgraph_msgs"):
        return f"{cause} (source the setup.bash of ROS 2 and of this workspace)"
    if root == "xvla_ros":
        raise error
    return cause


def _refuse(text: str) -> int:
    print(f"xvla: error: {' '.join(text.split())}", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
