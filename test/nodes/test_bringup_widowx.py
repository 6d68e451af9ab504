"""What is launched for a real arm, without starting anything."""

from __future__ import annotations

import pytest

from xvla_ros.nodes.bringup import Arguments, BringUpError
from xvla_ros.nodes.bringup_widowx import DRIVER_ARGUMENTS, describe_widowx, driver_launch
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS

TEXTS = {name: default for name, (default, _) in DRIVER_ARGUMENTS.items()}


def test_the_driver_is_started_for_this_arm_under_the_robot_s_name() -> None:
    driver = driver_launch(Arguments(robot_name="left"), TEXTS)
    assert (driver.package, driver.file) == ("interbotix_xsarm_control", "xsarm_control.launch.py")
    assert driver.arguments == {
        "robot_model": "wx250s",
        "robot_name": "left",
        "use_rviz": "false",
        "load_configs": "true",
    }
    assert driver_launch(Arguments(), TEXTS).arguments["robot_name"] == "wx250s"


def test_ros2_control_has_a_launch_file_of_its_own() -> None:
    driver = driver_launch(Arguments(backend="jtc"), TEXTS)
    assert driver.package == "interbotix_xsarm_ros_control"
    assert "load_configs" not in driver.arguments


def test_the_scheduler_speaks_to_that_driver_with_actuation_off() -> None:
    backend = next(p for p in SCHEDULER_PARAMETERS if p.name == "backend")
    for asked, used in (("", "xs"), ("jtc", "jtc")):
        plan = describe_widowx(Arguments(backend=asked, sim=True))
        assert [p.node for p in plan.processes] == ["xvla_policy", "chunk_scheduler"]
        scheduler = plan.process("chunk_scheduler")
        assert scheduler.parameters["backend"] == used
        assert scheduler.parameters["start_actuation"] is False
        assert used in backend.choices


def test_an_absent_driver_and_a_back_end_without_one_are_told_in_one_line() -> None:
    absent = driver_launch(Arguments(), TEXTS).absent
    assert absent.startswith("no package 'interbotix_xsarm_control', which drives the arm: build")
    assert "interbotix_ros_core" in absent
    with pytest.raises(BringUpError, match="backend:=none: a driver belongs to xs, jtc"):
        driver_launch(Arguments(backend="none"), TEXTS)


def test_in_simulation_the_arm_speaks_what_the_scheduler_was_told_to() -> None:
    from xvla_ros.nodes.bringup import describe

    plan = describe(Arguments(sim=True, backend="xs"))
    assert plan.process("sim_wx250s").parameters["driver"] == "xs"
    assert plan.process("chunk_scheduler").parameters["backend"] == "xs"
    assert "driver" not in describe(Arguments(sim=True)).process("sim_wx250s").parameters
