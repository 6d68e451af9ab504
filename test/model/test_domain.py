"""Poses go into the numbers of a checkpoint and come back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xvla_ros.ee6d import DegenerateRotation
from xvla_ros.geometry import Pose, so3_exp
from xvla_ros.model.domain import BRIDGE, Domain, DomainError, find_domain, load_domains

# BridgeData: R_ee = R_state @ Ry(90 deg); zero state rotation is a gripper that points down.
D = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
vectors = st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3).map(np.array)


def euler_xyz(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Extrinsic x, y, z."""
    return so3_exp([0, 0, yaw]) @ so3_exp([0, pitch, 0]) @ so3_exp([roll, 0, 0])


def test_a_bridge_step_is_a_sixth_of_a_second() -> None:
    assert pytest.approx(1 / 6) == BRIDGE.step_dt
    assert BRIDGE.id == 0


def test_a_gripper_that_points_down_is_the_identity_state() -> None:
    down = Pose(np.array([0.3, 0.0, 0.15]), so3_exp([0.0, np.pi / 2, 0.0]))
    # The finger axis (x of ee_gripper_link) points to -z of the base.
    assert np.allclose(down.rotation @ [1, 0, 0], [0, 0, -1])

    assert np.allclose(
        BRIDGE.encode_proprio(down),
        [0.3, 0, 0.15, 1, 0, 0, 1, 0, 0, 0, *np.zeros(10)],
        atol=1e-12,
    )


def test_a_bridge_state_with_roll_is_not_pitch_plus_ninety_degrees() -> None:
    state = euler_xyz(0.2, 0.1, 0.5)
    proprio = BRIDGE.encode_proprio(Pose(np.zeros(3), state @ D))

    # Rows of the first two columns, one after the other.
    assert np.allclose(proprio[3:9], state[:, :2].ravel())
    additive = euler_xyz(0.2, 0.1 + np.pi / 2, 0.5)
    angle = np.arccos((np.trace(additive.T @ (state @ D)) - 1) / 2)
    assert np.degrees(angle) == pytest.approx(16.2, abs=0.1)


def test_an_action_row_decodes_to_a_known_pose() -> None:
    # The state is a quarter turn about z: columns (0, 1, 0) and (-1, 0, 0).
    row = [0.2, -0.1, 0.05, 0, -1, 1, 0, 0, 0, 0.9, *np.full(10, 7.0)]
    positions, rotations, closed = BRIDGE.decode_actions([row])

    assert np.allclose(positions, [[0.2, -0.1, 0.05]])
    quarter = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    assert np.allclose(rotations[0], quarter @ D)
    assert np.allclose(closed, [0.9])


@given(st.lists(st.tuples(vectors, vectors, st.floats(0, 1)), min_size=1, max_size=4))
@pytest.mark.parametrize("closed_is_one", [True, False])
@pytest.mark.parametrize("layout", ["interleaved", "contiguous"])
def test_labels_decode_to_the_poses_they_were_made_of(layout, closed_is_one, steps) -> None:
    domain = Domain(
        3,
        "any",
        0.1,
        rotation_layout=layout,
        ee_from_state=tuple(map(tuple, so3_exp([0.3, -1.0, 0.4]))),
        gripper_closed_is_one=closed_is_one,
    )
    positions = np.array([p for p, _, _ in steps])
    rotations = np.array([so3_exp(w) for _, w, _ in steps])
    closed = np.array([c for _, _, c in steps])

    labels = domain.encode_actions(positions, rotations, closed)
    back = domain.decode_actions(labels)

    assert labels.shape == (len(steps), 20)
    assert np.all(labels[:, 10:] == 0.0)
    for got, expected in zip(back, (positions, rotations, closed), strict=True):
        assert np.allclose(got, expected, atol=1e-9)


def test_proprio_and_labels_use_the_same_numbers_but_for_the_gripper() -> None:
    pose = Pose(np.array([0.1, 0.2, 0.3]), so3_exp([0.4, 0.5, -0.6]))
    label = BRIDGE.encode_actions([pose.position], [pose.rotation], [1.0])[0]

    assert label[9] == 1.0
    assert np.array_equal(np.r_[label[:9], 0.0, label[10:]], BRIDGE.encode_proprio(pose))


def test_libero_is_contiguous() -> None:
    libero = load_domains("/nonexistent")[3]
    rotation = so3_exp([0.1, 0.2, 0.3])
    proprio = libero.encode_proprio(Pose(np.zeros(3), rotation))

    assert np.allclose(proprio[3:9], [*rotation[:, 0], *rotation[:, 1]])


def test_numbers_without_a_rotation_are_an_error() -> None:
    with pytest.raises(DegenerateRotation):
        BRIDGE.decode_actions(np.zeros((2, 20)))


def test_a_gripper_that_leaves_the_unit_interval_is_clipped() -> None:
    rows = np.tile(BRIDGE.encode_proprio(Pose.identity()), (2, 1))
    rows[:, 9] = (-0.2, 1.3)

    assert BRIDGE.decode_actions(rows)[2].tolist() == [0.0, 1.0]


def test_a_file_changes_a_domain_and_adds_one(tmp_path, write_json) -> None:
    entries = [
        {"id": 0, "close_above": 0.7},
        {"id": 21, "name": "mine", "step_dt": 0.05, "gripper_closed_is_one": False},
    ]
    write_json(tmp_path / "domains.json", {"domains": entries})
    table = load_domains(tmp_path)

    assert (table[0].close_above, table[0].open_below) == (0.7, 0.6)
    assert table[0].ee_from_state == BRIDGE.ee_from_state
    assert (table[21].name, table[21].step_dt) == ("mine", 0.05)
    assert table[3].name == "libero"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"id": 0, "stepdt": 0.1}, ("'stepdt'", "'step_dt'")),
        ({"step_dt": 0.1}, ("id",)),
        ({"id": 40, "step_dt": 0.1}, ("domain 40", "'name'")),
        ({"id": 0, "step_dt": 0}, ("domain 0", "step_dt")),
        ({"id": 0, "step_dt": "fast"}, ("step_dt", "'fast'")),
        ({"id": 0, "rotation_layout": "rows"}, ("'rows'", "interleaved", "contiguous")),
        ({"id": 0, "close_above": 0.3}, ("open_below", "0.6", "0.3")),
        ({"id": 0, "ee_from_state": [[1, 0, 0], [0, 1, 0], [0, 0, -1]]}, ("rotation matrix",)),
        ({"id": 0, "ee_from_state": [[2, 0, 0], [0, 1, 0], [0, 0, 1]]}, ("rotation matrix",)),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, write_json, entry, words) -> None:
    write_json(tmp_path / "domains.json", {"domains": [entry]})

    with pytest.raises(DomainError) as caught:
        load_domains(tmp_path)
    assert all(word in str(caught.value) for word in ("domains.json", *words))


@pytest.mark.parametrize("text", ["", "[]", '{"domains": 3}', '{"domain": []}'])
def test_a_file_of_another_form_is_named(tmp_path, text) -> None:
    (tmp_path / "domains.json").write_text(text)

    with pytest.raises(DomainError, match=r"domains\.json"):
        load_domains(tmp_path)


def test_a_domain_without_conventions_says_where_to_describe_it(tmp_path) -> None:
    with pytest.raises(DomainError, match=r"domain 11 .*0 Bridge.*domains\.json"):
        find_domain(tmp_path, 11)
