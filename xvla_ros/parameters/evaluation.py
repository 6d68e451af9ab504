"""Parameters of the evaluation on recordings: section `xvla_evaluate` of a parameter file.

What the nodes have parameters for (cameras, limits, model) is read from the nodes' own sections.
"""

from __future__ import annotations

from xvla_ros.parameters.parameter import Parameter

EVALUATE = "xvla_evaluate"
"""Name of the section; no node is called so."""

CLOCKS = ("auto", "receive", "stamp")

EVALUATION_PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "joint_states_topic",
        "",
        "Topic of the joint states; empty = the one that has the arm's joints.",
    ),
    Parameter(
        "instruction_topic",
        "",
        "Topic that tells the instruction; empty = found by type and name. The instruction in the "
        "section xvla_policy, if there is one, goes first.",
    ),
    Parameter(
        "episode_topic",
        "",
        "Topic whose value changes with each episode; empty = found by type and name.",
    ),
    Parameter(
        "episode_gap_s",
        2.0,
        "A pause of the joint states or of all images longer than this begins another episode.",
        "s",
        0.2,
        3600.0,
    ),
    Parameter(
        "clock",
        "auto",
        "Time that passes: receive = when a message was recorded; stamp = that, moved by the "
        "messages' mean distance from their stamps; auto = stamp where that exceeds 1 s.",
        choices=CLOCKS,
    ),
    Parameter(
        "truth_max_gap_s",
        0.5,
        "No pose is interpolated across a longer pause of the joint states.",
        "s",
        0.02,
        10.0,
    ),
    Parameter(
        "velocity_window_s",
        0.2,
        "Time over which the baseline constant_velocity takes its velocity.",
        "s",
        0.02,
        2.0,
    ),
    Parameter(
        "gripper_closed_above",
        0.5,
        "The recorded gripper counts as closed above this fraction of its way.",
        "",
        0.0,
        1.0,
    ),
)
