"""What the numbers of a checkpoint mean, all in one place, and whether this arm can execute them.

Most of it is the domain's (`domain.py`); the action mode and the horizon are the network's. A user
who knows better than the folder says so with `Overrides`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from xvla_ros import ee6d
from xvla_ros.model.action_space import ACTION_MODES, action_space
from xvla_ros.model.config import CONFIG_FILE, VIEWS, XVLAConfig
from xvla_ros.model.domain import BRIDGE, PUBLISHED_STEPS, Domain, Matrix, find_domain
from xvla_ros.model.errors import CheckpointError

POSE_MODES = ("ee6d", "agibot_ee6d")
"""Action modes whose numbers are end-effector poses, which is what the arm is commanded with."""


@dataclass(frozen=True)
class Overrides:
    """What a user states; None is what the folder says."""

    action_mode: str | None = None
    step_dt: float | None = None
    rotation_layout: ee6d.RotationLayout | None = None
    ee_from_state: Matrix | None = None
    gripper_closed_is_one: bool | None = None
    close_above: float | None = None
    open_below: float | None = None

    def stated(self) -> Mapping[str, Any]:
        """The fields that have a value."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Conventions:
    """What goes into the network and comes out of it means this."""

    config: XVLAConfig
    domain: Domain
    views: int = VIEWS
    stated: tuple[str, ...] = ()
    """What a user stated against the folder."""

    def describe(self) -> str:
        """All of it in one line."""
        domain, steps = self.domain, self.config.num_actions
        sense = "closed" if domain.gripper_closed_is_one else "open"
        parts = [
            f"action mode {self.config.action_mode}",
            f"domain {domain.id} {domain.name}",
            f"{steps} steps of {domain.step_dt:.4g} s ({steps * domain.step_dt:.3g} s)",
            f"rot6d {domain.rotation_layout}",
            _frame(domain),
            f"gripper 1 = {sense}, closes above {domain.close_above:g} and opens below "
            f"{domain.open_below:g} of P(closed)",
            f"{self.views} view slots",
        ]
        parts += [f"stated by parameters: {', '.join(self.stated)}"] if self.stated else []
        return "; ".join(parts)

    def doubts(self) -> list[str]:
        """What is likely enough to be wrong to be worth a look."""
        out = []
        steps = self.config.num_actions
        if steps != PUBLISHED_STEPS and "step_dt" not in self.stated:
            out.append(
                f"{steps} steps of {self.domain.step_dt:.4g} s: the domain's step time is that of "
                f"chunks of {PUBLISHED_STEPS}; that of a LeRobot fine-tune is 1/fps of its data "
                "set (checkpoint.step_dt_s or domains.json)"
            )
        if self.domain.robot != BRIDGE.robot:
            out.append(
                f"domain {self.domain.id} {self.domain.name} was recorded on {self.domain.robot}, "
                "not on a WidowX"
            )
        return out


def read_conventions(
    folder: str | Path,
    domain_id: int | None = None,
    overrides: Overrides | None = None,
    views: int = VIEWS,
) -> Conventions:
    """The conventions of a model folder.

    Args:
        folder: with config.json and, where the built-in table does not hold, domains.json.
        domain_id: the embodiment; None is Bridge, the WidowX.
        overrides: what the user states.
        views: view slots that the network is given.

    Raises:
        CheckpointError: a file is wrong, a statement is impossible, or the arm cannot execute
            such actions.
    """
    overrides = Overrides() if overrides is None else overrides
    path = Path(folder) / CONFIG_FILE
    config = XVLAConfig.from_folder(folder)
    if overrides.action_mode is not None:
        config = _in_mode(path, config, overrides.action_mode)
    refusal = why_not_executable(config)
    if refusal:
        raise CheckpointError(f"{path}: {refusal}")
    domain = find_domain(folder, BRIDGE.id if domain_id is None else domain_id)
    if domain.id >= config.num_domains:
        raise CheckpointError(
            f"{path}: num_domains = {config.num_domains} leaves no domain {domain.id}"
        )
    stated = {k: v for k, v in overrides.stated().items() if k != "action_mode"}
    return Conventions(config, replace(domain, **stated), views, tuple(overrides.stated()))


def why_not_executable(config: XVLAConfig) -> str | None:
    """Why this arm cannot execute what such a network predicts, or None."""
    mode, space = config.action_mode.lower(), config.action_space
    if mode == "joint":
        return (
            f"action_mode is {config.action_mode!r}: {space.dim} numbers are joint angles of "
            "two arms with six joints; this package commands end-effector poses "
            f"({' or '.join(POSE_MODES)})"
        )
    if mode == "auto":
        hint = (
            "; if they are poses as in ee6d, state checkpoint.action_mode: agibot_ee6d where the "
            "gripper was learnt as a number, ee6d where as a logit"
        )
        return (
            f"action_mode is {config.action_mode!r}: nothing says what its {space.used} numbers "
            f"are{hint if space.dim == ee6d.DIM else ''}; this package commands end-effector poses "
            f"({' or '.join(POSE_MODES)})"
        )
    if config.dim_proprio < ee6d.DIM:
        return f"a state of {config.dim_proprio} numbers is too short for a pose in {ee6d.DIM}"
    return None


def _in_mode(path: Path, config: XVLAConfig, mode: str) -> XVLAConfig:
    """The configuration with another action mode, if the network has the numbers for it."""
    if mode.lower() not in ACTION_MODES:
        raise CheckpointError(f"action_mode is {mode!r}; known: {', '.join(ACTION_MODES)}")
    needed = action_space(mode, config.real_action_dim, config.max_action_dim).dim
    if needed != config.dim_action:
        raise CheckpointError(
            f"{path}: a network of {config.dim_action} numbers (action_mode "
            f"{config.action_mode!r}) cannot be read as {mode!r}, which has {needed}"
        )
    return replace(config, action_mode=mode)


def _frame(domain: Domain) -> str:
    """How poses are written."""
    if domain.ee_from_state == BRIDGE.ee_from_state:
        return "R_ee = R_state Ry(+90 deg)"
    rows = [[round(v, 6) + 0.0 for v in row] for row in domain.ee_from_state]
    if rows == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]:
        return "R_ee = R_state"
    return f"R_ee = R_state {rows}"
