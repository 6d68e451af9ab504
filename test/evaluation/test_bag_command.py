"""`xvla evaluate bag` with the demonstration checkpoint: the whole way, from files to files."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from xvla_ros import resources
from xvla_ros.cli import main
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.bag import files
from xvla_ros.evaluation.bag_run import PARTS, BagRun
from xvla_ros.evaluation.bag_settings import PARAMETERS_KEY, plan

SECONDS = 3.0


@pytest.fixture(scope="module")
def recordings(bags, tmp_path_factory):
    """Two good bags."""
    folder = tmp_path_factory.mktemp("recordings")
    for name in ("a", "b"):
        bags.write(folder / name, bags.normal(SECONDS))
    return folder


def evaluate(*arguments):
    words = [str(argument) for argument in arguments]
    return main(["evaluate", "bag", *words, "--threads", "1", "--no-report"])


def summary(out):
    return json.loads((out / "summary.json").read_text())


@pytest.fixture(scope="module")
def once(recordings, tmp_path_factory):
    """The result of one run over both bags, with two seeds."""
    out = tmp_path_factory.mktemp("once")
    assert evaluate(recordings, "--out", out, "--seeds", 2, "--jobs", 1) == 0
    return out


def test_the_summary_has_every_method_bag_and_version(once):
    found = summary(once)
    assert set(found["methods"]) == {
        "policy",
        "hold_still",
        "constant_velocity",
        "previous_chunk",
    }
    assert found["counts"] == {
        "bags": 2,
        "bags_failed": 0,
        "episodes": 2,
        "predictions": 12,
        "duration_s": pytest.approx(2 * (SECONDS - 0.02), abs=0.1),
    }
    assert found["methods"]["policy"]["spread_mm"]["1s"]["mean"] > 0.0
    assert found["methods"]["hold_still"]["spread_mm"] is None
    assert found["relative"]["hold_still"]["position"]["dt"] > 0.0
    assert [bag["status"] for bag in found["bags"]] == ["complete", "complete"]
    assert {"xvla_ros", "torch", "numpy"} <= set(found["versions"])
    assert found["model"]["hash"]
    assert found["limits"]["checked"] + sum(found["refusals"].values()) == 12


def test_the_table_is_ordered_and_agrees_with_the_summary(once):
    table = pq.read_table(once / "predictions.parquet").to_pylist()
    assert [(row["bag"], row["index"]) for row in table] == sorted(
        (row["bag"], row["index"]) for row in table
    )
    still = [row["position_error_mm_dt"] for row in table if row["method"] == "hold_still"]
    known = [value for value in still if value is not None]
    mean = summary(once)["methods"]["hold_still"]["position_error_mm"]["dt"]["mean"]
    assert mean == pytest.approx(sum(known) / len(known), abs=1e-6)
    assert sum(row["method"] == "policy" for row in table) == 24


def test_times_are_in_a_file_of_their_own(once):
    timing = json.loads((once / "timing.json").read_text())
    assert timing["network_ms"]["count"] == 24
    assert timing["overhead_ms"]["p50"] > 0.0
    assert len(timing["resident_mb"]) == 2
    mean = timing["per_observation"]
    assert mean["network_ms"] > 0.0
    assert mean["total_over_network"] == pytest.approx(
        1.0 + mean["beside_ms"] / mean["network_ms"], abs=1e-3
    )
    text = (once / "summary.json").read_text()
    assert "network_ms" not in text
    assert "overhead_ms" not in text
    assert not (once / PARTS).exists()


def test_two_runs_are_the_same_to_the_byte_also_in_parallel(once, recordings, tmp_path):
    assert evaluate(recordings, "--out", tmp_path, "--seeds", 2, "--jobs", 2) == 0
    assert (tmp_path / "summary.json").read_bytes() == (once / "summary.json").read_bytes()
    assert json.loads((tmp_path / "timing.json").read_text())["jobs"] == 2


def test_an_interrupted_run_goes_on_and_comes_to_the_same_result(once, recordings, tmp_path):
    bags = files.find([recordings])
    options = {"seeds": 2, "threads": 1}
    chosen = plan(None, None, resources.demo_model(), options)
    told = []

    def interrupt(name, share):
        told.append((name, share))
        if name == "b" and share > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BagRun(bags, chosen, tmp_path).run(1, interrupt)
    assert not (tmp_path / "summary.json").exists()
    kept = list((tmp_path / PARTS).rglob("*.parquet"))
    assert kept
    # Another question must not take up these answers.
    other = plan(None, None, resources.demo_model(), {"seeds": 3, "threads": 1})
    with pytest.raises(UsageError, match="--fresh"):
        BagRun(bags, other, tmp_path).run(1, lambda *_: None)
    begun = []
    BagRun(bags, chosen, tmp_path).run(1, lambda name, share: begun.append((name, share)))
    assert begun[0] == ("a", 1.0)
    assert (tmp_path / "summary.json").read_bytes() == (once / "summary.json").read_bytes()


def test_a_broken_bag_is_reported_and_skipped(bags, recordings, tmp_path, capsys):
    folder = tmp_path / "recordings"
    shutil.copytree(recordings / "a", folder / "good")
    (folder / "broken.mcap").write_bytes(b"not a recording")
    out = tmp_path / "out"
    assert evaluate(folder, "--out", out, "--jobs", 1) == 1
    found = {bag["name"]: bag for bag in summary(out)["bags"]}
    assert found["good"]["status"] == "complete"
    assert found["broken.mcap"]["status"] == "failed"
    printed = capsys.readouterr().out
    assert "broken.mcap: " in printed
    assert "Traceback" not in printed


def test_the_proposal_is_printed_and_can_be_given_back(recordings, tmp_path, capsys):
    assert evaluate(recordings / "a", "--propose") == 0
    text = capsys.readouterr().out
    assert 'topic: "/front/image_raw"' in text
    params = tmp_path / "mine.yaml"
    params.write_text(text)
    chosen = plan(params, None, resources.demo_model(), {})
    assert [view.topic for view in chosen.wanted.cameras] == [
        "/front/image_raw",
        "/wrist/image_raw",
    ]
    assert chosen.settings.instruction == "pick up the red cube"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["{bag}", "--seeds", "0"], "--seeds is 0"),
        (["{bag}", "--rate", "1000"], "'policy_rate_hz' cannot be 1000"),
        (["{bag}", "--params", "nothing.yaml"], "nothing.yaml: cannot be read"),
        (["{bag}", "--model", "nomodel"], "nomodel"),
        (["{empty}"], "no rosbag2 here"),
    ],
)
def test_wrong_usage_is_one_line(arguments, says, recordings, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    words = [word.format(bag=recordings / "a", empty="empty") for word in arguments]
    assert evaluate(*words, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("xvla: error: ")
    assert says in error


def test_a_misspelt_key_of_the_evaluation_is_named(recordings, tmp_path, capsys):
    params = tmp_path / "mine.yaml"
    params.write_text("xvla_evaluate:\n  ros__parameters:\n    episode_gap: 3.0\n")
    assert evaluate(recordings / "a", "--params", params, "--out", tmp_path / "out") == 2
    assert "did you mean 'episode_gap_s'?" in capsys.readouterr().err


def test_a_recording_that_carries_its_parameters_needs_no_file():
    text = (
        "/**/xvla_policy:\n  ros__parameters:\n    cameras:\n"
        '      "0": {topic: "/wrist/image_raw", rotate_180: true}\n'
        '    instruction: "open the drawer"\n'
    )
    chosen = plan(None, None, resources.demo_model(), {}).for_bag({PARAMETERS_KEY: text})
    (view,) = chosen.wanted.cameras
    assert (view.topic, view.rotate_180) == ("/wrist/image_raw", True)
    assert (chosen.told, chosen.settings.instruction) == ("open the drawer", "")
    told = plan(None, None, resources.demo_model(), {"instruction": "close it"})
    assert told.for_bag({PARAMETERS_KEY: text}).settings.instruction == "close it"
