"""A ROS parameter as data, and what values it may take. Free of ROS.

From a list of them come the ROS declarations, the checks of files and of every later value, and
the reference page.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Scalar = bool | int | float | str
Value = Scalar | tuple[Scalar, ...]
Values = dict[str, Value]

# Declared by rclpy itself on every node.
BUILT_IN = ("use_sim_time", "start_type_description_service")
BUILT_IN_PREFIXES = ("qos_overrides.",)


class ParameterRefused(ValueError):
    """A value that a parameter cannot take, or a name that no parameter has; one line."""


@dataclass(frozen=True)
class Parameter:
    """One parameter. Its type is the type of its default; a tuple makes it a list.

    Ranges and choices hold for every element of a list.
    """

    name: str
    default: Value
    description: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = False
    length: int | None = None
    """Number of elements of a list; None allows any number."""

    def __post_init__(self) -> None:
        if self.default == ():
            raise ValueError(f"{self.name}: an empty list has no type")
        if self.kind is float:
            object.__setattr__(self, "default", _to_float(self.default))
        self.check(self.default)

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return isinstance(self.default, tuple)

    @property
    def kind(self) -> type:
        """Type of the value or, of a list, of its elements: bool, int, float or str."""
        first = self.default[0] if isinstance(self.default, tuple) else self.default
        if isinstance(self.default, tuple) and any(isinstance(v, float) for v in self.default):
            return float
        return type(first)

    def type_name(self) -> str:
        """The type in the words of ROS."""
        name = {bool: "bool", int: "int", float: "double", str: "string"}[self.kind]
        if not self.is_list:
            return name
        return f"list of {self.length if self.length is not None else ''} {name}".replace("  ", " ")

    def allowed(self) -> str:
        """The allowed values in words, with their unit; empty where every value is."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        unit = f" {self.unit}" if self.unit else ""
        if self.minimum is not None and self.maximum is not None:
            return f"{_number(self.minimum)} to {_number(self.maximum)}{unit}"
        if self.minimum is not None:
            return f"at least {_number(self.minimum)}{unit}"
        if self.maximum is not None:
            return f"at most {_number(self.maximum)}{unit}"
        return ""

    def check(self, value: object) -> Value:
        """The value in the parameter's own type; a whole number is taken for a double.

        Raises:
            ParameterRefused: wrong type, length, range or choice.
        """
        if self.is_list:
            return self._check_list(value)
        if isinstance(value, (list, tuple)):
            raise ParameterRefused(f"'{self.name}' is a {self.type_name()}, not a list")
        return self._check_scalar(value)

    def _check_list(self, value: object) -> Value:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise ParameterRefused(
                f"'{self.name}' is a {self.type_name()}, not {value!r}: "
                f"write {_as_yaml(self.default)}, brackets included"
            )
        elements = tuple(value)
        if self.length is not None and len(elements) != self.length:
            raise ParameterRefused(
                f"'{self.name}' needs {self.length} elements, got {len(elements)}"
            )
        return tuple(self._check_scalar(element) for element in elements)

    def _check_scalar(self, value: object) -> Scalar:
        kind = self.kind
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            example = _as_yaml(self.default)
            raise ParameterRefused(
                f"'{self.name}' is a {self.type_name()}, not {value!r}: write for example {example}"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise ParameterRefused(f"'{self.name}' cannot be {value}: it must be finite")
        if self.choices and value not in self.choices:
            raise ParameterRefused(
                f"'{self.name}' cannot be '{value}': allowed is {self.allowed()}"
                f"{suggestion(str(value), self.choices)}"
            )
        if isinstance(value, (int, float)) and not self._in_range(value):
            raise ParameterRefused(
                f"'{self.name}' cannot be {_number(value)}: allowed is {self.allowed()}"
            )
        assert isinstance(value, (bool, int, float, str))
        return value

    def _in_range(self, value: float) -> bool:
        above = self.minimum is None or value >= self.minimum
        return above and (self.maximum is None or value <= self.maximum)


def _number(value: float) -> str:
    """A number as a reader would write it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _to_float(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(float(v) if type(v) is int else v for v in value)
    return value


def _as_yaml(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_as_yaml(v) for v in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def suggestion(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the nearest right name, or nothing if none is near."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else ""


def is_built_in(name: str) -> bool:
    """Whether rclpy declares the parameter itself."""
    return name in BUILT_IN or name.startswith(BUILT_IN_PREFIXES)


def unknown_name(name: str, parameters: Sequence[Parameter], node_name: str) -> str:
    """The line that refuses a name which the node does not have."""
    near = suggestion(name, [p.name for p in parameters])
    return f"{node_name} has no parameter '{name}'{near}"


def defaults(parameters: Sequence[Parameter]) -> Values:
    """Default values by name."""
    return {p.name: p.default for p in parameters}


def reference_markdown(title: str, parameters: Sequence[Parameter]) -> str:
    """A section of the reference page: one table row per parameter."""
    lines = [
        f"## {title}",
        "",
        "| parameter | type | default | allowed | changes at run time | what it does |",
        "|---|---|---|---|---|---|",
    ]
    for p in parameters:
        unit = f" {p.unit}" if p.unit else ""
        lines.append(
            f"| `{p.name}` | {p.type_name()} | `{_as_yaml(p.default)}`{unit} "
            f"| {p.allowed() or 'any'} | {'no' if p.read_only else 'yes'} | {p.description} |"
        )
    return "\n".join(lines) + "\n"
