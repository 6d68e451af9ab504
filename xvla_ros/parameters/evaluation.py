"""Parameters of the evaluation on recordings: section `xvla_evaluate` of a parameter file.

What the nodes have parameters for (cameras, limits, model) is read from the nodes' own sections.
"""

from __future__ import annotations

from xvla_ros.parameters.parameter import Parameter
from xvla_ros.parameters.policy import SLOTS

EVALUATE = "xvla_evaluate"
"""Name of the section; no node is called so."""

CLOCKS = ("auto", "receive", "stamp")


def _calibration(slot: int) -> tuple[Parameter, ...]:
    """How a camera sees and where it stands, for paths drawn into its pictures."""
    prefix = f"calibration.{slot}"
    return (
        Parameter(
            f"{prefix}.intrinsics",
            (0.0, 0.0, 0.0, 0.0),
            f"fx, fy, cx, cy of the camera of view {slot}; zeros = from the recording's "
            "camera_info and tf_static, if it has them.",
            "pixels",
            length=4,
        ),
        Parameter(
            f"{prefix}.size",
            (640.0, 480.0),
            "Width and height of the images that the intrinsics are for.",
            "pixels",
            length=2,
        ),
        Parameter(
            f"{prefix}.model",
            "plumb_bob",
            "Model of the distortion: plumb_bob takes k1, k2, p1, p2, k3; fisheye takes k1 to k4.",
            choices=("plumb_bob", "fisheye"),
        ),
        Parameter(f"{prefix}.distortion", (0.0, 0.0, 0.0, 0.0), "Coefficients of the distortion."),
        Parameter(
            f"{prefix}.parent",
            "base",
            "What the camera is fixed to: base_link or ee_gripper_link.",
            choices=("base", "ee"),
        ),
        Parameter(
            f"{prefix}.position",
            (0.0, 0.0, 0.0),
            "Of the optical frame in its parent.",
            "m",
            length=3,
        ),
        Parameter(
            f"{prefix}.orientation",
            (0.0, 0.0, 0.0, 1.0),
            "Quaternion x, y, z, w of the optical frame (z looks forward, y down) in its parent.",
            length=4,
        ),
    )


EVALUATION_PARAMETERS: tuple[Parameter, ...] = (
    *(parameter for slot in range(SLOTS) for parameter in _calibration(slot)),
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
        0.2,
        "The recorded gripper counts as closed above this fraction of its way; a thing between the "
        "fingers stops them early: the 35 mm cube of the simulator at 0.4.",
        "",
        0.0,
        1.0,
    ),
)
