"""A real WidowX 250S: Interbotix' own driver, policy and chunk scheduler."""

from launch import LaunchDescription

from xvla_ros.nodes import bringup_widowx, launch_actions


def generate_launch_description() -> LaunchDescription:
    return launch_actions.description(
        bringup_widowx.describe_widowx,
        (
            *("robot_name", "params_file", "model", "device", "backend", "autostart"),
            *("start_actuation", "namespace", "log_level", "record", "record_to"),
        ),
        driver=bringup_widowx.driver_launch,
        driver_arguments=bringup_widowx.DRIVER_ARGUMENTS,
    )
