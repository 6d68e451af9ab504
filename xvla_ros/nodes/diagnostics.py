"""Messages on /diagnostics, as rqt_robot_monitor and Foxglove show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue


class Level(Enum):
    """How bad it is; the values are those of diagnostic_msgs/DiagnosticStatus."""

    OK = DiagnosticStatus.OK
    WARN = DiagnosticStatus.WARN
    ERROR = DiagnosticStatus.ERROR
    STALE = DiagnosticStatus.STALE


def diagnostic(
    name: str, level: Level, message: str, values: Mapping[str, object], hardware_id: str = ""
) -> DiagnosticStatus:
    """State of one thing, with its figures; floats are shown with four digits.

    Args:
        name: what it is about, with the node before it: `chunk_scheduler: commands`.
        level: how bad it is.
        message: one line.
        values: figures by name, units in the name.
        hardware_id: the device it is about, if any.
    """
    return DiagnosticStatus(
        name=name,
        level=level.value,
        message=message,
        hardware_id=hardware_id,
        values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()],
    )


def diagnostic_array(stamp: Time, statuses: Iterable[DiagnosticStatus]) -> DiagnosticArray:
    """The message of several states."""
    array = DiagnosticArray(status=list(statuses))
    array.header.stamp = stamp
    return array


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
