"""Checks a ROS parameter file before a node reads it: wrong keys and values are named, not lost.

ROS itself drops an unknown key in silence and ends with a trace of C messages on a wrong type.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from xvla_ros.parameters.parameter import (
    Parameter,
    ParameterRefused,
    Values,
    is_built_in,
    unknown_name,
)

_SECTION = "ros__parameters"


class ParameterFileError(ParameterRefused):
    """A parameter file that cannot be used: file, key and what to write, in one line."""


class _Loader(yaml.SafeLoader):
    """Reads `1e-3` as a number, as ROS's own parser does and YAML 1.1 does not."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def check_file(path: str | Path, nodes: Mapping[str, Sequence[Parameter]]) -> None:
    """Checks every key and value that the file gives to the nodes.

    Sections of other nodes are left alone, unless their name looks like a misspelt one of ours.
    A key under a wildcard section reaches every node, so every node must know it.

    Args:
        path: the YAML file.
        nodes: parameters by node name.

    Raises:
        ParameterFileError: unreadable file, unknown key or node, value that is not allowed.
    """
    read_file(path, nodes)


def read_file(path: str | Path, nodes: Mapping[str, Sequence[Parameter]]) -> dict[str, Values]:
    """The values that a file gives, checked as by `check_file`, by node and by name.

    Raises:
        ParameterFileError: see `check_file`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ParameterFileError(f"{path}: cannot be read: {error.strerror}") from error
    return read_text(text, str(path), nodes)


def read_text(text: str, path: str, nodes: Mapping[str, Sequence[Parameter]]) -> dict[str, Values]:
    """The values of a file's text; a later section goes before an earlier one, as in ROS.

    Args:
        text: YAML.
        path: what to call it in errors.
        nodes: parameters by node name.

    Raises:
        ParameterFileError: see `check_file`.
    """
    given: dict[str, Values] = {name: {} for name in nodes}
    for section, values in _sections(text, path):
        for node_name in _addressed(path, section, nodes):
            _check_values(path, node_name, nodes[node_name], values)
            by_name = {p.name: p for p in nodes[node_name]}
            given[node_name].update(
                {key: by_name[key].check(value) for key, value in values.items() if key in by_name}
            )
    return given


def _addressed(
    path: str | Path, section: str, nodes: Mapping[str, Sequence[Parameter]]
) -> list[str]:
    """The nodes that read a section."""
    name = section.strip("/").split("/")[-1]
    if name in ("*", "**"):
        return list(nodes)
    if name in nodes:
        return [name]
    near = difflib.get_close_matches(name, list(nodes), n=1, cutoff=0.8)
    if near:
        raise ParameterFileError(
            f"{path}: no node is called '{section}'; did you mean '{near[0]}'?"
        )
    return []


def _check_values(
    path: str | Path,
    node_name: str,
    parameters: Sequence[Parameter],
    values: Mapping[str, object],
) -> None:
    by_name = {p.name: p for p in parameters}
    for key, value in values.items():
        if is_built_in(key):
            continue
        if key not in by_name:
            raise ParameterFileError(f"{path}: {unknown_name(key, parameters, node_name)}")
        try:
            by_name[key].check(value)
        except ParameterRefused as error:
            raise ParameterFileError(f"{path}: {error}") from error
        if isinstance(value, list) and len({type(element) for element in value}) > 1:
            numbers = ", ".join(repr(float(element)) for element in value)
            raise ParameterFileError(
                f"{path}: '{key}' mixes whole and decimal numbers, which ROS refuses: "
                f"write [{numbers}]"
            )


def _sections(text: str, path: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The node name of every section with its values by dotted key."""
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        cause = " ".join(str(error).split())
        raise ParameterFileError(f"{path}: not a YAML file: {cause}") from error
    if document is None:
        return
    found = list(_find_sections(document, ""))
    if not found:
        raise ParameterFileError(
            f"{path}: no '{_SECTION}' below a node name: write 'node_name:', then '{_SECTION}:'"
        )
    for section, values in found:
        if not isinstance(values, Mapping):
            raise ParameterFileError(f"{path}: '{section}/{_SECTION}' holds no parameters")
        yield section, dict(_flatten(values, ""))


def _find_sections(node: object, name: str) -> Iterator[tuple[str, object]]:
    if not isinstance(node, Mapping):
        return
    for key, child in node.items():
        if key == _SECTION:
            yield name, child
        else:
            yield from _find_sections(child, f"{name}/{key}" if name else str(key))


def _flatten(values: Mapping[object, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
