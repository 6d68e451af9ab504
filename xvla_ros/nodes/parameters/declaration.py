"""Declares parameters on a node, so that no wrong value ever reaches it.

A refused value changes nothing: the reason goes back to whoever set it and the old value stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import ParameterNotDeclaredException
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from xvla_ros.parameters.files import ParameterFileError, check_file
from xvla_ros.parameters.parameter import (
    Parameter,
    ParameterRefused,
    Value,
    Values,
    defaults,
    is_built_in,
    reference_markdown,
    unknown_name,
)

__all__ = [
    "Parameter",
    "ParameterFileError",
    "ParameterRefused",
    "Value",
    "Values",
    "check_file",
    "declare",
    "defaults",
    "descriptor",
    "read",
    "reference_markdown",
]


class _UnknownParameter(ParameterNotDeclaredException, ParameterRefused):
    """The exception that rclpy's parameter services turn into a reply, with our words."""

    def __init__(self, message: str) -> None:
        ValueError.__init__(self, message)


def descriptor(parameter: Parameter) -> ParameterDescriptor:
    """The ROS descriptor; scalar ranges are machine-readable, the rest is in words."""
    allowed = parameter.allowed()
    unit = f" [{parameter.unit}]" if parameter.unit else ""
    result = ParameterDescriptor(
        description=parameter.description + unit,
        additional_constraints=allowed if (parameter.choices or parameter.is_list) else "",
        read_only=parameter.read_only,
    )
    if parameter.is_list or (parameter.minimum is None and parameter.maximum is None):
        return result
    if parameter.kind is float:
        low = -math.inf if parameter.minimum is None else float(parameter.minimum)
        high = math.inf if parameter.maximum is None else float(parameter.maximum)
        result.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
    elif parameter.kind is int:
        low_int = -(2**63) if parameter.minimum is None else int(parameter.minimum)
        high_int = 2**63 - 1 if parameter.maximum is None else int(parameter.maximum)
        result.integer_range = [IntegerRange(from_value=low_int, to_value=high_int)]
    return result


def read(node: Node, parameters: Sequence[Parameter]) -> Values:
    """Current values by name; lists as tuples."""
    return {p.name: p.check(node.get_parameter(p.name).value) for p in parameters}


def declare(
    node: Node,
    parameters: Sequence[Parameter],
    *,
    check: Callable[[Values], str | None] | None = None,
    on_change: Callable[[Values], None] | None = None,
) -> Values:
    """Declares the parameters and keeps every later value inside its rules.

    Args:
        node: has none of the parameters yet.
        parameters: all parameters of the node.
        check: looks at all values as they would be, and returns why they cannot be so together.
        on_change: called with all values after one was set at run time.

    Returns:
        The values, overrides included.

    Raises:
        ParameterRefused: an override with an unknown name or a value that is not allowed.
    """
    by_name = {p.name: p for p in parameters}
    # rclpy has no public view of the overrides that nobody has declared yet.
    overrides: Mapping[str, RosParameter] = node._parameter_overrides
    for name in overrides:
        if name not in by_name and not is_built_in(name):
            raise ParameterRefused(unknown_name(name, parameters, node.get_name()))
    values = {
        p.name: p.check(overrides[p.name].value) if p.name in overrides else p.default
        for p in parameters
    }
    if check is not None and (reason := check(values)):
        raise ParameterRefused(reason)
    for p in parameters:
        value = values[p.name]
        node.declare_parameter(
            p.name,
            list(value) if isinstance(value, tuple) else value,
            descriptor(p),
            ignore_override=True,
        )

    def before(changes: list[RosParameter]) -> list[RosParameter]:
        """Refuses unknown names and takes whole numbers for doubles."""
        for change in changes:
            if not node.has_parameter(change.name):
                raise _UnknownParameter(unknown_name(change.name, parameters, node.get_name()))
        return [_as_declared(change, by_name.get(change.name)) for change in changes]

    def validate(changes: list[RosParameter]) -> SetParametersResult:
        future = read(node, parameters)
        try:
            for change in changes:
                if change.name in by_name:
                    future[change.name] = by_name[change.name].check(change.value)
        except ParameterRefused as error:
            return SetParametersResult(successful=False, reason=f"{error}; the old value stays")
        reason = check(future) if check is not None else None
        if reason:
            return SetParametersResult(successful=False, reason=f"{reason}; the old value stays")
        return SetParametersResult(successful=True)

    def after(changes: list[RosParameter]) -> None:
        if on_change is not None and any(change.name in by_name for change in changes):
            on_change(read(node, parameters))

    node.add_pre_set_parameters_callback(before)
    node.add_on_set_parameters_callback(validate)
    node.add_post_set_parameters_callback(after)
    return values


def _as_declared(change: RosParameter, parameter: Parameter | None) -> RosParameter:
    """A whole number, or a list of them, given for a double becomes a double."""
    if parameter is None or parameter.kind is not float:
        return change
    if change.type_ == RosParameter.Type.INTEGER:
        return RosParameter(change.name, value=float(change.value))
    if change.type_ == RosParameter.Type.INTEGER_ARRAY:
        return RosParameter(change.name, value=[float(v) for v in change.value])
    return change
