"""Policy and chunk scheduler, with sim:=true the simulated WidowX 250S too."""

from launch import LaunchDescription

from xvla_ros.nodes import bringup, launch_actions


def generate_launch_description() -> LaunchDescription:
    return launch_actions.description(bringup.describe)
