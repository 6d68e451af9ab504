"""The series of a run, out of its bag.

What a message means is told by its type, not by the name of its topic, so a bag recorded under
other names reads the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xvla_ros.arm.constants import ARM_JOINTS, LEFT_FINGER
from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.arm.mapping import read_joint_state
from xvla_ros.evaluation.bag import storage as bag

Array = NDArray[np.float64]

# Columns of a Plan's rows: x y z qx qy qz qw gripper.
_PLAN_NUMBERS = 8


@dataclass(frozen=True, eq=False)
class Motion:
    """An arm over time: times (n,) in seconds, joints (n, 6) in rad, finger (n,) in m."""

    times: Array
    joints: Array
    finger: Array

    def positions(self) -> Array:
        """Positions (n, 3) of the gripper in the base frame."""
        arm = WidowX250s()
        return np.array([arm.fk(q).position for q in self.joints]).reshape(-1, 3)

    def between(self, start: float, end: float) -> Motion:
        """The part in a closed span of time."""
        inside = (self.times >= start) & (self.times <= end)
        return Motion(self.times[inside], self.joints[inside], self.finger[inside])


@dataclass(frozen=True)
class ChunkTrace:
    """When a chunk was observed, computed and received; seconds."""

    sequence: int
    stamp: float
    inference_start: float
    inference_end: float
    received: float


@dataclass(frozen=True, eq=False)
class PlanTrace:
    """A plan as published at `time`: positions (n, 3) from `start` on, every `dt` seconds."""

    time: float
    start: float
    dt: float
    positions: Array
    gripper: Array
    sequence: int
    holding: bool

    def ahead(self, time: float) -> tuple[Array, Array]:
        """Positions and gripper commands that are still to come at a time."""
        first = max(0, math.ceil((time - self.start) / self.dt))
        return self.positions[first:], self.gripper[first:]


@dataclass(frozen=True)
class Frame:
    """One compressed image."""

    stamp: float
    data: bytes


@dataclass(eq=False)
class Recording:
    """All series of a bag, each in order of time."""

    commanded: Motion
    measured: Motion
    chunks: list[ChunkTrace] = field(default_factory=list)
    plans: list[PlanTrace] = field(default_factory=list)
    policy_status: Any = None
    """The last PolicyStatus, or None."""
    scheduler_status: Any = None
    """The last SchedulerStatus, or None."""
    frames: dict[str, list[Frame]] = field(default_factory=lambda: defaultdict(list))
    """By image topic."""
    frames_published: dict[str, list[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By camera: time and number of frames so far."""
    frames_received: dict[str, list[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By image topic, as the policy counts them."""

    def switches(self) -> list[float]:
        """Times at which the scheduler went over to another chunk."""
        found, sequence = [], 0
        for plan in self.plans:
            if plan.sequence not in (0, sequence):
                found.append(plan.time)
            sequence = plan.sequence or sequence
        return found

    def plan_at(self, time: float) -> PlanTrace | None:
        """The plan in force at a time."""
        return next((plan for plan in reversed(self.plans) if plan.time <= time), None)


def load(folder: Path) -> Recording:
    """The recording in a bag.

    Raises:
        UsageError: there is no bag.
    """
    reader = _Reader()
    for entry in bag.read(folder):
        reader.take(entry)
    return reader.recording()


class _Reader:
    """Sorts messages into series."""

    def __init__(self) -> None:
        self._commands: list[tuple[float, Sequence[float]]] = []
        self._grips: list[tuple[float, float]] = []
        self._measured: list[tuple[float, Sequence[float], float]] = []
        empty = Motion(np.zeros(0), np.zeros((0, 6)), np.zeros(0))
        self._result = Recording(empty, empty)
        self._handlers: dict[str, Callable[[bag.Entry], None]] = {
            "sensor_msgs/msg/JointState": self._joint_state,
            "sensor_msgs/msg/CompressedImage": self._image,
            "trajectory_msgs/msg/JointTrajectory": self._trajectory,
            "diagnostic_msgs/msg/DiagnosticArray": self._diagnostics,
            "xvla_ros/msg/ActionChunk": self._chunk,
            "xvla_ros/msg/Plan": self._plan,
            "xvla_ros/msg/WorldState": self._world,
            "xvla_ros/msg/PolicyStatus": self._policy_status,
            "xvla_ros/msg/SchedulerStatus": self._scheduler_status,
        }

    def take(self, entry: bag.Entry) -> None:
        handler = self._handlers.get(entry.message.__msgtype__)
        if handler is not None:
            handler(entry)

    def recording(self) -> Recording:
        times = np.array([time for time, _ in self._commands])
        joints = np.array([q for _, q in self._commands], dtype=np.float64).reshape(-1, 6)
        grips = np.array(self._grips, dtype=np.float64).reshape(-1, 2)
        # Arm and gripper are commanded in separate messages; each holds until its next one.
        finger = np.full(len(times), np.nan)
        if len(grips):
            index = np.searchsorted(grips[:, 0], times, side="right") - 1
            finger = np.where(index >= 0, grips[np.maximum(index, 0), 1], np.nan)
        self._result.commanded = Motion(times, joints, finger)
        self._result.measured = Motion(
            np.array([time for time, _, _ in self._measured]),
            np.array([q for _, q, _ in self._measured], dtype=np.float64).reshape(-1, 6),
            np.array([f for _, _, f in self._measured], dtype=np.float64),
        )
        return self._result

    def _joint_state(self, entry: bag.Entry) -> None:
        message = entry.message
        try:
            reading = read_joint_state(message.name, message.position)
        except ValueError:
            # Another robot's joints, or a joint without a reading: no place of the arm.
            return
        finger = math.nan if reading.finger is None else reading.finger
        self._measured.append((seconds(message.header.stamp), reading.joints.tolist(), finger))

    def _trajectory(self, entry: bag.Entry) -> None:
        message = entry.message
        if not message.points:
            return
        values = dict(zip(message.joint_names, message.points[-1].positions, strict=False))
        if all(name in values for name in ARM_JOINTS):
            self._commands.append((entry.time, [values[name] for name in ARM_JOINTS]))
        elif LEFT_FINGER in values:
            self._grips.append((entry.time, values[LEFT_FINGER]))

    def _image(self, entry: bag.Entry) -> None:
        topic = entry.topic.removesuffix("/compressed")
        frame = Frame(seconds(entry.message.header.stamp), entry.message.data.tobytes())
        self._result.frames[topic].append(frame)

    def _chunk(self, entry: bag.Entry) -> None:
        m = entry.message
        self._result.chunks.append(
            ChunkTrace(
                m.sequence,
                seconds(m.header.stamp),
                seconds(m.inference_start),
                seconds(m.inference_end),
                entry.time,
            )
        )

    def _plan(self, entry: bag.Entry) -> None:
        m = entry.message
        rows = np.asarray(m.poses, dtype=np.float64).reshape(-1, _PLAN_NUMBERS)
        self._result.plans.append(
            PlanTrace(
                seconds(m.header.stamp),
                seconds(m.start),
                m.dt,
                rows[:, :3],
                rows[:, 7],
                m.sequence,
                m.holding,
            )
        )

    def _world(self, entry: bag.Entry) -> None:
        m = entry.message
        for camera, count in zip(m.camera_names, m.frames_published, strict=True):
            self._result.frames_published[camera].append((seconds(m.header.stamp), int(count)))

    def _diagnostics(self, entry: bag.Entry) -> None:
        """The policy reports per topic how many messages it has received."""
        for status in entry.message.status:
            _, _, topic = status.name.partition(": ")
            values = {pair.key: pair.value for pair in status.values}
            if topic.startswith("/") and "received" in values:
                time = seconds(entry.message.header.stamp)
                self._result.frames_received[topic].append((time, int(values["received"])))

    def _policy_status(self, entry: bag.Entry) -> None:
        self._result.policy_status = entry.message

    def _scheduler_status(self, entry: bag.Entry) -> None:
        self._result.scheduler_status = entry.message


def seconds(stamp: Any) -> float:
    """Seconds of a stamp."""
    return float(stamp.sec) + stamp.nanosec * 1e-9
