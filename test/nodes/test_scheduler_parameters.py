"""The parameters of chunk_scheduler are the fields of its dataclasses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xvla_ros.parameters.parameter import ParameterRefused, defaults
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS, build, check
from xvla_ros.scheduler.params import ExecutorParams, SchedulerParams

DEFAULTS = defaults(SCHEDULER_PARAMETERS)


def parameter(name: str):
    return next(p for p in SCHEDULER_PARAMETERS if p.name == name)


def test_the_defaults_are_those_of_the_dataclasses_and_the_frames_carry_the_robot_name():
    scheduler, executor = build({**DEFAULTS, "robot_name": "arm7"})
    assert scheduler.base_frame == "arm7/base_link"
    assert scheduler.ee_frame == "arm7/ee_gripper_link"
    plain = SchedulerParams()
    assert replace(scheduler, base_frame=plain.base_frame, ee_frame=plain.ee_frame) == plain
    assert executor == ExecutorParams()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("command_rate_hz", 50.0),
        ("strategy", "anchor_fade"),
        ("fade_s", 0.4),
        ("execution_horizon_s", 1.7),
        ("limits.workspace_min", (0.10, -0.20, -0.01)),
        ("limits.workspace_max", (0.45, 0.25, 0.30)),
        ("limits.max_linear_speed", 0.25),
        ("limits.max_angular_speed", 1.25),
        ("gripper.close_above", 0.8),
        ("gripper.open_below", 0.6),
        ("gripper.dwell_s", 0.25),
        ("joint_states_max_age_s", 0.3),
        ("start_actuation", False),
    ],
)
def test_a_default_is_the_documented_one(name, value):
    assert DEFAULTS[name] == value


def test_every_value_reaches_its_field():
    scheduler, executor = build({**DEFAULTS, "splice.max_jump_m": 0.05, "tracking.freeze_s": 1.0})
    assert scheduler.splice.max_jump_m == 0.05
    assert executor.tracking.freeze_s == 1.0


def test_values_that_do_not_fit_together_are_told():
    reason = check({**DEFAULTS, "gripper.open_below": 0.9})
    assert reason is not None
    assert "gripper.open_below" in reason
    reason = check({**DEFAULTS, "limits.workspace_min": (0.5, -0.2, 0.0)})
    assert reason is not None
    assert "limits.workspace_min" in reason


def test_a_speed_beyond_its_range_and_an_unknown_strategy_are_refused():
    with pytest.raises(ParameterRefused, match=r"0.01 to 1 m/s"):
        parameter("limits.max_linear_speed").check(2.0)
    with pytest.raises(ParameterRefused, match="did you mean 'timestamp'"):
        parameter("strategy").check("timestamps")
    with pytest.raises(ParameterRefused, match="allowed is one of jtc"):
        parameter("backend").check("moveit")


def test_every_parameter_is_described_and_every_number_has_a_range():
    for p in SCHEDULER_PARAMETERS:
        assert p.description.endswith(".")
        if p.kind in (int, float):
            assert p.minimum is not None, p.name
            assert p.maximum is not None, p.name
