"""A recording played into policy and chunk scheduler in its own time; nothing can move.

Ends with the recording, and leaves a report.
"""

from launch import LaunchDescription

from xvla_ros.evaluation import live_cameras
from xvla_ros.nodes import launch_actions


def generate_launch_description() -> LaunchDescription:
    return launch_actions.description(
        live_cameras.describe,
        (
            *("bag", "out", "rate", "model", "device", "params_file", "robot_name"),
            *("namespace", "log_level"),
        ),
    )
