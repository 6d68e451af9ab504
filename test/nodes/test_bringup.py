"""The description of a running system, without starting anything."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

from xvla_ros import resources
from xvla_ros.nodes import bringup
from xvla_ros.nodes.bringup import Arguments, BringUpError, Process, describe, describe_sim


def parameter(process: Process, name: str) -> object:
    """The value as ROS would parse it from the process's command line; fails if it is not there."""
    arguments = process.ros_arguments()
    texts = [
        text
        for flag, text in itertools.pairwise(arguments)
        if flag == "--param" and text.startswith(f"{name}:=")
    ]
    assert len(texts) == 1, arguments
    return yaml.safe_load(texts[0].partition(":=")[2])


def test_a_real_arm_gets_policy_and_scheduler_only() -> None:
    plan = describe(Arguments())
    assert [p.node for p in plan.processes] == ["xvla_policy", "chunk_scheduler"]
    assert [p.executable for p in plan.processes] == ["policy_node", "scheduler_node"]


def test_sim_adds_the_robot_and_its_wiring() -> None:
    plan = describe(Arguments(sim=True))
    assert [p.node for p in plan.processes] == ["sim_wx250s", "xvla_policy", "chunk_scheduler"]
    files = [path.name for path in plan.process("xvla_policy").params_files]
    assert files == ["policy.yaml", "sim.yaml"], "the later file goes first"
    assert parameter(plan.process("xvla_policy"), "model_path") == str(resources.demo_model())


def test_the_simulated_robot_alone_has_no_transitions() -> None:
    plan = describe_sim(Arguments())
    assert [p.node for p in plan.processes] == ["sim_wx250s"]
    assert plan.transitions == ()


def test_configure_follows_the_start_and_activate_follows_configure() -> None:
    start, configured = describe(Arguments()).transitions
    assert (start.start_state, start.goal_state, start.request) == ("", "unconfigured", "configure")
    assert (configured.start_state, configured.goal_state) == ("configuring", "inactive")
    assert configured.request == "activate"
    assert describe(Arguments(autostart=False)).transitions == ()


def test_a_node_deactivated_on_purpose_is_not_activated_again() -> None:
    requests = [t for t in describe(Arguments()).transitions if t.start_state == "deactivating"]
    assert not requests


def test_actuation_starts_off_and_is_off_after_a_respawn() -> None:
    assert parameter(describe(Arguments()).process("chunk_scheduler"), "start_actuation") is False
    scheduler = describe(Arguments(start_actuation=True)).process("chunk_scheduler")
    assert parameter(scheduler, "start_actuation") is True
    assert "start_actuation:=false" in scheduler.ros_arguments(respawned=True)


def test_policy_and_scheduler_are_respawned_and_the_robot_is_not() -> None:
    plan = describe(Arguments(sim=True))
    assert {p.node: p.respawn for p in plan.processes} == {
        "sim_wx250s": False,
        "xvla_policy": True,
        "chunk_scheduler": True,
    }


def test_arguments_reach_the_nodes_they_concern(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{}")
    plan = describe(
        Arguments(
            robot_name="left",
            params_file=str(file),
            model=str(tmp_path),
            device="npu:1",
            backend="jtc",
            log_level="debug",
        )
    )
    policy, scheduler = plan.processes
    assert policy.params_files == (file,)
    assert parameter(policy, "model_path") == str(tmp_path)
    assert parameter(policy, "device") == "npu:1"
    assert parameter(scheduler, "backend") == "jtc"
    assert {parameter(p, "robot_name") for p in plan.processes} == {"left"}
    assert policy.ros_arguments()[-2:] == ["--log-level", "xvla_policy:=debug"]


def test_empty_arguments_leave_the_parameter_file_alone() -> None:
    for process in describe(Arguments()).processes:
        names = {text.partition(":=")[0] for text in process.ros_arguments()}
        assert not names & {"robot_name", "model_path", "device", "backend"}


def test_simulated_time_comes_from_the_robot_and_goes_to_the_others() -> None:
    plan = describe(Arguments(sim=True, use_sim_time=True))
    assert parameter(plan.process("sim_wx250s"), "publish_clock") is True
    assert parameter(plan.process("sim_wx250s"), "use_sim_time") is False
    assert parameter(plan.process("xvla_policy"), "use_sim_time") is True
    assert parameter(plan.process("chunk_scheduler"), "use_sim_time") is True


def test_a_namespace_is_part_of_node_and_logger() -> None:
    policy = describe(Arguments(namespace="/lab/arm1/")).process("xvla_policy")
    assert policy.full_name == "/lab/arm1/xvla_policy"
    assert "__ns:=/lab/arm1" in policy.ros_arguments()
    assert "lab.arm1.xvla_policy:=info" in policy.ros_arguments()
    assert not any(a.startswith("__ns") for a in describe(Arguments()).processes[0].ros_arguments())


def test_texts_survive_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "it's: a # model"
    folder.mkdir()
    policy = describe(Arguments(model=str(folder))).process("xvla_policy")
    assert parameter(policy, "model_path") == str(folder)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"params_file": "/nowhere/p.yaml"}, "params_file: no file /nowhere/p.yaml"),
        ({"model": "/nowhere"}, "model: no folder /nowhere"),
        ({"sim": "yes"}, "sim:=yes: write true or false"),
        ({"log_level": "loud"}, "log_level 'loud' is none of debug, info, warn, error, fatal"),
        ({"simm": "true"}, "no argument 'simm'; known: robot_name, params_file"),
    ],
)
def test_wrong_arguments_are_named(texts: dict[str, str], message: str) -> None:
    with pytest.raises(BringUpError, match=f"^{message}"):
        describe(bringup.parse_arguments(texts))


def test_command_line_texts_become_arguments() -> None:
    parsed = bringup.parse_arguments({"sim": "True", "autostart": "false", "device": "cpu"})
    assert parsed == Arguments(sim=True, autostart=False, device="cpu")
    defaults = {name: default for name, (default, _) in bringup.argument_descriptions().items()}
    assert bringup.parse_arguments(defaults) == Arguments()


def test_data_files_are_found_in_a_source_tree_and_in_an_installation(tmp_path: Path) -> None:
    share = tmp_path / "share" / "xvla_ros"
    (share / "config").mkdir(parents=True)
    (share / "package.xml").touch()
    module = tmp_path / "lib" / "python3.12" / "site-packages" / "xvla_ros" / "resources.py"
    assert resources.share_folder(module) == share
    assert (resources.config_file("policy.yaml")).is_file()
    with pytest.raises(FileNotFoundError, match="no config/ of xvla_ros above /nowhere"):
        resources.share_folder(Path("/nowhere/xvla_ros/resources.py"))
