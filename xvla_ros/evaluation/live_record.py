"""Records everything needed to repeat an episode, while the nodes run."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rclpy
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.srv import GetParameters
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from xvla_ros import names
from xvla_ros.evaluation.bag.discovery import INSTRUCTION_KEY
from xvla_ros.evaluation.bag.storage import Record
from xvla_ros.evaluation.bag.stream import StreamWriter
from xvla_ros.evaluation.bag_settings import PARAMETERS_KEY
from xvla_ros.evaluation.live_conductor import NotRunning
from xvla_ros.evaluation.live_recorder import LiveRecorder
from xvla_ros.evaluation.result import versions
from xvla_ros.msg import ActionChunk, Plan, PolicyStatus, SchedulerStatus, WorldState
from xvla_ros.parameters.parameter import Values
from xvla_ros.parameters.policy import COMPRESSED, POLICY_PARAMETERS, SLOTS
from xvla_ros.parameters.scheduler import SCHEDULER_PARAMETERS

VERSIONS_KEY = "xvla_ros.versions"
_TF_STATIC = "/tf_static"
_ASK_S = 2.0
_NODES = {names.POLICY_NODE: POLICY_PARAMETERS, names.SCHEDULER_NODE: SCHEDULER_PARAMETERS}


@dataclass(frozen=True)
class RecordOptions:
    """What is recorded and where to."""

    out: Path
    raw: bool = False
    """Keep raw images as they are instead of as JPEG."""
    jpeg_quality: int = 90
    wait_s: float = 30.0
    """For the policy node, which knows the cameras."""
    ros_arguments: tuple[str, ...] = ()
    """From --ros-args on: namespace, remappings, use_sim_time."""


@dataclass(frozen=True)
class Recorded:
    """What a recording has in the end."""

    folder: Path
    counts: dict[str, int]
    dropped: int
    """Messages that were not kept because they came too fast."""
    parameters: dict[str, Values] = field(default_factory=dict)


def record(options: RecordOptions, stop: threading.Event, said: Callable[[str], None]) -> Recorded:
    """Records until told to stop.

    Args:
        options: see there.
        stop: ends the recording.
        said: told what is going on.

    Raises:
        NotRunning: the policy node does not answer.
        UsageError: the bag cannot be made.
        OSError: the disk did not take everything.
    """
    with spinning("xvla_recorder", options.ros_arguments) as node:
        asked = ask_all(node, options.wait_s, stop)
        policy = asked[names.POLICY_NODE]
        driver = driver_topics(asked, said)
        writer = StreamWriter(options.out)
        recorder = recorder_of(
            node,
            policy,
            raw=options.raw,
            quality=options.jpeg_quality,
            sink=writer.put,
            clock=lambda: int(node.get_clock().now().nanoseconds),
            more=driver,
        )
        recorder.keep_images = True
        said(f"recording {recorder.topics} topics to {options.out}")
        stop.wait()
        recorder.close()
        # Parameters may have been changed meanwhile, or a node may have come later.
        asked |= {name: values for name, values in ask_again(node).items() if values}
        writer.close(custom_data(asked))
        return Recorded(
            options.out, dict(writer.counts), writer.dropped + recorder.images_dropped, asked
        )


def recorder_of(
    node: Node,
    policy: Values,
    *,
    raw: bool = False,
    quality: int = 85,
    sink: Callable[[Record], None] | None = None,
    clock: Callable[[], int] | None = None,
    more: Sequence[tuple[str, type]] = (),
) -> LiveRecorder:
    """A recorder of everything that repeats an episode; images once `keep_images` is set.

    Args:
        node: gets the subscriptions.
        policy: parameters of the policy node.
        raw: keep raw images as they are.
        quality: of the JPEG images.
        sink: see `LiveRecorder`.
        clock: see `LiveRecorder`.
        more: topics with types besides; see `driver_topics`.
    """
    topics, images = topics_of(policy, raw=raw)
    topics += more
    # A status from before the recording says what there was to do when it began.
    latched = (
        _TF_STATIC,
        names.of(names.POLICY_NODE, names.INSTRUCTION),
        names.of(names.POLICY_NODE, names.STATUS),
        names.of(names.SCHEDULER_NODE, names.STATUS),
    )
    return LiveRecorder(node, topics, images, quality, sink=sink, clock=clock, latched=latched)


def topics_of(policy: Values, *, raw: bool) -> tuple[list[tuple[str, type]], list[str]]:
    """Topics with types that are kept as they come, and raw image topics that become JPEG.

    Args:
        policy: parameters of the policy node.
        raw: keep raw images as they are.
    """
    robot = str(policy["robot_name"])
    found: list[tuple[str, type]] = [
        (names.joint_states(robot), JointState),
        (names.arm_trajectory(robot), JointTrajectory),
        (names.gripper_trajectory(robot), JointTrajectory),
        (names.ACTION_CHUNK, ActionChunk),
        (names.PLAN, Plan),
        (names.DIAGNOSTICS, DiagnosticArray),
        (names.of(names.POLICY_NODE, names.INSTRUCTION), String),
        (names.of(names.POLICY_NODE, names.STATUS), PolicyStatus),
        (names.of(names.SCHEDULER_NODE, names.STATUS), SchedulerStatus),
        (names.of(names.SCHEDULER_NODE, names.TARGET_POSE), PoseStamped),
        (names.of(names.SCHEDULER_NODE, names.CURRENT_POSE), PoseStamped),
        (names.of(names.SIM_NODE, names.WORLD_STATE), WorldState),
    ]
    with contextlib.suppress(ImportError):
        # Without it there is nobody who publishes transforms either.
        from tf2_msgs.msg import TFMessage

        found.append((_TF_STATIC, TFMessage))
    images: list[str] = []
    for slot in range(SLOTS):
        topic = str(policy[f"cameras.{slot}.topic"])
        if not topic:
            continue
        found.append((f"{topic.rpartition('/')[0]}/camera_info", CameraInfo))
        if policy[f"cameras.{slot}.transport"] == COMPRESSED:
            found.append((names.compressed(topic), CompressedImage))
        elif raw:
            found.append((topic, Image))
        else:
            images.append(topic)
    # Two cameras of one driver have one camera_info beside them.
    return list(dict(found).items()), images


def driver_topics(
    parameters: Mapping[str, Values], said: Callable[[str], None]
) -> list[tuple[str, type]]:
    """Command topics of a driver that has messages of its own, with their types.

    Args:
        parameters: of the nodes, by name.
        said: told what cannot be recorded, and the mend.
    """
    if parameters.get(names.SCHEDULER_NODE, {}).get("backend") != "xs":
        return []
    robot = str(parameters[names.POLICY_NODE]["robot_name"])
    group, single = names.xs_joint_group(robot), names.xs_joint_single(robot)
    try:
        from interbotix_xs_msgs.msg import JointGroupCommand, JointSingleCommand
    except ImportError:
        said(
            f"{group} and {single} are not recorded: interbotix_xs_msgs is missing (build "
            "github.com/Interbotix/interbotix_ros_core)"
        )
        return []
    return [(group, JointGroupCommand), (single, JointSingleCommand)]


def custom_data(parameters: dict[str, Values]) -> dict[str, str]:
    """What a bag says about the nodes, besides their messages."""
    document = {
        name: {"ros__parameters": {key: _plain(value) for key, value in values.items()}}
        for name, values in parameters.items()
        if values
    }
    custom = {
        PARAMETERS_KEY: yaml.safe_dump(document, sort_keys=True),
        VERSIONS_KEY: json.dumps(versions() | {"ros": os.environ.get("ROS_DISTRO", "")}),
    }
    instruction = str(parameters.get(names.POLICY_NODE, {}).get("instruction", ""))
    return custom | ({INSTRUCTION_KEY: instruction} if instruction else {})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def ask_all(node: Node, timeout: float, stop: threading.Event) -> dict[str, Values]:
    """Parameters of the policy node, which is waited for, and of the scheduler if it answers.

    Raises:
        NotRunning: the policy node does not answer in time.
    """
    end = time.monotonic() + timeout
    while not (found := _ask(node, names.POLICY_NODE)):
        if stop.is_set() or time.monotonic() > end:
            raise NotRunning(
                f"{names.POLICY_NODE} does not answer within {timeout:g} s: start the nodes first "
                "(ros2 launch xvla_ros policy.launch.py), in the same namespace and domain"
            )
    return {names.POLICY_NODE: found, names.SCHEDULER_NODE: _ask(node, names.SCHEDULER_NODE)}


def ask_again(node: Node) -> dict[str, Values]:
    """Parameters of the nodes that answer."""
    return {name: _ask(node, name) for name in _NODES}


def _ask(node: Node, target: str) -> Values:
    """All parameters of a node; empty if it does not answer within two seconds."""
    wanted = [parameter.name for parameter in _NODES[target]]
    client = node.create_client(GetParameters, f"{target}/get_parameters")
    answered = threading.Event()
    try:
        if not client.wait_for_service(_ASK_S):
            return {}
        future = client.call_async(GetParameters.Request(names=wanted))
        future.add_done_callback(lambda _future: answered.set())
        if not answered.wait(_ASK_S):
            return {}
        reply = future.result()
        # A node that has only just begun declares its parameters one by one.
        if reply is None or len(reply.values) != len(wanted):
            return {}
        found = {
            name: parameter_value_to_python(value)
            for name, value in zip(wanted, reply.values, strict=True)
        }
        return {
            name: tuple(value) if not isinstance(value, (str, bool, int, float)) else value
            for name, value in found.items()
            if value is not None
        }
    finally:
        node.destroy_client(client)


@contextlib.contextmanager
def spinning(name: str, ros_arguments: Sequence[str] = ()) -> Iterator[Node]:
    """A node that another thread spins; signals reach the caller, not ROS."""
    context = Context()
    rclpy.init(
        args=["xvla", *ros_arguments],
        context=context,
        signal_handler_options=SignalHandlerOptions.NO,
    )
    node = Node(f"{name}_{os.getpid()}", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def spin() -> None:
        with contextlib.suppress(ExternalShutdownException):
            executor.spin()

    thread = threading.Thread(target=spin, name=name, daemon=True)
    thread.start()
    try:
        yield node
    finally:
        context.try_shutdown()
        thread.join(5.0)
        node.destroy_node()
