"""A bag as a run would leave it, made of real messages; every number in it is known."""

from __future__ import annotations

from array import array

import cv2
import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from sensor_msgs.msg import CompressedImage, JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from xvla_ros.arm.constants import ARM_JOINTS, JOINT_STATE_NAMES
from xvla_ros.chunk import Plan
from xvla_ros.evaluation.bag import storage as bag
from xvla_ros.geometry import Pose
from xvla_ros.msg import ActionChunk, PolicyStatus, SchedulerStatus, WorldState
from xvla_ros.nodes import conversions

START = 1_000.0
READY = np.array([-0.13192, -0.76239, 0.44485, -0.01994, 1.75641, -0.15953])
LAG_RAD = 0.01
"""By which the measured waist is behind the commanded one."""
INFERENCE_S = 0.1


def header(time):
    return Header(stamp=conversions.time_msg(time), frame_id="wx250s/base_link")


def record(topic, message, time):
    """The message as it is on the wire; rclpy's own serializer would leave padding behind it."""
    name = _type_name(message)
    data = bytes(bag.typestore().serialize_cdr(_plain(message), name))
    return bag.Record(topic, name, round(time * 1e9), data)


def _type_name(message):
    package, folder, *_ = type(message).__module__.split(".")
    return f"{package}/{folder}/{type(message).__name__}"


def _plain(value):
    """A ROS message as one of the bag library."""
    if hasattr(value, "get_fields_and_field_types"):
        fields = {name: _plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
        return bag.typestore().types[_type_name(value)](**fields)
    if isinstance(value, array):
        return np.asarray(value)
    if isinstance(value, bytes):  # a single `byte`
        return value[0]
    return [_plain(one) for one in value] if isinstance(value, list) else value


def joints(time):
    """Commanded joint angles: the waist turns at 0.2 rad/s."""
    return READY + np.array([0.2 * (time - START), 0, 0, 0, 0, 0])


def commands(end):
    for time in np.arange(START, end, 0.02):
        arm = JointTrajectory(
            joint_names=list(ARM_JOINTS),
            points=[JointTrajectoryPoint(positions=joints(time).tolist())],
        )
        yield record("/wx250s/arm_controller/joint_trajectory", arm, time)
    for time, finger in ((START, 0.037), (START + 1.0, 0.015)):
        grip = JointTrajectory(
            joint_names=["left_finger"], points=[JointTrajectoryPoint(positions=[finger])]
        )
        yield record("/wx250s/gripper_controller/joint_trajectory", grip, time)


def joint_states(end):
    order = [8, 7, 6, 5, 4, 3, 2, 1, 0]
    for time in np.arange(START, end, 0.01):
        values = [*(joints(time) - [LAG_RAD, 0, 0, 0, 0, 0]), 0.0, 0.02, -0.02]
        message = JointState(
            header=header(time),
            name=[JOINT_STATE_NAMES[i] for i in order],
            position=[float(values[i]) for i in order],
        )
        yield record("/wx250s/joint_states", message, time)


def chunks(end):
    for sequence, time in enumerate(np.arange(START + 0.5, end, 0.5), 1):
        message = ActionChunk(
            header=header(time - INFERENCE_S - 0.02),
            sequence=sequence,
            inference_start=conversions.time_msg(time - INFERENCE_S),
            inference_end=conversions.time_msg(time),
        )
        yield record("/action_chunk", message, time + 0.01)


def plans(end):
    poses = tuple(Pose(np.array([0.25, 0.0, 0.2 - 0.05 * k]), np.eye(3)) for k in range(4))
    for sequence, time in enumerate(np.arange(START + 0.6, end, 0.5), 1):
        plan = Plan(time, 0.1, poses, (0.0, 0.0, 1.0, 1.0), sequence=sequence, holding=False)
        # Published at the change of chunk, and once more at the steady rate.
        for later in (0.0, 0.2):
            yield record("/plan", conversions.plan_msg(plan, time + later, "base"), time + later)


def pictures(end, image):
    _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    for time in np.arange(START, end, 1.0 / 15.0):
        message = CompressedImage(header=header(time), format="jpeg", data=data.tobytes())
        for camera in ("front", "wrist"):
            yield record(f"/sim/{camera}/image_raw/compressed", message, time + 0.005)


def counters(end):
    """Every tenth frame of the front camera is lost, none of the wrist camera."""
    for time in np.arange(START, end, 0.1):
        sent = round(15 * (time - START))
        message = WorldState(
            header=header(time), camera_names=["front", "wrist"], frames_published=[sent, sent]
        )
        yield record("/sim_wx250s/world_state", message, time)
    for time in np.arange(START + 0.2, end - 0.2, 1.0):
        sent = 15 * (time - START)
        states = [
            DiagnosticStatus(
                name=f"xvla_policy: /sim/{camera}/image_raw",
                values=[KeyValue(key="received", value=str(round(share * sent)))],
            )
            for camera, share in (("front", 0.9), ("wrist", 1.0))
        ]
        message = DiagnosticArray(header=header(time), status=states)
        yield record("/diagnostics", message, time)


def statuses(time):
    scheduler = SchedulerStatus(
        header=header(time),
        period_p50=0.02,
        period_p99=0.0204,
        priority="SCHED_FIFO 20",
        largest_splice_step_m=0.003,
        largest_splice_step_rad=0.01,
        limit_names=["linear_speed"],
        limit_counts=[4],
        refusal_reasons=["OLD_EPOCH"],
        refusal_counts=[1],
    )
    yield record("/chunk_scheduler/status", scheduler, time)
    policy = PolicyStatus(header=header(time), device="cpu", model_hash="abc")
    yield record("/xvla_policy/status", policy, time)


def records(seconds, image):
    """All messages of a run of so many seconds from START on."""
    end = START + seconds
    parts = (commands, joint_states, chunks, plans, counters)
    made = [one for part in parts for one in part(end)]
    return [*made, *pictures(end, image), *statuses(end)]
