"""Bags as they are found in the wild, each with its right outcome.

The arm in all of them turns its waist, and the policy knows: wherever there is a prediction, its
error is zero, so a bag that is read wrongly shows.
"""

import shutil

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
from rosbags.rosbag2 import CompressionMode, StoragePlugin

COMPLETE, PARTIAL, FAILED = "complete", "partial", "failed"
SQLITE = StoragePlugin.SQLITE3


def only_file(folder, pattern="*.mcap"):
    (path,) = folder.glob(pattern)
    return path


def good(bags, path):
    return bags.write(path, bags.normal())


def sqlite3(bags, path):
    return bags.write(path, bags.normal(), storage=SQLITE, version=8)


def zstd_chunks(bags, path):
    return bags.write(path, bags.normal(), compression=CompressionMode.STORAGE)


def zstd_file_of_sqlite3(bags, path):
    folder = bags.write(
        path, bags.normal(), storage=SQLITE, version=8, compression=CompressionMode.FILE
    )
    assert only_file(folder, "*.zstd")
    return folder


def zstd_messages_of_sqlite3(bags, path):
    return bags.write(
        path, bags.normal(), storage=SQLITE, version=8, compression=CompressionMode.MESSAGE
    )


def no_metadata(bags, path):
    folder = good(bags, path)
    (folder / "metadata.yaml").unlink()
    return folder


def no_metadata_and_compressed(bags, path):
    folder = zstd_file_of_sqlite3(bags, path)
    (folder / "metadata.yaml").unlink()
    return folder


def a_file_alone(bags, path):
    return only_file(good(bags, path))


def broken_metadata(bags, path):
    folder = good(bags, path)
    (folder / "metadata.yaml").write_text("rosbag2_bagfile_information: [")
    return folder


def cut(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: round(share * len(content))])


def torn_mcap(bags, path):
    folder = good(bags, path)
    cut(only_file(folder), 0.6)
    return folder


def torn_mcap_with_zstd_chunks(bags, path):
    folder = bags.write(
        path,
        [*bags.told(), *bags.joints(8.0), *bags.camera(8.0, make=lambda t: noise(bags, t))],
        compression=CompressionMode.STORAGE,
    )
    cut(only_file(folder), 0.6)
    return folder


def noise(bags, stamp):
    rng = np.random.default_rng(round(stamp))
    return bags.image(stamp, rng.integers(0, 255, (160, 200, 3), np.uint8))


def damaged_chunk(bags, path):
    messages = [*bags.told(), *bags.joints(8.0), *bags.camera(8.0, make=lambda t: noise(bags, t))]
    folder = bags.write(path, messages, compression=CompressionMode.STORAGE)
    file = only_file(folder)
    content = bytearray(file.read_bytes())
    chunks = [k for k in range(len(content)) if content.startswith(b"\x28\xb5\x2f\xfd", k)]
    middle = chunks[len(chunks) // 2]
    content[middle : middle + 4] = bytes(4)
    file.write_bytes(content)
    return folder


def part_of_a_split_bag_missing(bags, path):
    folder = good(bags, path)
    metadata = folder / "metadata.yaml"
    name = only_file(folder).name
    text = metadata.read_text().replace(f"- {name}", f"- {name}\n  - lost_1.mcap", 1)
    metadata.write_text(text)
    return folder


def torn_sqlite3(bags, path):
    folder = sqlite3(bags, path)
    cut(only_file(folder, "*.db3"), 0.5)
    return folder


def empty_file(bags, path):
    folder = good(bags, path)
    only_file(folder).write_bytes(b"")
    return folder


def no_mcap_at_all(bags, path):
    folder = good(bags, path)
    only_file(folder).write_bytes(b"this is no recording")
    return folder


def ros1_bag(bags, path):
    path = path.with_suffix(".bag")
    path.write_bytes(b"#ROSBAG V2.0\n")
    return path


def no_message(bags, path):
    return bags.write(path, [])


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


def a_message_that_is_cut(bags, path):
    folder = bags.write(path, bags.normal(), storage=SQLITE, version=8)
    import sqlite3 as database

    with database.connect(only_file(folder, "*.db3")) as connection:
        connection.execute(
            "UPDATE messages SET data = substr(data, 1, 40) WHERE id IN (SELECT m.id FROM "
            "messages m JOIN topics t ON m.topic_id = t.id WHERE t.name = ? AND m.id % 7 = 0)",
            (bags.JOINTS,),
        )
    return folder


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
    (good, COMPLETE, "", 16, 1),
    (sqlite3, COMPLETE, "", 16, 1),
    (zstd_chunks, COMPLETE, "", 16, 1),
    (zstd_file_of_sqlite3, COMPLETE, "", 16, 1),
    (zstd_messages_of_sqlite3, COMPLETE, "", 16, 1),
    (no_metadata, COMPLETE, "", 16, 1),
    (no_metadata_and_compressed, COMPLETE, "", 16, 1),
    (a_file_alone, COMPLETE, "", 16, 1),
    (broken_metadata, COMPLETE, "metadata.yaml cannot be read", 16, 1),
    (torn_mcap, PARTIAL, "torn at byte", (8, 11), 1),
    (torn_mcap_with_zstd_chunks, PARTIAL, "torn at byte", (8, 11), 1),
    (damaged_chunk, PARTIAL, "damaged", (10, 15), (1, 2)),
    (part_of_a_split_bag_missing, PARTIAL, "lost_1.mcap", 16, 1),
    (torn_sqlite3, (PARTIAL, FAILED), "db3", (0, 12), (0, 1)),
    (empty_file, FAILED, "the file is empty", 0, 0),
    (no_mcap_at_all, FAILED, "nothing can be read", 0, 0),
    (ros1_bag, FAILED, "rosbags-convert", 0, 0),
    (no_message, FAILED, "holds no message", 0, 0),
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
    (a_message_that_is_cut, COMPLETE, "messages cannot be read", (15, 16), 1),
    (images_recorded_late, COMPLETE, "recorded 0.20 s after the stamps", (15, 17), 1),
    (no_joint_states, FAILED, "/front/image_raw (sensor_msgs/msg/Image, 80)", 0, 0),
    (no_camera, FAILED, "/wx250s/joint_states (sensor_msgs/msg/JointState, 400)", 0, 0),
    (only_a_depth_camera, FAILED, "no camera", 0, 0),
    (joints_of_another_robot, FAILED, "/joint_states: panda_joint1", 0, 0),
    (no_instruction, FAILED, "--instruction", 0, 0),
    (a_camera_that_stops, COMPLETE, "", (6, 8), (1, 2)),
]


def within(value, wanted):
    return wanted[0] <= value <= wanted[1] if isinstance(wanted, tuple) else value == wanted


@pytest.mark.parametrize(
    ("make", "status", "says", "predictions", "episodes"),
    [pytest.param(*row, id=row[0].__name__) for row in TABLE],
)
def test_outcome(make, status, says, predictions, episodes, bags, turner, tmp_path):
    path = make(bags, tmp_path / "bag")
    entry, rows = turner.evaluate(path, turner.Turner())
    told = " | ".join([entry["message"], *entry["warnings"]])
    assert entry["status"] in (status if isinstance(status, tuple) else (status,)), told
    assert says in told
    assert "\n" not in told
    assert bool(told.strip(" |")) == bool(says)
    own = [row for row in rows if row["method"] == "policy"]
    assert within(len(own), predictions), (len(own), entry["no_observation"])
    assert within(len(entry["episodes"]), episodes), entry["episodes"]
    for row in own:
        errors = np.array(row["position_error_mm"])
        # The waist goes round at constant speed: whatever is known of the future is met, to the
        # chord between two joint states.
        assert np.nanmax(errors, initial=0.0) < 0.5
        assert np.nanmax(np.array(row["rotation_error_deg"]), initial=0.0) < 0.05


def test_frames_that_cannot_be_decoded_are_counted(bags, turner, tmp_path):
    entry, _ = turner.evaluate(frames_that_are_no_jpeg(bags, tmp_path / "bag"), turner.Turner())
    (reason,) = [text for text in entry["no_observation"] if "cannot be decoded" in text]
    assert "/front/image_raw/compressed" in reason
    assert entry["no_observation"][reason] in (7, 8, 9)


def test_the_parts_of_a_split_bag_are_one_recording(bags, turner, tmp_path):
    whole = bags.normal()
    middle = bags.START + 4.0
    folder = tmp_path / "bag"
    for number, part in enumerate(
        ([m for m in whole if m.time < middle], [m for m in whole if m.time >= middle])
    ):
        piece = bags.write(tmp_path / f"bag_{number}", part)
        folder.mkdir(exist_ok=True)
        shutil.move(only_file(piece), folder / f"bag_{number}.mcap")
    entry, rows = turner.evaluate(folder, turner.Turner())
    assert entry["status"] == COMPLETE
    assert len(entry["episodes"]) == 1
    across = [row for row in rows if row["method"] == "policy" and 0.0 <= row["time_s"] < 3.0]
    assert all(np.isfinite(row["position_error_mm"]).all() for row in across)
