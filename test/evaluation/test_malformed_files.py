"""Files of bags as they are found in the wild, each with its right outcome; see `turner`."""

import shutil

import numpy as np
import pytest
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
    (a_message_that_is_cut, COMPLETE, "messages cannot be read", (15, 16), 1),
    (empty_file, FAILED, "the file is empty", 0, 0),
    (no_mcap_at_all, FAILED, "nothing can be read", 0, 0),
    (ros1_bag, FAILED, "rosbags-convert", 0, 0),
    (no_message, FAILED, "holds no message", 0, 0),
]


@pytest.mark.parametrize(
    ("make", "status", "says", "predictions", "episodes"),
    [pytest.param(*row, id=row[0].__name__) for row in TABLE],
)
def test_outcome(make, status, says, predictions, episodes, bags, turner, tmp_path):
    turner.check_outcome(make(bags, tmp_path / "bag"), status, says, predictions, episodes)


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
