"""What a checkpoint's numbers mean is said in one place, and what the arm cannot do is refused."""

from __future__ import annotations

import json
import re

import pytest

from xvla_ros.model.conventions import Overrides, read_conventions
from xvla_ros.model.domain import load_domains
from xvla_ros.model.errors import CheckpointError
from xvla_ros.parameters import checkpoint
from xvla_ros.parameters.parameter import defaults


@pytest.fixture
def folder(make, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(make.SMALLEST.to_dict()))
    return tmp_path


def edit(folder, **values) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refusal(folder, domain_id=None, **stated) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_conventions(folder, domain_id, Overrides(**stated))
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_a_published_checkpoint_is_described_in_one_line(folder) -> None:
    conventions = read_conventions(folder)

    assert conventions.describe() == (
        "action mode ee6d; domain 0 Bridge; 30 steps of 0.1667 s (5 s); rot6d interleaved; "
        "R_ee = R_state Ry(+90 deg); gripper 1 = closed, closes above 0.8 and opens below 0.6 of "
        "P(closed); 3 view slots"
    )
    assert conventions.doubts() == []


@pytest.mark.parametrize(
    ("number", "name", "step", "layout", "close_above"),
    [
        # Window of the training data over 30 actions, and thresholds of the published clients.
        (0, "Bridge", 5 / 30, "interleaved", 0.8),
        (1, "RT1", 10 / 30, "interleaved", 0.25),
        (2, "Calvin", 1 / 30, "interleaved", 0.8),
        (3, "libero", 1 / 30, "contiguous", 0.5),
        (4, "widowx-air", 5 / 30, "interleaved", 0.5),
        (5, "AIR-AGILEX-HQ", 2 / 30, "interleaved", 0.5),
        (6, "robotwin2", 1 / 30, "interleaved", 0.5),
    ],
)
def test_published_domains(folder, number, name, step, layout, close_above) -> None:
    domain = read_conventions(folder, number).domain

    assert (domain.name, domain.rotation_layout, domain.close_above) == (name, layout, close_above)
    assert domain.step_dt == pytest.approx(step)


def test_a_user_states_what_the_folder_does_not_say(folder) -> None:
    turn = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    stated = Overrides(
        step_dt=0.05,
        rotation_layout="contiguous",
        ee_from_state=turn,
        gripper_closed_is_one=False,
        close_above=0.7,
        open_below=0.3,
    )
    conventions = read_conventions(folder, 0, stated)
    domain, line = conventions.domain, conventions.describe()

    assert (domain.step_dt, domain.rotation_layout, domain.ee_from_state) == (
        *(0.05, "contiguous"),
        turn,
    )
    assert (domain.gripper_closed_is_one, domain.close_above, domain.open_below) == (
        *(False, 0.7),
        0.3,
    )
    assert "gripper 1 = open" in line
    assert "stated by parameters: step_dt, rotation_layout, ee_from_state" in line
    assert load_domains(folder)[0].step_dt == pytest.approx(1 / 6)


def test_impossible_statements_are_refused(folder) -> None:
    with pytest.raises(CheckpointError, match="open_below <= close_above"):
        read_conventions(folder, 0, Overrides(close_above=0.3))
    with pytest.raises(CheckpointError, match="not a rotation matrix"):
        read_conventions(folder, 0, Overrides(ee_from_state=((1.0, 0.0, 0.0),) * 3))
    with pytest.raises(CheckpointError, match="'ee7d'; known: ee6d"):
        read_conventions(folder, 0, Overrides(action_mode="ee7d"))


def test_joint_angles_are_refused_with_the_reason(folder) -> None:
    edit(folder, action_mode="joint", dim_proprio=14)

    assert "14 numbers are joint angles of two arms" in refusal(folder)
    assert "cannot be read as 'ee6d', which has 20" in refusal(folder, action_mode="ee6d")


def test_numbers_of_unknown_meaning_are_refused_until_the_user_knows(folder) -> None:
    edit(folder, action_mode="auto", real_action_dim=20, max_action_dim=20)
    assert "state checkpoint.action_mode: agibot_ee6d" in refusal(folder)

    known = read_conventions(folder, 0, Overrides(action_mode="agibot_ee6d"))
    assert known.config.action_space.logits == ()
    assert "stated by parameters: action_mode" in known.describe()

    edit(folder, real_action_dim=7, max_action_dim=7, dim_proprio=7)
    found = refusal(folder)
    assert "nothing says what its 7 numbers are" in found
    assert "state checkpoint" not in found


def test_a_state_too_short_for_a_pose_is_refused(folder) -> None:
    edit(folder, dim_proprio=8)

    assert "a state of 8 numbers is too short for a pose in 20" in refusal(folder)


def test_a_published_domain_without_conventions_is_named(folder) -> None:
    found = refusal(folder, 9)

    assert "domain 9 (AGIBOT-challenge) has no conventions" in found
    assert "domains.json" in found


def test_chunks_of_another_length_and_other_robots_are_worth_a_look(folder) -> None:
    edit(folder, num_actions=32)
    doubts = read_conventions(folder, 3).doubts()

    assert "32 steps of 0.03333 s" in doubts[0]
    assert "1/fps" in doubts[0]
    assert "libero was recorded on a simulated Panda, not on a WidowX" in doubts[1]
    assert read_conventions(folder, 0, Overrides(step_dt=0.2)).doubts() == []


def test_parameters_state_nothing_by_default() -> None:
    values = defaults(checkpoint.CHECKPOINT_PARAMETERS)

    assert checkpoint.overrides(values) == Overrides()


def test_parameters_become_statements() -> None:
    values = defaults(checkpoint.CHECKPOINT_PARAMETERS) | {
        "checkpoint.action_mode": "agibot_ee6d",
        "checkpoint.step_dt_s": 0.1,
        "checkpoint.rotation_layout": "interleaved",
        "checkpoint.ee_from_state": (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0),
        "checkpoint.gripper_one_is": "open",
        "checkpoint.close_above": 0.9,
        "checkpoint.open_below": 0.0,
    }

    assert checkpoint.overrides(values) == Overrides(
        "agibot_ee6d",
        0.1,
        "interleaved",
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        False,
        0.9,
        0.0,
    )


def test_every_value_of_a_convention_has_a_parameter() -> None:
    names = " ".join(p.name for p in checkpoint.CHECKPOINT_PARAMETERS)
    for field in vars(Overrides()):
        stem = re.sub("gripper_closed_is_one", "gripper_one_is", field)
        assert f"checkpoint.{stem}" in names
