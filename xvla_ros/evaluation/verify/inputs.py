"""Observations to compare policies on: from recordings, episodes, pictures, or made up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.verify.capture import Capture, Enough
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.runtime.interface import Policy, PolicyInput

GENERATED, SIMULATED = "generated", "sim"
DEFAULT_INSTRUCTION = "pick up the red cube"
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
# A gripper in front of the arm, pointing down.
_HOME = Pose(np.array([0.27, 0.0, 0.15]), np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]]))
_SPREAD_M, _SPREAD_RAD = 0.06, 0.3
_COARSE = 12
_PICTURE_SIZE = (640, 480)


def observations(
    source: str, policy: Policy, count: int, views: int, instruction: str | None, task: str = "pick"
) -> list[PolicyInput]:
    """At most `count` observations; their seeds do not matter.

    Args:
        source: `generated`, `sim`, a folder of pictures, or a recording.
        policy: the reference, which drives the simulated arm.
        count: how many at most, spread evenly over a recording.
        views: pictures of a made up observation.
        instruction: None takes the recording's, or the default.
        task: of the simulated episodes.

    Raises:
        UsageError, BagError: there is nothing of the kind.
    """
    if source == GENERATED:
        return generated(count, views, instruction or DEFAULT_INSTRUCTION)
    if source == SIMULATED:
        return simulated(policy, count, task)
    path = Path(source)
    pictures = _pictures(path) if path.is_dir() else []
    if pictures:
        return photographs(pictures[:count], policy.num_views, instruction or DEFAULT_INSTRUCTION)
    return recorded(path, policy, count, instruction)


def generated(count: int, views: int, instruction: str) -> list[PolicyInput]:
    """Smooth random pictures and poses around the middle of the workspace."""
    rng = np.random.default_rng(0)
    return [
        PolicyInput(tuple(_blur(rng) for _ in range(views)), _pose(rng), instruction, 0)
        for _ in range(count)
    ]


def photographs(
    moments: Sequence[Sequence[Path]], slots: int, instruction: str
) -> list[PolicyInput]:
    """Pictures from files, each moment with a pose around the middle of the workspace."""
    rng = np.random.default_rng(0)
    return [
        PolicyInput(tuple(_read(file) for file in files[:slots]), _pose(rng), instruction, 0)
        for files in moments
    ]


def simulated(
    policy: Policy, count: int, task: str, first_seed: int = 500_000
) -> list[PolicyInput]:
    """What the policy saw in lockstep episodes that it drove."""
    from xvla_ros.evaluation.closed_loop import evaluate
    from xvla_ros.sim.world import SimWorld

    capture = Capture(policy, count)
    with SimWorld(task) as world:
        return _until_enough(
            capture, lambda: evaluate(world, capture, task, range(first_seed, first_seed + count))
        )


def recorded(path: Path, policy: Policy, count: int, instruction: str | None) -> list[PolicyInput]:
    """What the nodes would have observed in a bag or a LeRobot dataset."""
    from xvla_ros.evaluation.bag.files import find
    from xvla_ros.evaluation.bag_settings import plan
    from xvla_ros.evaluation.open_loop import OpenLoop
    from xvla_ros.evaluation.opened import open_recording

    options = {"instruction": instruction, "baselines": False}
    chosen = plan(None, Path(), Path(), options)
    capture = Capture(policy, count)
    with ExitStack() as stack:
        for files in find([path]):
            opened = open_recording(stack, files, chosen, policy.num_views)
            settings = replace(opened.settings, baselines=False)
            engine = OpenLoop(capture, opened.recording, settings)
            found = _until_enough(capture, engine.run)
            if len(found) == count:
                break
    if not found:
        raise UsageError(f"{path}: no observation in it; try `xvla evaluate bag {path}` for why")
    return found


def _until_enough(capture: Capture, run: Callable[[], Iterable[Any]]) -> list[PolicyInput]:
    try:
        for _ in run():
            pass
    except Enough:
        pass
    return capture.seen


def _pictures(folder: Path) -> list[list[Path]]:
    """Files of each moment: of the folder itself, or one file of each of its sub-folders."""
    own = _sorted(folder)
    if own:
        return [[file] for file in own]
    by_view = [
        files for sub in sorted(folder.iterdir()) if sub.is_dir() and (files := _sorted(sub))
    ]
    return [list(files) for files in zip(*by_view, strict=False)]


def _sorted(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in _PICTURES)


def _read(file: Path) -> NDArray[np.uint8]:
    picture = cv2.imread(str(file), cv2.IMREAD_COLOR)
    if picture is None:
        raise UsageError(f"{file}: not a picture that OpenCV can read")
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _blur(rng: np.random.Generator) -> NDArray[np.uint8]:
    coarse = rng.integers(0, 256, (_COARSE, _COARSE, 3), np.uint8)
    smooth = cv2.resize(coarse, _PICTURE_SIZE, interpolation=cv2.INTER_CUBIC)
    return np.asarray(smooth, dtype=np.uint8)


def _pose(rng: np.random.Generator) -> Pose:
    shift = rng.uniform(-_SPREAD_M, _SPREAD_M, 3)
    turn = so3_exp(rng.uniform(-_SPREAD_RAD, _SPREAD_RAD, 3))
    return Pose(_HOME.position + shift, turn @ _HOME.rotation)
