"""The parameter of nodes that compute for long and let commands go first."""

from __future__ import annotations

from xvla_ros.parameters.parameter import Parameter

DEFAULT = 10
"""A ninth of the weight of a process that does not give way."""

NICE = Parameter(
    "nice",
    DEFAULT,
    "How far the process gives way to others, above all to the commands; 0 = not at all.",
    minimum=0,
    maximum=19,
    read_only=True,
)
