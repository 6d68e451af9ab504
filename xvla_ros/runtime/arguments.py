"""Options of a command line that say how a network is run."""

from __future__ import annotations

import argparse
from typing import Any

from xvla_ros.runtime.options import DTYPES, IMAGES, QUANTIZATIONS, read_steps

_NAMES = ("device", "threads", "steps", "dtype", "quantize", "images", "view_cache")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --device, --threads, --steps, --dtype, --quantize, --images and --view-cache."""
    group = parser.add_argument_group("how the network is run")
    group.add_argument("--device", help="npu[:i] | cuda[:i] | cpu | auto (the default)")
    group.add_argument("--threads", type=int, help="CPU threads of the network")
    group.add_argument(
        "--steps",
        type=_steps,
        metavar="N|TIMES",
        help="denoising steps (10), or their times from 1 downwards, such as 1,0.7,0.4,0.1",
    )
    group.add_argument("--dtype", choices=DTYPES, help="number format; float32 is exact")
    group.add_argument(
        "--quantize", choices=QUANTIZATIONS, help="int8 = linear layers in 8 bits, CPU only"
    )
    group.add_argument("--images", choices=IMAGES, help="how images are made ready")
    group.add_argument(
        "--view-cache",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="keep the features of an image until its view shows another (yes; changes no result)",
    )


def run_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """What of it was given, as `runtime.policy.load_policy` takes it."""
    values = {name: getattr(arguments, name) for name in _NAMES}
    return {name: value for name, value in values.items() if value is not None}


def _steps(text: str) -> int | tuple[float, ...]:
    try:
        return read_steps(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
