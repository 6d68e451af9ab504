"""A stage for the policy node: cameras, joints and a scheduler's plan that a test can spoil.

The node runs in this process with its own executor and a small network with random weights; what
goes between it and the players goes over DDS.
"""

from __future__ import annotations

import array
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import Image, JointState

from xvla_ros import names
from xvla_ros.arm import constants
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.chunk import Plan
from xvla_ros.geometry import Pose
from xvla_ros.msg import ActionChunk, PolicyStatus
from xvla_ros.msg import Plan as PlanMsg
from xvla_ros.nodes import qos
from xvla_ros.nodes.conversions import chunk_from_msg, plan_msg, seconds
from xvla_ros.nodes.policy_node import PolicyNode
from xvla_ros.nodes.process import let_finish


class Stage(Node):
    """What is around the policy node.

    Attributes:
        chunks: every chunk heard, with the monotonic time of its arrival.
        statuses: every status heard, likewise.
        sent: ROS times in seconds of the images sent, by topic.
        silent: topics on which nothing is sent.
        joints: positions sent, by name.
        offset: added to every stamp, seconds.
        plan: sent at 10 Hz; None = no scheduler.
    """

    def __init__(self, context: Any, cameras: tuple[str, ...], **options: Any) -> None:
        super().__init__("stage", context=context, **options)
        self.chunks: list[tuple[float, ActionChunk]] = []
        self.statuses: list[tuple[float, PolicyStatus]] = []
        self.sent: dict[str, list[float]] = {topic: [] for topic in cameras}
        self.silent: set[str] = set()
        self.joints = dict(zip(constants.ARM_JOINTS, constants.READY, strict=True))
        self.offset = 0.0
        self.stamped = True
        self.plan: Plan | None = None
        self.encoding = "bgr8"
        self._cameras = {t: self.create_publisher(Image, t, qos.IMAGE) for t in cameras}
        self._joints = self.create_publisher(
            JointState, names.joint_states(), qos.JOINT_STATES_PUBLISHER
        )
        self._plans = self.create_publisher(PlanMsg, names.PLAN, qos.PLAN)
        self.create_subscription(ActionChunk, names.ACTION_CHUNK, self._on_chunk, qos.CHUNK)
        status = names.of(names.POLICY_NODE, names.STATUS)
        self.create_subscription(PolicyStatus, status, self._on_status, qos.STATUS)
        self.create_timer(0.05, self._send_images)
        self.create_timer(0.02, self._send_joints)
        self.create_timer(0.1, self._send_plan)

    def _on_chunk(self, message: ActionChunk) -> None:
        self.chunks.append((time.monotonic(), message))

    def _on_status(self, message: PolicyStatus) -> None:
        self.statuses.append((time.monotonic(), message))

    def now(self) -> float:
        return seconds(self.get_clock().now().to_msg())

    def _stamp(self, message: Any) -> None:
        if self.stamped:
            message.header.stamp = self.get_clock().now().to_msg()
            message.header.stamp.sec += round(self.offset)

    def _send_images(self) -> None:
        for topic, publisher in self._cameras.items():
            if topic in self.silent:
                continue
            message = Image(height=48, width=64, encoding=self.encoding, step=192)
            message.data = array.array("B", bytes(48 * 192))
            self._stamp(message)
            publisher.publish(message)
            self.sent[topic].append(seconds(message.header.stamp))

    def _send_joints(self) -> None:
        if names.joint_states() in self.silent:
            return
        # Reversed, with others beside them and without velocities: as a driver may.
        order = [*reversed(constants.JOINT_STATE_NAMES), "lift"]
        message = JointState(name=order)
        message.position = [float(self.joints.get(name, 0.02)) for name in order]
        self._stamp(message)
        self._joints.publish(message)

    def _send_plan(self) -> None:
        if self.plan is not None:
            plan = replace(self.plan, start=self.now())
            self._plans.publish(plan_msg(plan, plan.start, names.base_frame()))

    @property
    def status(self) -> PolicyStatus | None:
        return self.statuses[-1][1] if self.statuses else None

    def state(self) -> int:
        return -1 if self.status is None else int(self.status.state)

    def holding(self, pose: Pose, **fields: Any) -> Plan:
        """A plan that keeps a pose, and claims to come from a chunk in execution."""
        values = {"holding": False, "actuating": True, "epoch": 1, "sequence": 1} | fields
        return Plan(self.now(), 0.1, (pose, pose), (0.0, 0.0), **values)

    def ready_pose(self) -> Pose:
        return WidowX250s().fk(constants.READY)

    def heard_since(self, count: int) -> Any:
        """Chunks after the first `count`, canonical."""
        return [chunk_from_msg(message) for _, message in self.chunks[count:]]


class Runner:
    """Runs a policy node in threads of this process, as `main` does in a process of its own."""

    def __init__(self, ros: Any, stage: Stage, parameters: dict[str, Any]) -> None:
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        self.node = PolicyNode(context=ros.context, parameter_overrides=overrides)
        self._executor = MultiThreadedExecutor(4, context=ros.context)
        self._executor.add_node(self.node)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()
        self._ros = ros
        self.stage = stage
        self._change = stage.create_client(ChangeState, f"{names.POLICY_NODE}/change_state")

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not self._end.is_set():
                self._executor.spin_once(timeout_sec=0.1)

    def transition(self, name: str) -> bool:
        """Whether the lifecycle transition succeeded."""
        self._ros.wait_for(self._change.service_is_ready, 30.0, "change_state")
        number = getattr(Transition, f"TRANSITION_{name.upper()}")
        future = self._change.call_async(ChangeState.Request(transition=Transition(id=number)))
        self._ros.wait_for(future.done, 30.0, f"end of {name}")
        return bool(future.result().success)

    def lifecycle_state(self) -> str:
        return str(self._ros.state(self.stage, names.POLICY_NODE))

    def set(self, name: str, value: Any) -> tuple[bool, str]:
        answer = self._ros.set_parameter(self.stage, names.POLICY_NODE, name, value)
        return bool(answer[0]), str(answer[1])

    def start(self) -> None:
        """Configures and activates, and waits until it is heard."""
        assert self.transition("configure")
        assert self.transition("activate")
        stage = self.stage
        self._ros.wait_for(lambda: stage.count_publishers(names.ACTION_CHUNK), what="publisher")

    def close(self) -> None:
        self._end.set()
        self._thread.join(5.0)
        self.node.shut_down()
        let_finish(self._executor)
        self._executor.shutdown(timeout_sec=5.0)
        self.node.destroy_node()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory, make: Any) -> Path:
    return make.folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def stage(ros: Any) -> Stage:
    return ros.add(Stage(ros.context, ("main/image_raw", "wrist/image_raw")))


@pytest.fixture
def run(ros: Any, stage: Stage, model_folder: Path) -> Iterator[Callable[..., Runner]]:
    """Makes a running policy node: `run(**parameters)` with `__` for a dot."""
    runners: list[Runner] = []

    def start(on: Stage = stage, **parameters: Any) -> Runner:
        given = {
            "model_path": str(model_folder),
            "device": "cpu",
            "threads": 1,
            "denoising_steps": 2,
            "cameras.0.topic": "main/image_raw",
            "cameras.1.topic": "wrist/image_raw",
            "instruction": "pick up the red cube",
            "policy_rate_hz": 10.0,
            # Wide, because the machine of the tests may be busy.
            "observation.max_image_age_s": 3.0,
            "observation.max_skew_s": 1.0,
            "joint_states_max_age_s": 2.0,
        }
        given |= {name.replace("__", "."): value for name, value in parameters.items()}
        runners.append(Runner(ros, on, given))
        return runners[-1]

    yield start
    for runner in runners:
        runner.close()
