"""The simulated WidowX 250S alone, in the place of the real one's driver."""

from launch import LaunchDescription

from xvla_ros.nodes import bringup, launch_actions


def generate_launch_description() -> LaunchDescription:
    return launch_actions.description(
        bringup.describe_sim,
        ("robot_name", "params_file", "namespace", "use_sim_time", "log_level"),
    )
