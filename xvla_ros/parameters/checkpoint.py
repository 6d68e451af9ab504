"""Parameters `checkpoint.*` of the policy: what a user knows better than the model folder."""

from __future__ import annotations

from xvla_ros.ee6d import RotationLayout
from xvla_ros.model.config import VIEWS
from xvla_ros.model.conventions import POSE_MODES, Overrides
from xvla_ros.parameters.parameter import Parameter, Values

FOLDER = "folder"
"""The value that leaves a convention to the folder."""
_LAYOUTS: tuple[RotationLayout, ...] = ("interleaved", "contiguous")
_UNTOLD = (0.0,) * 9

CHECKPOINT_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "checkpoint.action_mode",
        FOLDER,
        "What the network's numbers are; folder = what config.json says. Read by configure.",
        choices=(FOLDER, *POSE_MODES),
    ),
    Parameter(
        "checkpoint.step_dt_s",
        0.0,
        "Time between two actions of a chunk; 0 = that of the domain. Read by configure.",
        "s",
        0.0,
        10.0,
    ),
    Parameter(
        "checkpoint.rotation_layout",
        FOLDER,
        "Order of the six numbers of a rotation: row by row or column by column; folder = that "
        "of the domain. Read by configure.",
        choices=(FOLDER, *_LAYOUTS),
    ),
    Parameter(
        "checkpoint.ee_from_state",
        _UNTOLD,
        "Rotation D, row by row, in R_ee = R_state D, where R_state is what the network reads and "
        "writes; zeros = that of the domain. Read by configure.",
        minimum=-1.0,
        maximum=1.0,
        length=9,
    ),
    Parameter(
        "checkpoint.gripper_one_is",
        FOLDER,
        "What the gripper's 1 means; folder = what the domain says. Read by configure.",
        choices=(FOLDER, "closed", "open"),
    ),
    Parameter(
        "checkpoint.close_above",
        -1.0,
        "Probability of closed above which the gripper closes; -1 = that of the domain. "
        "Read by configure.",
        minimum=-1.0,
        maximum=1.0,
    ),
    Parameter(
        "checkpoint.open_below",
        -1.0,
        "Probability of closed below which the gripper opens; -1 = that of the domain. "
        "Read by configure.",
        minimum=-1.0,
        maximum=1.0,
    ),
    Parameter(
        "checkpoint.view_slots",
        VIEWS,
        "View slots that the network is given; fewer than it was trained with is an "
        "approximation. Read by configure.",
        minimum=1,
        maximum=VIEWS,
    ),
    Parameter(
        "checkpoint.sha256",
        "",
        "Hash that the weights must have: 64 hexadecimal digits, or a file of `sha256sum`; empty "
        "= any. Read by configure.",
    ),
)


def overrides(values: Values) -> Overrides:
    """What the parameters state."""
    mode, named = _choice(values, "action_mode"), _choice(values, "rotation_layout")
    layout = next((known for known in _LAYOUTS if known == named), None)
    one = _choice(values, "gripper_one_is")
    rows = values["checkpoint.ee_from_state"]
    assert isinstance(rows, tuple)
    d = [float(value) for value in rows]
    return Overrides(
        action_mode=None if mode == FOLDER else mode,
        step_dt=_number(values, "step_dt_s", 0.0),
        rotation_layout=layout,
        ee_from_state=None
        if rows == _UNTOLD
        else ((d[0], d[1], d[2]), (d[3], d[4], d[5]), (d[6], d[7], d[8])),
        gripper_closed_is_one=None if one == FOLDER else one == "closed",
        close_above=_number(values, "close_above", -1.0),
        open_below=_number(values, "open_below", -1.0),
    )


def _choice(values: Values, name: str) -> str:
    return str(values[f"checkpoint.{name}"])


def _number(values: Values, name: str, untold: float) -> float | None:
    """A number, or None where nothing is stated."""
    value = values[f"checkpoint.{name}"]
    assert isinstance(value, float)
    return None if value == untold or value < 0.0 else value
