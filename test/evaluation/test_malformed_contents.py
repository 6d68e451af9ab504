"""Contents of bags as they are found in the wild, each with its right outcome; see `turner`."""

import numpy as np
import pytest
from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)

COMPLETE, FAILED = "complete", "failed"


def names_in_another_order_and_more_of_them(bags, path):
    names = ("right_finger", "pan", "wrist_rotate", *reversed(bags.NAMES[:5]), "left_finger")
    messages = [
        bags.Message(bags.JOINTS, t, bags.joint_state(t, bags.angles(t), 0.02, names, {"pan": 1.0}))
        for t in bags.times(8.0, 50.0)
    ]
    return bags.write(path, [*bags.told(), *messages, *bags.camera(8.0)])


def gripper_in_messages_of_its_own(bags, path):
    messages = []
    for k, t in enumerate(bags.times(8.0, 100.0)):
        names = bags.NAMES[6:] if k % 2 else bags.NAMES[:6]
        messages.append(
            bags.Message(bags.JOINTS, t, bags.joint_state(t, bags.angles(t), names=names))
        )
    return bags.write(path, [*bags.told(), *messages, *bags.camera(8.0)])


def images_without_stamps(bags, path):
    camera = [
        bags.Message(bags.FRONT, t, bags.image(0.0, bags.picture(t))) for t in bags.times(8.0, 10.0)
    ]
    return bags.write(path, [*bags.told(), *bags.joints(8.0), *camera])


def cameras_at_other_rates(bags, path):
    wrist = bags.camera(8.0, bags.WRIST, hz=30.0, phase=0.011)
    return bags.write(path, [*bags.told(), *bags.joints(8.0), *bags.camera(8.0, hz=5.0), *wrist])


def stamps_out_of_order(bags, path):
    messages = bags.normal()
    front = [m for m in messages if m.topic == bags.FRONT]
    # Every fourth frame arrives after the one that follows it.
    late = [
        bags.Message(m.topic, m.time + (0.15 if k % 4 == 0 else 0.0), m.message)
        for k, m in enumerate(front)
    ]
    return bags.write(path, [*(m for m in messages if m.topic != bags.FRONT), *late])


def other_qos(bags, path):
    profile = Qos(
        QosHistory.KEEP_ALL,
        0,
        QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL,
        QosTime(2147483647, 4294967295),
        QosTime(2147483647, 4294967295),
        QosLiveliness.AUTOMATIC,
        QosTime(2147483647, 4294967295),
        False,
    )
    return bags.write(path, bags.normal(), offered_qos_profiles=[profile])


def a_gap(bags, path):
    later = bags.START + 20.0
    messages = [
        *bags.normal(4.0),
        *bags.joints(4.0, start=later),
        *bags.camera(4.0, start=later),
        *bags.camera(4.0, bags.WRIST, start=later),
    ]
    return bags.write(path, messages)


def an_episode_topic(bags, path):
    number = bags.T["std_msgs/msg/Int32"]
    keys = [bags.Message("/episode", bags.START + t, number(data=int(t // 3))) for t in range(8)]
    return bags.write(path, [*bags.normal(), *keys])


def another_instruction(bags, path):
    return bags.write(path, [*bags.normal(), *bags.told("open the drawer", bags.START + 4.02)])


def a_jump_of_the_arm(bags, path):
    messages = [
        m
        if m.topic != bags.JOINTS or m.time < bags.START + 4.0
        else bags.Message(m.topic, m.time, bags.joint_state(m.time, bags.angles(m.time - 4.0)))
        for m in bags.normal()
    ]
    return bags.write(path, messages)


def another_clock(bags, path):
    messages = [bags.Message(m.topic, m.time + 5000.0, m.message) for m in bags.normal()]
    return bags.write(path, messages)


def frames_that_are_no_jpeg(bags, path):
    def frame(stamp):
        message = bags.compressed(stamp, bags.picture(stamp))
        if round(10 * (stamp - bags.START)) % 40 >= 20:
            message.data = np.frombuffer(b"not a picture", np.uint8)
        return message

    camera = bags.camera(8.0, bags.FRONT + "/compressed", make=frame)
    return bags.write(path, [*bags.told(), *bags.joints(8.0), *camera])


def joint_states_that_are_nan(bags, path):
    nan = np.full(6, np.nan)
    messages = [
        bags.Message(bags.JOINTS, t, bags.joint_state(t, nan if k % 10 == 0 else bags.angles(t)))
        for k, t in enumerate(bags.times(8.0, 50.0))
    ]
    return bags.write(path, [*bags.told(), *messages, *bags.camera(8.0)])


def no_joint_states(bags, path):
    return bags.write(path, [m for m in bags.normal() if m.topic != bags.JOINTS])


def no_camera(bags, path):
    return bags.write(path, [*bags.told(), *bags.joints(8.0)])


def only_a_depth_camera(bags, path):
    depth = bags.camera(8.0, "/camera/depth/image_raw")
    return bags.write(path, [*bags.told(), *bags.joints(8.0), *depth])


def joints_of_another_robot(bags, path):
    state = bags.T["sensor_msgs/msg/JointState"]
    empty = np.zeros(0)
    messages = [
        bags.Message(
            "/joint_states", t, state(bags.header(t), ["panda_joint1"], np.zeros(1), empty, empty)
        )
        for t in bags.times(8.0, 50.0)
    ]
    return bags.write(path, [*bags.told(), *messages, *bags.camera(8.0)])


def no_instruction(bags, path):
    return bags.write(path, [*bags.joints(8.0), *bags.camera(8.0)])


def images_recorded_late(bags, path):
    late = [
        bags.Message(m.topic, m.time + (0.2 if m.topic == bags.FRONT else 0.0), m.message)
        for m in bags.normal()
    ]
    return bags.write(path, [m for m in late if m.topic != bags.WRIST])


def a_camera_that_stops(bags, path):
    messages = [*bags.told(), *bags.joints(8.0), *bags.camera(3.0), *bags.camera(8.0, bags.WRIST)]
    return bags.write(path, messages)


# Builder, status, what a warning or the message says, predictions, episodes.
TABLE = [
    (names_in_another_order_and_more_of_them, COMPLETE, "", 16, 1),
    (gripper_in_messages_of_its_own, COMPLETE, "", 16, 1),
    (images_without_stamps, COMPLETE, "messages carry no stamp", 16, 1),
    (cameras_at_other_rates, COMPLETE, "", 16, 1),
    (stamps_out_of_order, COMPLETE, "", (14, 16), 1),
    (other_qos, COMPLETE, "", 16, 1),
    (a_gap, COMPLETE, "", (15, 17), 2),
    (an_episode_topic, COMPLETE, "", (15, 18), 3),
    (another_instruction, COMPLETE, "", (15, 17), 2),
    (a_jump_of_the_arm, COMPLETE, "", (15, 17), 2),
    (another_clock, COMPLETE, "the stamps' clock is taken", 16, 1),
    (frames_that_are_no_jpeg, COMPLETE, "", (7, 9), 1),
    (joint_states_that_are_nan, COMPLETE, "", (14, 16), 1),
    (images_recorded_late, COMPLETE, "recorded 0.20 s after the stamps", (15, 17), 1),
    (no_joint_states, FAILED, "/front/image_raw (sensor_msgs/msg/Image, 80)", 0, 0),
    (no_camera, FAILED, "/wx250s/joint_states (sensor_msgs/msg/JointState, 400)", 0, 0),
    (only_a_depth_camera, FAILED, "no camera", 0, 0),
    (joints_of_another_robot, FAILED, "/joint_states: panda_joint1", 0, 0),
    (no_instruction, FAILED, "--instruction", 0, 0),
    (a_camera_that_stops, COMPLETE, "", (6, 8), (1, 2)),
]


@pytest.mark.parametrize(
    ("make", "status", "says", "predictions", "episodes"),
    [pytest.param(*row, id=row[0].__name__) for row in TABLE],
)
def test_outcome(make, status, says, predictions, episodes, bags, turner, tmp_path):
    turner.check_outcome(make(bags, tmp_path / "bag"), status, says, predictions, episodes)


def test_frames_that_cannot_be_decoded_are_counted(bags, turner, tmp_path):
    entry, _ = turner.evaluate(frames_that_are_no_jpeg(bags, tmp_path / "bag"), turner.Turner())
    (reason,) = [text for text in entry["no_observation"] if "cannot be decoded" in text]
    assert "/front/image_raw/compressed" in reason
    assert entry["no_observation"][reason] in (7, 8, 9)
