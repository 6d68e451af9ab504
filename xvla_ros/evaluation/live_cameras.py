"""Nodes that look at the cameras of a recording. Free of ROS."""

from __future__ import annotations

from pathlib import Path

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag.discovery import Found, as_yaml, discover
from xvla_ros.evaluation.bag.files import BagError, find
from xvla_ros.evaluation.bag.reader import Bag
from xvla_ros.nodes.bringup import Arguments, BringUp, BringUpError
from xvla_ros.nodes.bringup_replay import describe_replay, with_cameras

_CAMERAS = "cameras.yaml"


def describe(arguments: Arguments) -> BringUp:
    """A replay whose policy looks at the bag's own cameras, unless a parameter file is given.

    Raises:
        BringUpError: see `describe_replay`, and a bag that cannot be used.
    """
    bringup = describe_replay(arguments)
    if not arguments.bag or arguments.params_file:
        return bringup
    found = _discover(Path(arguments.bag).expanduser().absolute())
    out = Path(arguments.out).expanduser().absolute()
    return with_cameras(bringup, write_cameras(found, out))


def write_cameras(found: Found, out: Path) -> Path:
    """The parameter file that names a recording's own cameras."""
    out.mkdir(parents=True, exist_ok=True)
    path = (out / _CAMERAS).absolute()
    path.write_text(as_yaml(found), encoding="utf-8")
    return path


def _discover(path: Path) -> Found:
    try:
        bags = find([path])
        if len(bags) != 1:
            raise BringUpError(f"bag: {path} holds {len(bags)} bags: name one of them")
        with Bag(bags[0]) as bag:
            return discover(bag)
    except (BagError, UsageError) as error:
        raise BringUpError(f"bag: {error}") from error
