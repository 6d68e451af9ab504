"""Turns a bring-up into actions of the launch system. Imported by launch files only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import launch
from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    GroupAction,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
    TimerAction,
)
from launch.event_handlers import OnProcessExit, OnProcessStart
from launch.events import Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.actions import Node as NodeAction
from launch_ros.ros_adapters import get_ros_node

from xvla_ros.nodes import bringup
from xvla_ros.nodes.bringup import Arguments, BringUp, Process
from xvla_ros.nodes.bringup_widowx import DriverLaunch
from xvla_ros.nodes.lifecycle_client import LifecycleClient, follow

_WRONG_ARGUMENTS = 2
# Loading a model and ending a picture take longer than launch's own 5 s on a busy machine.
_SIGTERM_TIMEOUT_S = "15"

Actions = list[Any]


def description(
    describe: Callable[[Arguments], BringUp],
    arguments: Iterable[str] | None = None,
    driver: Callable[[Arguments, Mapping[str, str]], DriverLaunch] | None = None,
    driver_arguments: Mapping[str, tuple[str, str]] | None = None,
) -> launch.LaunchDescription:
    """A launch description with the arguments of a bring-up.

    Args:
        describe: makes the bring-up of the arguments.
        arguments: names of those that the launch file offers; all but those of a replay if None.
            The rest have their defaults.
        driver: says which launch file of another package starts the robot's driver, if any.
        driver_arguments: default and description by argument that goes to that file.
    """
    known = {**bringup.argument_descriptions(), **(driver_arguments or {})}
    of_driver = list(driver_arguments or ())
    offered = [n for n in bringup.argument_descriptions() if n not in bringup.REPLAY_ARGUMENTS]
    if arguments is not None:
        offered = list(arguments)

    def actions(context: launch.LaunchContext) -> Actions:
        texts = {name: LaunchConfiguration(name).perform(context) for name in offered}
        to_driver = {name: LaunchConfiguration(name).perform(context) for name in of_driver}
        try:
            parsed = bringup.parse_arguments(texts)
            plan = describe(parsed)
            first = [] if driver is None else [_include(driver(parsed, to_driver))]
        except (bringup.BringUpError, FileNotFoundError) as error:
            return _end(str(error))
        processes = [action for process in plan.processes for action in _process(process, plan)]
        return [*first, *processes]

    return launch.LaunchDescription(
        [
            *(
                DeclareLaunchArgument(
                    name, default_value=known[name][0], description=known[name][1]
                )
                for name in (*offered, *of_driver)
            ),
            OpaqueFunction(function=actions),
        ]
    )


def _include(driver: DriverLaunch) -> GroupAction:
    """The driver's launch file, with its arguments out of reach of ours.

    Raises:
        BringUpError: its package is not installed.
    """
    try:
        share = get_package_share_directory(driver.package)
    except PackageNotFoundError as error:
        raise bringup.BringUpError(driver.absent) from error
    source = PythonLaunchDescriptionSource(os.path.join(share, "launch", driver.file))
    included = IncludeLaunchDescription(source, launch_arguments=driver.arguments.items())
    return GroupAction([included], scoped=True, forwarding=False)


def _process(process: Process, plan: BringUp, *, respawned: bool = False) -> Actions:
    parameters = {**process.parameters, **(process.respawn_parameters if respawned else {})}
    # The system's own respawn repeats the same command, so it serves where nothing changes.
    unchanged = parameters == {**parameters, **process.respawn_parameters}
    make = LifecycleNode if process.lifecycle else NodeAction
    node = make(
        package=bringup.PACKAGE,
        executable=process.executable,
        name=process.node,
        namespace=process.namespace,
        parameters=[*map(str, process.params_files), parameters],
        arguments=list(process.arguments),
        ros_arguments=process.log_arguments(),
        respawn=process.respawn and unchanged,
        respawn_delay=process.respawn_delay,
        sigterm_timeout=_SIGTERM_TIMEOUT_S,
        output="screen",
        emulate_tty=True,
    )

    def on_exit(event: Any, context: launch.LaunchContext) -> Actions:
        if context.is_shutdown:
            return []
        if not process.respawn or event.returncode == _WRONG_ARGUMENTS:
            # Another start would change nothing.
            reason = f"{process.node} ended with code {event.returncode}"
            return _end(reason) if process.essential else [LogInfo(msg=f"xvla_ros: {reason}")]
        if unchanged:
            return []
        again = _process(process, plan, respawned=True)
        return [TimerAction(period=process.respawn_delay, actions=again)]

    # Before the node itself, so that its start is not missed.
    actions: Actions = [RegisterEventHandler(OnProcessExit(target_action=node, on_exit=on_exit))]
    if process.lifecycle and plan.transitions:
        on_start = _on_start(process, plan)
        actions.append(RegisterEventHandler(OnProcessStart(target_action=node, on_start=on_start)))
    return [*actions, node]


def _on_start(process: Process, plan: BringUp) -> Callable[..., Actions]:
    """Follows the transitions after every start of the process, in a thread."""

    def on_start(event: Any, context: launch.LaunchContext) -> Actions:
        node = get_ros_node(context)
        logger = launch.logging.get_logger(process.node)

        def running() -> bool:
            return not context.is_shutdown and os.path.exists(f"/proc/{event.pid}")

        def bring_up() -> None:
            client = LifecycleClient(node, process.full_name, running)
            state = follow(client, plan.transitions)
            if state is not None and state != "active":
                logger.error(
                    f"stays {state}: the reason is above; after the mend: "
                    f"ros2 lifecycle set {process.full_name} configure, then activate"
                )

        context.add_completion_future(context.asyncio_loop.run_in_executor(None, bring_up))
        return []

    return on_start


def _end(reason: str) -> Actions:
    return [LogInfo(msg=f"xvla_ros: {reason}"), EmitEvent(event=Shutdown(reason=reason))]
