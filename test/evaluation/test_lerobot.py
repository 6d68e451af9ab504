"""LeRobot datasets of a WidowX as recordings, in both layouts, whole and broken."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xvla_ros.cli import main
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag import files
from xvla_ros.evaluation.lerobot.state import JointSolver, pose_of
from xvla_ros.evaluation.report.frames import BagFrames

VERSIONS = ["v2.1", "v3.0"]
# Every frame is asked for.
RATE = 20.0
STILL = {"speed": 0.0}


@pytest.fixture(scope="module", params=[(v, d) for v in VERSIONS for d in ("video", "image")])
def evaluated(request, datasets, turner, tmp_path_factory):
    """Entry, rows by method, and the policy, which holds still."""
    version, dtype = request.param
    root = datasets.WRITERS[version](tmp_path_factory.mktemp("lerobot") / "set", dtype)
    policy = turner.Turner(**STILL)
    entry, rows = turner.evaluate(root, policy, policy_rate_hz=RATE)
    return entry, [row for row in rows if row["method"] == "policy"], policy


def test_every_episode_of_the_dataset_is_an_episode_with_its_task(evaluated, datasets):
    entry, rows, _ = evaluated
    assert (entry["status"], entry["message"], entry["warnings"]) == ("complete", "", [])
    assert [episode["instruction"] for episode in entry["episodes"]] == list(datasets.TASKS)
    assert [episode["predictions"] for episode in entry["episodes"]] == list(datasets.LENGTHS)
    assert entry["duration_s"] == pytest.approx(21 / 5.0)
    assert {row["episode"] for row in rows} == {0, 1}


def test_errors_are_those_of_ten_millimetres_each_frame(evaluated, datasets):
    _, rows, _ = evaluated
    # One second after frame 0 the arm is 50 mm further, by which a policy that stays is wrong.
    assert rows[0]["position_error_mm_1s"] == pytest.approx(50.0, abs=0.01)
    # Between frames the joints are interpolated: 5/6 of a frame's way.
    assert rows[0]["position_error_mm_dt"] == pytest.approx(10.0 * 5 / 6, abs=0.1)
    assert rows[0]["rotation_error_deg_1s"] == pytest.approx(0.0, abs=0.01)
    # The last frame has no future, and an episode's future is not the next one's.
    last = datasets.LENGTHS[0] - 1
    assert rows[last]["position_error_mm_dt"] is None
    assert rows[last - 4]["position_error_mm_1s"] is None


def test_the_gripper_is_open_at_one(evaluated, datasets):
    _, rows, _ = evaluated
    first, second = rows[0], rows[datasets.LENGTHS[0]]
    assert first["actual_closed"][0] < 0.1
    assert second["actual_closed"][0] == pytest.approx(1.0)
    # The policy says open throughout.
    assert first["gripper_agreement"] == 1.0
    assert second["gripper_agreement"] == 0.0


def test_the_policy_sees_the_frame_of_its_stamp_main_view_first(evaluated, datasets):
    entry, rows, policy = evaluated
    assert [v["topic"] for v in entry["views"]] == sorted(datasets.CAMERAS)
    assert len(policy.seen) == sum(datasets.LENGTHS)
    numbers = [(e, k) for e, length in enumerate(datasets.LENGTHS) for k in range(length)]
    for (episode, frame), row, seen in zip(numbers, rows, policy.seen, strict=True):
        position = seen.pose.position
        assert np.allclose(position, datasets.state(frame, episode)[:3], atol=1e-6)
        assert seen.instruction == datasets.TASKS[episode]
        assert row["time_s"] == pytest.approx((12 * episode + frame) / 5.0, abs=1e-6)
        for view, camera in zip(seen.images, sorted(datasets.CAMERAS), strict=False):
            expected = datasets.picture(frame, episode, camera)
            # A neighbouring frame is 16 greys away; the codec keeps a plain picture within 7.
            assert np.abs(view.astype(int) - expected).max() <= 7


def test_a_camera_that_an_episode_did_not_have_is_masked_there(datasets, turner, tmp_path):
    root = datasets.write_v21(tmp_path / "data")
    absent = sorted(datasets.CAMERAS)[1]
    black = [np.zeros((48, 64, 3), np.uint8)] * datasets.LENGTHS[1]
    datasets.video(root / f"videos/chunk-000/{absent}/episode_000001.mp4", black)
    policy = turner.Turner(**STILL)
    entry, rows = turner.evaluate(root, policy, policy_rate_hz=RATE)
    assert entry["status"] == "complete"
    (warning,) = entry["warnings"]
    assert warning.startswith(f"{absent}: black in 1 of 2 episodes")
    assert len(policy.seen) == sum(datasets.LENGTHS)
    there = [seen.images[1] is not None for seen in policy.seen]
    assert there == [True] * datasets.LENGTHS[0] + [False] * datasets.LENGTHS[1]
    own = [row for row in rows if row["method"] == "policy"]
    assert own[-1]["view_log_ns"][1] == 0


def test_pictures_for_the_report_are_found_again(evaluated, datasets):
    entry, rows, _ = evaluated
    row = rows[4]
    wanted = {(0, row["view_log_ns"][0]), (1, row["view_log_ns"][1])}
    pictures = BagFrames().pictures(entry, wanted)
    assert pictures.note == ""
    assert set(pictures.jpeg) == wanted


def test_zero_angles_point_straight_down_and_roll_is_about_the_base():
    down = pose_of([0.3, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0])
    assert np.allclose(down.rotation[:, 0], (0.0, 0.0, -1.0))
    rolled = pose_of([0.3, 0.0, 0.15, 0.1, 0.0, 0.0, 1.0])
    assert np.allclose(rolled.rotation[:, 0], (0.0, math.sin(0.1), -math.cos(0.1)))
    # Extrinsic xyz: the yaw turns what the roll has done.
    both = pose_of([0.3, 0.0, 0.15, 0.1, 0.0, math.pi / 2, 1.0])
    assert np.allclose(both.rotation[:, 0], (-math.sin(0.1), 0.0, -math.cos(0.1)))


def test_a_pose_out_of_reach_or_not_finite_has_no_joints():
    solver = JointSolver()
    assert solver.solve([0.3, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0]) is not None
    assert solver.solve([1.5, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0]) is None
    assert solver.solve([0.3, 0.0, math.nan, 0.0, 0.0, 0.0, 1.0]) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_states_without_padding_are_read_too(version, datasets, turner, tmp_path):
    root = datasets.WRITERS[version](tmp_path / "set", "image", 7)
    entry, rows = turner.evaluate(root, turner.Turner(**STILL), policy_rate_hz=RATE)
    assert entry["status"] == "complete"
    assert rows[0]["actual_closed"][0] < 0.1


def change_info(root, **values):
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_state(root, **values):
    path = root / "meta/info.json"
    content = json.loads(path.read_text())
    content["features"]["observation.state"] |= values
    path.write_text(json.dumps(content))


def first(root, pattern):
    return min(root.rglob(pattern))


def truncate(path):
    path.write_bytes(path.read_bytes()[:200])


def to_av1(root):
    for path in root.rglob("*.mp4"):
        # Without its description as MPEG-4 the stream is what the sample entry says.
        content = path.read_bytes().replace(b"mp4v", b"av01").replace(b"esds", b"free")
        path.write_bytes(content)


def narrow(root):
    for path in (root / "data").rglob("*.parquet"):
        table = pq.read_table(path)
        column = pa.array([row[:5] for row in table["observation.state"].to_pylist()])
        at = table.column_names.index("observation.state")
        pq.write_table(table.set_column(at, "observation.state", column), path)


def unreachable(root):
    path = first(root / "data", "*.parquet")
    table = pq.read_table(path)
    rows = table["observation.state"].to_pylist()
    rows[3][0] = 2.0
    at = table.column_names.index("observation.state")
    pq.write_table(table.set_column(at, "observation.state", pa.array(rows)), path)


def empty_meta(root):
    if (root / "meta/episodes.jsonl").is_file():
        (root / "meta/episodes.jsonl").write_text("")
    else:
        first(root / "meta/episodes", "*.parquet").unlink()


FAILURES = {
    "no info.json": (lambda r: (r / "meta/info.json").unlink(), "meta/info.json is missing"),
    "info.json cut": (lambda r: truncate(r / "meta/info.json"), "meta/info.json cannot be read"),
    "info.json a list": (lambda r: (r / "meta/info.json").write_text("[]"), "not an object"),
    "unknown version": (lambda r: change_info(r, codebase_version="v1.6"), "v1.6 is not one of"),
    "fps zero": (lambda r: change_info(r, fps=0), "fps is 0"),
    "no features": (lambda r: change_info(r, features=None), "features are missing or wrong"),
    "odd path": (lambda r: change_info(r, data_path="{nothing}"), "missing or wrong"),
    "path outside": (lambda r: change_info(r, data_path="../a"), "leads outside the dataset"),
    "absolute path": (lambda r: change_info(r, data_path="/a"), "leads outside the dataset"),
    "state of joints": (
        lambda r: change_state(r, names=[*"abcdefg", "gripper"]),
        "is a, b, c, d, e, f, g, gripper, expected x, y, z",
    ),
    "state too wide": (lambda r: change_state(r, shape=[14]), "expected 7 or 8 numbers"),
    "state narrower than said": (narrow, "has not 8 numbers in every frame"),
    "no episodes": (empty_meta, "has no episodes"),
    "codec": (to_av1, "cannot decode its codec 'av01': convert it, e.g. with ffmpeg"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", FAILURES)
def test_what_cannot_be_evaluated_is_said_in_one_line(kind, version, datasets, turner, tmp_path):
    root = datasets.WRITERS[version](tmp_path / "set")
    spoil, message = FAILURES[kind]
    spoil(root)
    entry, rows = turner.evaluate(root, turner.Turner(**STILL), policy_rate_hz=RATE)
    assert entry["status"] == "failed"
    assert message in entry["message"]
    assert "\n" not in entry["message"]
    assert "Error:" not in entry["message"]
    assert rows == []


LOSSES = {
    "video missing": lambda r: first(r / "videos", "*.mp4").unlink(),
    "video cut": lambda r: truncate(first(r / "videos", "*.mp4")),
    "table missing": lambda r: first(r / "data", "*.parquet").unlink(),
    "table cut": lambda r: truncate(first(r / "data", "*.parquet")),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_an_episode_whose_file_is_lost_is_left_out(kind, datasets, turner, tmp_path):
    root = datasets.write_v21(tmp_path / "set")
    LOSSES[kind](root)
    entry, rows = turner.evaluate(root, turner.Turner(**STILL), policy_rate_hz=RATE)
    assert entry["status"] == "partial"
    assert [e["instruction"] for e in entry["episodes"]] == [datasets.TASKS[1]]
    (warning,) = entry["warnings"]
    assert "episode_000000" in warning
    assert "left out: episode 0" in warning
    assert min(row["time_s"] for row in rows) == pytest.approx(datasets.LENGTHS[0] / 5.0)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_file_of_all_episodes_that_is_lost_leaves_none(kind, datasets, turner, tmp_path):
    root = datasets.write_v3(tmp_path / "set")
    LOSSES[kind](root)
    entry, rows = turner.evaluate(root, turner.Turner(**STILL), policy_rate_hz=RATE)
    assert entry["status"] == "failed"
    assert "file-000" in entry["message"]
    assert "left out: episodes 0, 1" in entry["message"]
    assert rows == []


def test_of_many_lost_episodes_the_first_are_named(datasets, turner, tmp_path):
    root = datasets.write_v21(tmp_path / "set", "image")
    rows = [{"episode_index": e, "tasks": ["none"], "length": 5} for e in range(2, 30)]
    with (root / "meta/episodes.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    entry, _ = turner.evaluate(root, turner.Turner(**STILL), policy_rate_hz=RATE)
    assert entry["status"] == "partial"
    assert len(entry["episodes"]) == 2
    assert len(entry["warnings"]) == 11
    assert entry["warnings"][0].endswith("episode_000002.parquet is missing (left out: episode 2)")
    assert entry["warnings"][-1] == "for such reasons 18 more episodes are left out"


def test_a_frame_out_of_reach_is_told_and_splits_nothing(datasets, turner, tmp_path):
    root = datasets.write_v21(tmp_path / "set", "image")
    unreachable(root)
    entry, rows = turner.evaluate(root, turner.Turner(**STILL), policy_rate_hz=RATE)
    assert entry["warnings"] == [
        "observation.state: 1 of 21 cannot be reached by a WidowX 250S and are left out"
    ]
    assert len(entry["episodes"]) == 2
    assert entry["episodes"][0]["predictions"] == datasets.LENGTHS[0] - 1
    still = [row for row in rows if row["method"] == "policy"]
    # Frame 3 is not seen; where the arm was beside it is not known, further on it is.
    assert [round(5 * row["time_s"]) for row in still[:5]] == [0, 1, 2, 4, 5]
    assert still[2]["position_error_mm_dt"] is None
    assert still[2]["position_error_mm_1s"] == pytest.approx(50.0, abs=0.01)


def test_datasets_are_found_beside_bags_and_named_by_their_folder(datasets, bags, tmp_path):
    datasets.write_v21(tmp_path / "all/old", "image")
    datasets.write_v3(tmp_path / "all/new", "image")
    bags.write(tmp_path / "all/bag", bags.normal(1.0))
    found = {bag.name: bag.format for bag in files.find([tmp_path / "all"])}
    assert found == {"bag": "rosbag2", "new": "lerobot", "old": "lerobot"}
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="nor a LeRobot dataset"):
        files.find([tmp_path / "empty"])


def test_the_command_evaluates_a_dataset_and_proposes_its_cameras(datasets, tmp_path, capsys):
    root = datasets.write_v3(tmp_path / "set")
    assert main(["evaluate", "bag", str(root), "--propose"]) == 0
    text = capsys.readouterr().out
    params = tmp_path / "proposed.yaml"
    params.write_text(text.replace("image_0", "image_X").replace("image_1", "image_0"))
    params.write_text(params.read_text().replace("image_X", "image_1"))
    words = ["--params", str(params), "--out", str(tmp_path / "out"), "--threads", "1"]
    assert main(["evaluate", "bag", str(root), *words, "--rate", "1"]) == 0
    (entry,) = json.loads((tmp_path / "out/summary.json").read_text())["bags"]
    # The file has exchanged the cameras.
    assert [view["topic"][-1] for view in entry["views"]] == ["1", "0"]
    assert entry["storage"] == "lerobot v3.0"
    assert (tmp_path / "out/report.html").is_file()
