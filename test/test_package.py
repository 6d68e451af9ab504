"""The files that describe the package agree with one another and with the source."""

from __future__ import annotations

import importlib
import re
import stat
import subprocess
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import xvla_ros
from xvla_ros import names
from xvla_ros.nodes import bringup
from xvla_ros.nodes.parameters.sim import SIM_PARAMETERS
from xvla_ros.parameters.files import check_file
from xvla_ros.parameters.parameter import Parameter
from xvla_ros.parameters.policy import POLICY_PARAMETERS
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ElementTree.parse(ROOT / "package.xml").getroot()
CMAKE = (ROOT / "CMakeLists.txt").read_text()
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
CONSTRAINTS = {
    pin.name.lower(): str(pin.specifier).removeprefix("==")
    for pin in PINS
    if pin.marker is None or pin.marker.evaluate()
}
INTERFACES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("msg", "srv", "action")
    for path in sorted((ROOT / folder).iterdir())
]
OF_ONE_DRIVER = {"interbotix_xs_msgs"}
"""Built from source by those who have the driver; imported by its back end only."""
PARAMETERS: dict[str, tuple[Parameter, ...]] = {
    names.POLICY_NODE: POLICY_PARAMETERS,
    names.SCHEDULER_NODE: SCHEDULER_PARAMETERS,
    names.SIM_NODE: SIM_PARAMETERS,
}


def test_the_version_is_the_same_everywhere() -> None:
    version = MANIFEST.findtext("version")
    assert xvla_ros.__version__ == version
    assert metadata.version("xvla-ros") == version


def test_the_name_is_the_same_everywhere() -> None:
    assert MANIFEST.findtext("name") == "xvla_ros" == bringup.PACKAGE
    assert "project(xvla_ros)" in CMAKE
    assert (ROOT / "resource" / "xvla_ros").is_file()


def test_the_licence_is_the_one_that_is_named() -> None:
    licence = MANIFEST.find("license")
    assert licence is not None
    assert licence.text == "Apache-2.0"
    text = (ROOT / licence.attrib["file"]).read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_interface_is_built_and_importable() -> None:
    listed = re.findall(r"(?:msg|srv|action)/\w+\.(?:msg|srv|action)", CMAKE)
    assert sorted(listed) == sorted(INTERFACES)
    for path in INTERFACES:
        folder, _, file = path.partition("/")
        module = importlib.import_module(f"xvla_ros.{folder}")
        assert hasattr(module, file.partition(".")[0]), f"{path}: run 'make build'"


def test_the_manifest_names_the_packages_of_the_interfaces() -> None:
    used = {
        name
        for path in INTERFACES
        for name in re.findall(r"^(\w+)/\w+", (ROOT / path).read_text(), re.MULTILINE)
    }
    named = {element.text for element in MANIFEST.iter("depend")}
    assert used <= named
    for name in named:
        assert f"find_package({name} REQUIRED)" in CMAKE


def test_the_manifest_names_the_ros_libraries_of_the_source() -> None:
    used = {
        name
        for path in (ROOT / "xvla_ros").rglob("*.py")
        for name in re.findall(
            r"^(?:from|import) (rclpy|cv_bridge|\w+_msgs|std_srvs|rcl_interfaces|launch\w*)\b",
            path.read_text(),
            re.MULTILINE,
        )
    }
    named = {element.text for tag in ("depend", "exec_depend") for element in MANIFEST.iter(tag)}
    assert {"rclpy", "sensor_msgs", "launch"} <= used
    assert used - OF_ONE_DRIVER <= named
    assert not OF_ONE_DRIVER & named, "rosdep has no key for it: it would refuse the whole manifest"


def test_every_executable_starts_its_module() -> None:
    installed = set(re.findall(r"^ +scripts/(\w+)$", CMAKE, re.MULTILINE))
    plan = bringup.describe(bringup.Arguments(sim=True))
    assert installed == {process.executable for process in plan.processes} | {"xvla"}
    for name in installed:
        script = ROOT / "scripts" / name
        assert script.stat().st_mode & stat.S_IXUSR
        text = script.read_text()
        assert text.startswith("#!/usr/bin/env python3\n")
        module = "xvla_ros.cli" if name == "xvla" else f"xvla_ros.nodes.{name}"
        assert f"from {module} import main" in text
        assert callable(importlib.import_module(module).main)


@pytest.mark.parametrize("file", ["policy.yaml", "sim.yaml"])
def test_the_parameter_files_hold_declared_parameters_only(file: str) -> None:
    check_file(ROOT / "config" / file, PARAMETERS)


def test_the_file_for_a_real_arm_states_the_defaults() -> None:
    """Whoever copies the file starts from the behaviour that the documentation describes."""
    document = yaml.safe_load((ROOT / "config" / "policy.yaml").read_text())
    for node in (names.POLICY_NODE, names.SCHEDULER_NODE):
        declared = {p.name: p.default for p in PARAMETERS[node]}
        for name, value in flat(document[f"/**/{node}"]["ros__parameters"]):
            if name.startswith("cameras."):
                continue
            assert (tuple(value) if isinstance(value, list) else value) == declared[name], name


def flat(values: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in values.items():
        pairs += (
            flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
        )
    return pairs


def test_the_simulated_robot_shows_what_the_demonstration_was_trained_on() -> None:
    from xvla_ros.training.recipe import INSTRUCTIONS, Recipe

    sections = yaml.safe_load((ROOT / "config" / "sim.yaml").read_text())
    values = dict(flat(sections["/**/xvla_policy"]["ros__parameters"]))
    topics = [values[f"cameras.{slot}.topic"] for slot in range(3)]
    trained = [names.sim_camera(camera) for camera in Recipe().cameras]
    assert topics == trained + [""] * (3 - len(trained))
    assert values["instruction"] == INSTRUCTIONS["pick"][0]


def test_every_pinned_version_is_the_installed_one() -> None:
    """Pins that this environment does not follow would not be what was tested."""
    assert CONSTRAINTS["numpy"] == "1.26.4"
    wrong = {}
    for name, version in CONSTRAINTS.items():
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if installed != version:
            wrong[name] = (version, installed)
    assert not wrong


def test_every_requirement_is_pinned() -> None:
    requirements = metadata.requires("xvla-ros") or []
    wanted = {re.split(r"[ <>=;\[!~]", line)[0].lower() for line in requirements}
    wheels = (ROOT / "scripts" / "ros_wheels.txt").read_text().splitlines()
    wanted |= {line.strip() for line in wheels if line.strip() and not line.startswith("#")}
    # The Makefile's variable chooses torch.
    assert sorted(wanted - set(CONSTRAINTS)) == ["torch"]


def test_make_tells_what_there_is() -> None:
    run = subprocess.run(["make", "-C", ROOT], capture_output=True, text=True, check=True)
    for target in ("demo", "test", "venv", "build", "test-interfaces", "lint", "clean"):
        assert f"make {target} " in run.stdout


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("no-such-python", "no 'no-such-python' here; name an interpreter: make PYTHON="),
        ("fake", "is Python 3.8; needed is 3.10, 3.11 or 3.12: make PYTHON=python3.12"),
    ],
)
def test_an_unsuitable_interpreter_is_named_in_one_line(
    python: str, message: str, tmp_path: Path
) -> None:
    if python == "fake":
        script = tmp_path / "python3.8"
        script.write_text("#!/bin/sh\necho 3.8\n")
        script.chmod(0o755)
        python = str(script)
    run = subprocess.run(
        ["bash", ROOT / "scripts" / "preflight.sh", python, tmp_path / "none"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("library", ["pyarrow", "matplotlib", "cv2", "rosbags", "ruckig", "mujoco"])
def test_libraries_load_beside_the_pinned_numpy(library: str) -> None:
    """pip does not know that a wheel was built for another numpy; the import does."""
    importlib.import_module(library)


def test_a_workspace_never_builds_the_tests_interfaces() -> None:
    """On a robot they would hide the driver's own package of the same name."""
    folder = ROOT / "test" / "interbotix_xs_msgs"
    assert (folder / "COLCON_IGNORE").is_file()
    listed = re.findall(r"(?:msg|srv)/\w+\.(?:msg|srv)", (folder / "CMakeLists.txt").read_text())
    files = [p.relative_to(folder).as_posix() for p in folder.glob("*/*.?[sr][gv]")]
    assert sorted(listed) == sorted(files)
    assert "interbotix" not in CMAKE
