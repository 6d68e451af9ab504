"""Imports go one way: which module of the package may import which, read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "xvla_ros"
GENERATED = {"xvla_ros.msg", "xvla_ros.srv", "xvla_ros.action"}

# What each part may import of the package besides itself and the vocabulary, which are the
# modules in the package's root.
ALLOWED = {
    "vocabulary": set(),
    "scheduler": set(),
    "arm": set(),
    "model": set(),
    "runtime": {"scheduler", "arm", "model"},
    "parameters": {"scheduler", "arm", "model", "runtime"},
    "sim": {"scheduler", "arm", "model", "runtime"},
    "evaluation": {"parameters", "scheduler", "arm", "model", "runtime", "sim", "training"},
    "training": {"scheduler", "arm", "model", "runtime", "sim", "evaluation"},
    "nodes": {"parameters", "scheduler", "arm", "model", "runtime", "sim"},
    "cli": {
        *("parameters", "scheduler", "arm", "model", "runtime", "sim"),
        *("evaluation", "training", "nodes"),
    },
}
LIVE = ("xvla_ros.evaluation.live", "xvla_ros.evaluation.demo")
"""The half of the evaluation that works with running nodes, and may import ROS and `nodes`."""
ROS = {"rclpy", "launch", "launch_ros", "cv_bridge", "rcl_interfaces", "lifecycle_msgs"}
"""Libraries that come with ROS; message packages are recognised by their ending."""
TORCH = {"torch", "torch_npu", "safetensors", "tokenizers", "transformers"}
VOCABULARY_LIBRARIES = {"numpy", "cv2", "transforms3d", "PIL"}


def modules() -> dict[str, Path]:
    """Every module of the source by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def part_of(module: str) -> str:
    """The part of the package to which a module belongs."""
    names = module.split(".")
    if len(names) > 2:
        return names[1]
    name = names[-1]
    if name in ALLOWED:
        return name
    return "vocabulary"


@cache
def imports(path: Path, *, everywhere: bool = True) -> tuple[str, ...]:
    """Dotted names of what a file imports; `everywhere` counts imports in functions too."""
    return tuple(_imports(path, everywhere))


def _imports(path: Path, everywhere: bool) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _statements(tree, everywhere):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import in line {node.lineno}"
            assert node.module is not None
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in MODULES else node.module


def _statements(tree: ast.AST, everywhere: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if not everywhere and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield child
        yield from _statements(child, everywhere)


def is_live(module: str) -> bool:
    return module.startswith(LIVE)


def own(name: str) -> bool:
    return name.split(".")[0] == "xvla_ros" and name not in GENERATED


def is_ros(name: str) -> bool:
    top = name.split(".")[0]
    return top in ROS or top.endswith("_msgs") or top in {"std_srvs", "builtin_interfaces"}


def test_the_package_has_the_parts_that_the_rules_name() -> None:
    parts = {part_of(module) for module in MODULES}
    assert parts <= set(ALLOWED)
    assert {"vocabulary", "scheduler", "arm", "model", "runtime", "sim", "nodes"} <= parts


@pytest.mark.parametrize("module", MODULES)
def test_imports_of_own_modules_go_one_way(module: str) -> None:
    part = part_of(module)
    allowed = ALLOWED[part] | {part, "vocabulary"} | ({"nodes"} if is_live(module) else set())
    for name in filter(own, imports(MODULES[module])):
        assert part_of(name) in allowed, f"{module} imports {name}"


@pytest.mark.parametrize("module", MODULES)
def test_ros_is_imported_only_by_nodes_and_the_live_evaluation(module: str) -> None:
    if part_of(module) == "nodes" or is_live(module):
        return
    used = {name for name in imports(MODULES[module]) if is_ros(name) or name in GENERATED}
    assert not used, f"{module} imports {used}"


@pytest.mark.parametrize("module", MODULES)
def test_torch_is_imported_only_where_networks_run(module: str) -> None:
    if part_of(module) in {"model", "runtime", "training"}:
        return
    used = {name for name in imports(MODULES[module]) if name.split(".")[0] in TORCH}
    assert not used, f"{module} imports {used}"


@pytest.mark.parametrize("module", [m for m in MODULES if part_of(m) == "vocabulary"])
def test_the_vocabulary_needs_arrays_and_images_only(module: str) -> None:
    foreign = {name.split(".")[0] for name in imports(MODULES[module]) if not own(name)}
    assert foreign - set(sys.stdlib_module_names) <= VOCABULARY_LIBRARIES


def test_nodes_are_imported_only_by_the_command_line_and_the_live_evaluation() -> None:
    users = {
        module
        for module, path in MODULES.items()
        if part_of(module) != "nodes" and not is_live(module)
        for name in imports(path)
        if own(name) and part_of(name) == "nodes"
    }
    assert {part_of(module) for module in users} <= {"cli"}


def test_there_is_no_cycle_among_modules() -> None:
    graph = {
        module: {name for name in imports(path, everywhere=False) if name in MODULES}
        for module, path in MODULES.items()
    }
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way[way.index(module) :], module))
        if module in done:
            return
        for name in sorted(graph[module]):
            if name != module:
                visit(name, (*way, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_the_scheduler_process_never_loads_torch() -> None:
    program = (
        "import sys; import xvla_ros.nodes.scheduler_node; "
        "sys.exit(sorted({'torch', 'mujoco', 'tokenizers'} & set(sys.modules)) or 0)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("part", [m for m, path in MODULES.items() if path.name == "__init__.py"])
def test_importing_a_part_imports_nothing_else_of_the_package(part: str) -> None:
    assert not [name for name in imports(MODULES[part]) if own(name)]
