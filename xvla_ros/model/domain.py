"""Domains: what the numbers of a checkpoint mean for one robot.

X-VLA numbers the data sets it was trained on. A domain fixes the time between two actions, the
order of the rot6d numbers, the frame of the poses and the sense of the gripper. The built-in table
holds the published domains whose rate is known (X-VLA, datasets/domain_config.py and
datasets/domain_handler, github.com/2toinf/X-VLA; thresholds from its evaluation clients).
A file `domains.json` beside the checkpoint changes or adds domains.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xvla_ros import ee6d
from xvla_ros.geometry import Pose
from xvla_ros.model.errors import CheckpointError

Array = NDArray[np.float64]
Matrix = tuple[tuple[float, float, float], ...]

DOMAINS_FILE = "domains.json"
WIDOWX = "a WidowX"
PUBLISHED_STEPS = 30
"""Actions of a chunk of the published checkpoints, which the steps of the built-in table assume."""
_IDENTITY: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
# Ry(+90 deg): BridgeData states are zero when the gripper points straight down
# (rail-berkeley/bridge_data_robot, widowx_controller and transformation_utils).
_BRIDGE_EE_FROM_STATE: Matrix = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0))


class DomainError(CheckpointError):
    """A domains.json with a wrong value, or a domain that nothing describes."""


@dataclass(frozen=True)
class Domain:
    """The conventions of one domain; poses are those of the end effector in the robot's base."""

    id: int
    name: str
    step_dt: float
    """Seconds between two actions."""
    rotation_layout: ee6d.RotationLayout = "interleaved"
    ee_from_state: Matrix = _IDENTITY
    """D (3x3) in R_ee = R_state @ D: R_state is what the checkpoint reads and writes."""
    gripper_closed_is_one: bool = True
    close_above: float = 0.5
    """Probability of closed above which the gripper closes."""
    open_below: float = 0.5
    """Probability of closed below which the gripper opens."""
    robot: str = WIDOWX
    """What the data was recorded on; said to the user, used for nothing."""

    def __post_init__(self) -> None:
        d = np.asarray(self.ee_from_state, dtype=np.float64)
        rigid = d.shape == (3, 3) and np.allclose(d @ d.T, np.eye(3), atol=1e-6)
        if not rigid or np.linalg.det(d) < 0.0:
            raise DomainError(f"ee_from_state is not a rotation matrix: {self.ee_from_state}")
        if not 0.0 < self.step_dt < 10.0:
            raise DomainError(f"step_dt must lie in (0, 10) seconds, not {self.step_dt}")
        if self.rotation_layout not in get_args(ee6d.RotationLayout):
            raise DomainError(
                f"rotation_layout is {self.rotation_layout!r}; "
                f"known: {', '.join(get_args(ee6d.RotationLayout))}"
            )
        if not 0.0 <= self.open_below <= self.close_above <= 1.0:
            raise DomainError(
                "0 <= open_below <= close_above <= 1 does not hold for "
                f"{self.open_below} and {self.close_above}"
            )

    def encode_proprio(self, pose: Pose) -> Array:
        """The numbers (20,) of the current end-effector pose; the gripper is zero.

        X-VLA never shows the measured gripper to the network.
        """
        rotation = pose.rotation @ self._d.T
        return ee6d.pack(pose.position, rotation, 0.0, self.rotation_layout)

    def encode_actions(
        self, positions: ArrayLike, rotations: ArrayLike, closed: ArrayLike
    ) -> Array:
        """Training labels (H, 20) of end-effector poses.

        Args:
            positions: (H, 3), metres.
            rotations: R_ee (H, 3, 3).
            closed: (H,), 1 = closed.
        """
        rotation = np.asarray(rotations, dtype=np.float64) @ self._d.T
        gripper = self._gripper(np.asarray(closed, dtype=np.float64))
        return ee6d.pack(positions, rotation, gripper, self.rotation_layout)

    def decode_actions(self, actions: ArrayLike) -> tuple[Array, Array, Array]:
        """Positions (H, 3), R_ee (H, 3, 3) and probability of closed (H,) of a chunk (H, 20).

        Raises:
            ee6d.DegenerateRotation: six numbers that determine no rotation.
        """
        positions, rotations, gripper = ee6d.unpack(actions, self.rotation_layout)
        # Modes without a sigmoid predict a gripper that may leave [0, 1] a little.
        closed = self._gripper(gripper).clip(0.0, 1.0)
        return positions, rotations @ self._d, closed

    @property
    def _d(self) -> Array:
        return np.asarray(self.ee_from_state, dtype=np.float64)

    def _gripper(self, values: Array) -> Array:
        return values if self.gripper_closed_is_one else 1.0 - values


BRIDGE = Domain(
    0,
    "Bridge",
    5.0 / 30.0,
    ee_from_state=_BRIDGE_EE_FROM_STATE,
    close_above=0.8,
    open_below=0.6,
)
_BUILT_IN = (
    BRIDGE,
    Domain(
        1,
        "RT1",
        10.0 / 30.0,
        close_above=0.25,
        open_below=0.25,
        robot="Google's mobile manipulator",
    ),
    Domain(2, "Calvin", 1.0 / 30.0, close_above=0.8, open_below=0.8, robot="a simulated Panda"),
    Domain(3, "libero", 1.0 / 30.0, rotation_layout="contiguous", robot="a simulated Panda"),
    Domain(4, "widowx-air", 5.0 / 30.0),
    Domain(5, "AIR-AGILEX-HQ", 2.0 / 30.0, robot="two arms of an Agilex"),
    Domain(6, "robotwin2", 1.0 / 30.0, robot="two simulated arms"),
)
# Published numbers without published conventions (X-VLA, datasets/domain_config.py).
_NAMES = {
    7: "robocasa-human",
    8: "VLABench",
    9: "AGIBOT-challenge",
    10: "AIR-AGILEX",
    11: "robomind-franka",
    12: "robomind-ur",
    13: "Droid-Left",
    14: "Droid-Right",
    15: "AGIBOT",
    16: "robomind-agilex",
    17: "robomind-franka-dual",
    18: "AIRBOT",
}


def load_domains(folder: str | Path) -> dict[int, Domain]:
    """The domains by id: the built-in ones, changed by `<folder>/domains.json` if it exists.

    The file is `{"domains": [{"id": 0, "step_dt": 0.1, ...}, ...]}` with the fields of `Domain`.
    A known id keeps what its entry does not mention; a new one needs `name` and `step_dt`.

    Raises:
        DomainError: the file is not JSON, or an entry has an unknown key or a wrong value.
    """
    table = {domain.id: domain for domain in _BUILT_IN}
    path = Path(folder) / DOMAINS_FILE
    if not path.exists():
        return table
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["domains"]
        for entry in entries:
            domain = _domain(entry, table)
            table[domain.id] = domain
    except DomainError as error:
        raise DomainError(f"{path}: {error}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DomainError(f'{path}: expected {{"domains": [...]}}: {error!r}') from error
    return table


def find_domain(folder: str | Path, domain_id: int) -> Domain:
    """One domain of a model folder.

    Raises:
        DomainError: nothing says what the id means.
    """
    table = load_domains(folder)
    if domain_id not in table:
        name = f" ({_NAMES[domain_id]})" if domain_id in _NAMES else ""
        raise DomainError(
            f"domain {domain_id}{name} has no conventions; known: "
            f"{', '.join(f'{d.id} {d.name}' for d in table.values())}. "
            f"Describe it in {Path(folder) / DOMAINS_FILE}"
        )
    return table[domain_id]


def _domain(entry: Mapping[str, Any], table: Mapping[int, Domain]) -> Domain:
    known = {item.name: item for item in fields(Domain)}
    for key in entry:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise DomainError(f"unknown key {key!r}" + (f"; {near[0]!r}?" if near else ""))
    number = entry.get("id")
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise DomainError(f"every domain needs an id >= 0, not {number!r}")
    values = {key: _value(key, value) for key, value in entry.items()}
    try:
        if number in table:
            return replace(table[number], **values)
        for key in ("name", "step_dt"):
            if key not in values:
                raise DomainError(f"it needs {key!r}")
        return Domain(**values)
    except DomainError as error:
        raise DomainError(f"domain {number}: {error}") from None


def _value(key: str, value: Any) -> Any:
    """A value of the file with the type of its field."""
    if key == "ee_from_state":
        return tuple(tuple(float(x) for x in row) for row in value)
    kinds: dict[str, type | tuple[type, ...]] = {
        "id": int,
        "name": str,
        "rotation_layout": str,
        "robot": str,
        "gripper_closed_is_one": bool,
    }
    kind = kinds.get(key, (int, float))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DomainError(f"{key} has a wrong type: {value!r}")
    return value
