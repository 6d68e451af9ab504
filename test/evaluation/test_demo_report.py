"""The figures of a run are those that its bag holds."""

import json

import numpy as np
import pytest
from rich.console import Console

from xvla_ros.evaluation import demo, plots, recording
from xvla_ros.evaluation.demo import Run
from xvla_ros.evaluation.episode import Episode

EPISODES = (
    Episode(10, "pick up the red cube", 1000.0, 1002.0, None, "time is up"),
    Episode(11, "pick up the red cube", 1003.0, 1005.5, 2.5, "success"),
)
RUN = Run("pick", EPISODES, images_dropped=0, command_rate_hz=50.0)


@pytest.fixture(scope="module")
def summary(run_folder):
    return demo.write_report(run_folder, RUN)


def test_the_success_rate_has_its_interval(summary):
    assert summary["success_rate"] == 0.5
    # Wilson, 1 of 2.
    assert summary["success_interval_95"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
    assert summary["episode_time"]["p50"] == 2.5


def test_latencies_and_rate_are_those_of_the_chunks_in_episodes(summary, live_bag):
    assert summary["inference"]["p50"] == pytest.approx(live_bag.INFERENCE_S, abs=1e-6)
    assert summary["observation_to_chunk"]["p95"] == pytest.approx(0.13, abs=1e-6)
    assert summary["policy_rate_hz"] == pytest.approx(2.0)
    # Received at 1000.51, .. 1001.51 and 1003.01, .. 1005.01.
    assert summary["chunks"] == 3 + 5


def test_jitter_is_what_the_period_exceeds_its_nominal_value_by(summary):
    assert summary["command_period"]["jitter_p99"] == pytest.approx(0.0004, abs=1e-7)
    assert summary["priority"] == "SCHED_FIFO 20"


def test_the_largest_step_and_the_counters_are_the_schedulers(summary):
    assert summary["largest_splice_step"] == pytest.approx({"m": 0.003, "rad": 0.01})
    assert summary["limits"] == {"linear_speed": 4}
    assert summary["chunks_refused"] == {"OLD_EPOCH": 1}


def test_lost_frames_are_counted_per_camera(summary):
    lost = summary["frames_lost"]
    assert lost["by_topic"]["/sim/wrist/image_raw"]["lost"] <= 1
    front = lost["by_topic"]["/sim/front/image_raw"]
    assert front["published"] == 75
    assert front["lost"] == pytest.approx(7.5, abs=1)
    assert lost["fraction"] == pytest.approx(0.05, abs=0.01)


def test_the_tracking_error_is_the_distance_to_the_measured_arm(summary, live_bag, run_folder):
    series = recording.load(run_folder / "bag")
    radius = np.linalg.norm(series.commanded.positions()[0][:2])
    expected = radius * live_bag.LAG_RAD
    assert summary["tracking_error"]["p50"] == pytest.approx(expected, rel=0.01)


def test_all_files_are_written(summary, run_folder):
    for name in ("summary.json", "episode.gif", "pose.png", "speed.png", "latency.png"):
        assert (run_folder / name).stat().st_size > 500
    assert json.loads((run_folder / "summary.json").read_text()) == summary


def test_the_first_success_is_filmed():
    assert RUN.filmed is EPISODES[1]
    assert Run("pick", EPISODES[:1], 0, 50.0).filmed is EPISODES[0]
    assert Run("pick", (), 0, 50.0).filmed is None


def test_the_table_shows_the_figures_in_units_for_people(summary):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(demo.table(summary))
    text = console.export_text()
    for part in ("1/2 = 50 %", "p50 100 ms", "2.00 Hz", "p99 0.40 ms", "SCHED_FIFO 20", "3.0 mm"):
        assert part in text


def test_a_run_that_recorded_nothing_still_has_a_summary():
    empty = recording.Motion(np.zeros(0), np.zeros((0, 6)), np.zeros(0))
    summary = demo.summarise(recording.Recording(empty, empty), Run("pick", EPISODES[:1], 0, 50.0))
    assert summary["success_rate"] == 0.0
    assert summary["chunks"] == 0
    assert summary["command_period"]["p99"] is None
    assert "no status was heard" in str(list(demo.table(summary).columns[1].cells))


def test_the_plotted_speed_is_that_of_the_arm(run_folder, live_bag):
    """The waist turns at 0.2 rad/s, so the gripper moves at 0.2 times its distance from it."""
    series = recording.load(run_folder / "bag")
    _, values = plots.smoothed_speed(series.commanded)
    radius = np.linalg.norm(series.commanded.positions()[0][:2])
    assert np.median(values) == pytest.approx(0.2 * radius, rel=1e-3)
