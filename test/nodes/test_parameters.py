"""Parameters: what is refused, what is said about it, and that a refusal changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from xvla_ros.nodes.parameters.declaration import (
    ParameterFileError,
    check_file,
    declare,
    read,
)
from xvla_ros.parameters.parameter import Parameter, ParameterRefused, reference_markdown

PARAMETERS = (
    Parameter("limits.speed", 0.25, "Speed.", unit="m/s", minimum=0.01, maximum=1.0),
    Parameter("limits.box", (0.0, -0.2, 0.0), "Box.", unit="m", minimum=-1, maximum=1, length=3),
    Parameter("strategy", "anchor_fade", "Strategy.", choices=("anchor_fade", "sync")),
    Parameter("steps", 10, "Steps.", minimum=1, read_only=True),
    Parameter("names", ("a", "b"), "Names."),
)


def node_with(ros, *overrides: RosParameter) -> Node:
    return ros.add(Node("tuned", context=ros.context, parameter_overrides=list(overrides)))


def refuse(node: Node, name: str, value: object) -> str:
    result = node.set_parameters([RosParameter(name, value=value)])[0]
    assert not result.successful
    return result.reason


def test_a_value_out_of_range_is_refused_with_the_range_and_the_old_one_stays(ros):
    node = node_with(ros)
    declare(node, PARAMETERS)
    reason = refuse(node, "limits.speed", 3.0)
    assert "0.01" in reason
    assert "1.0" in reason
    reason = refuse(node, "limits.box", [0.0, 5.0, 0.0])
    assert "'limits.box' cannot be 5: allowed is -1 to 1 m" in reason
    assert "needs 3 elements, got 2" in refuse(node, "limits.box", [0.0, 0.0])
    assert read(node, PARAMETERS) == {p.name: p.default for p in PARAMETERS}


def test_a_wrong_choice_names_the_choices_and_the_nearest(ros):
    node = node_with(ros)
    declare(node, PARAMETERS)
    reason = refuse(node, "strategy", "anchor-fade")
    assert "one of anchor_fade, sync" in reason
    assert "did you mean 'anchor_fade'?" in reason


def test_not_a_number_is_refused(ros):
    node = node_with(ros)
    declare(node, PARAMETERS)
    refuse(node, "limits.speed", float("nan"))
    assert "finite" in refuse(node, "limits.box", [0.0, float("nan"), 0.0])


def test_an_unknown_name_set_from_outside_is_answered_with_the_nearest_right_one(ros):
    declare(node_with(ros), PARAMETERS)
    taken, reason = ros.set_parameter(ros.node(), "tuned", "limits.sped", 0.1)
    assert not taken
    assert "did you mean 'limits.speed'?" in reason


def test_a_read_only_parameter_says_so(ros):
    node = node_with(ros)
    declare(node, PARAMETERS)
    assert "read-only" in refuse(node, "steps", 5)


def test_a_whole_number_is_taken_for_a_double(ros):
    node = node_with(ros, RosParameter("limits.speed", value=1))
    assert declare(node, PARAMETERS)["limits.speed"] == 1.0
    outside = ros.node()
    assert ros.set_parameter(outside, "tuned", "limits.box", [0, 0, 1]) == (True, "")
    value = ros.parameter(outside, "tuned", "limits.box")
    assert list(value) == [0.0, 0.0, 1.0]
    assert isinstance(value[0], float)


def test_a_truth_value_is_not_taken_for_a_number():
    with pytest.raises(ParameterRefused, match=r"'limits.speed' is a double, not True"):
        PARAMETERS[0].check(True)


def test_a_change_is_announced_with_all_values(ros):
    seen: list[object] = []
    node = node_with(ros)
    declare(node, PARAMETERS, on_change=seen.append)
    node.set_parameters([RosParameter("limits.speed", value=0.5)])
    refuse(node, "limits.speed", 3.0)
    assert seen == [{**{p.name: p.default for p in PARAMETERS}, "limits.speed": 0.5}]


def test_values_that_do_not_fit_together_are_refused(ros):
    def check(values):
        return "too fast for sync" if values["limits.speed"] > 0.5 else None

    node = node_with(ros)
    declare(node, PARAMETERS, check=check)
    assert "too fast for sync" in refuse(node, "limits.speed", 0.6)
    with pytest.raises(ParameterRefused, match="too fast"):
        declare(node_with(ros, RosParameter("limits.speed", value=0.6)), PARAMETERS, check=check)


def test_an_unknown_override_stops_the_node(ros):
    node = node_with(ros, RosParameter("limits.sped", value=0.1))
    with pytest.raises(ParameterRefused, match=r"'limits.sped'; did you mean 'limits.speed'"):
        declare(node, PARAMETERS)


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "tuned.yaml"
        path.write_text(text)
        return path

    return write


def test_a_right_file_passes(written):
    path = written(
        "/**:\n  ros__parameters:\n    use_sim_time: true\n    limits: {speed: 1, box: [0, 0, 0]}\n"
        "other_node:\n  ros__parameters:\n    anything: 3\n"
        "ns:\n  tuned:\n    ros__parameters:\n      limits.speed: 5e-2\n"
    )
    check_file(path, {"tuned": PARAMETERS})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits: {sped: 1.0}", "'limits.sped'; did you mean 'limits.speed'?"),
        ("limits: {speed: 7.0}", "'limits.speed' cannot be 7: allowed is 0.01 to 1 m/s"),
        ("limits: {speed: fast}", "'limits.speed' is a double, not 'fast': write for example 0.25"),
        ("limits: {box: 0.1}", "write [0.0, -0.2, 0.0], brackets included"),
        ("limits: {box: [0, 0.5, 0]}", "mixes whole and decimal numbers, which ROS refuses"),
        ("steps: 2.5", "'steps' is a int, not 2.5"),
        ("strategy: synk", "did you mean 'sync'?"),
    ],
)
def test_a_wrong_entry_is_named_with_its_file(written, text, message):
    path = written(f"tuned:\n  ros__parameters:\n    {text}\n")
    with pytest.raises(ParameterFileError) as caught:
        check_file(path, {"tuned": PARAMETERS})
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_misspelt_node_and_a_broken_or_missing_file_are_named(written, tmp_path):
    with pytest.raises(ParameterFileError, match="did you mean 'tuned'"):
        check_file(written("tunde:\n  ros__parameters: {steps: 1}\n"), {"tuned": PARAMETERS})
    with pytest.raises(ParameterFileError, match="no 'ros__parameters'"):
        check_file(written("limits: {speed: 1.0}\n"), {"tuned": PARAMETERS})
    with pytest.raises(ParameterFileError, match="not a YAML file"):
        check_file(written("a: [1\n"), {"tuned": PARAMETERS})
    with pytest.raises(ParameterFileError, match="cannot be read"):
        check_file(tmp_path / "none.yaml", {"tuned": PARAMETERS})


def test_the_reference_page_holds_every_parameter_with_its_range_and_unit():
    page = reference_markdown("tuned", PARAMETERS)
    assert "| `limits.speed` | double | `0.25` m/s | 0.01 to 1 m/s | yes | Speed. |" in page
    assert all(f"`{p.name}`" in page for p in PARAMETERS)
