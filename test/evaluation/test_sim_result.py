"""Lockstep episodes give the same report as recordings."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from xvla_ros.evaluation.closed_loop import LoopSettings, evaluate
from xvla_ros.evaluation.comparison import compare, load
from xvla_ros.evaluation.sim_result import SimResult
from xvla_ros.evaluation.summary import Summary
from xvla_ros.sim.world import SimWorld

SEEDS = range(3, 5)


def run(world, policy, out, settings):
    watcher = SimResult(policy, settings, out)
    results = list(evaluate(world, policy, "reach", SEEDS, settings, watcher=watcher))
    summary = Summary("reach", "seeing", results)
    watcher.write(out / "turner", summary, 1.0, {"latency": settings.latency_s})
    return results


@pytest.fixture(scope="module")
def pair(turner, tmp_path_factory):
    """The same episodes twice, with another latency the second time."""
    folder = tmp_path_factory.mktemp("sim")
    world = SimWorld("reach")
    settings = LoopSettings(limit_s=2.0, latency_s=0.1)
    try:
        policy = turner.Turner(speed=0.2, horizon=10)
        for name, latency in (("a", 0.1), ("b", 0.3), ("c", 0.1)):
            (folder / name).mkdir()
            run(world, policy, folder / name, replace(settings, latency_s=latency))
    finally:
        world.close()
    return folder


def test_the_summary_tells_success_and_errors(pair):
    summary = json.loads((pair / "a" / "summary.json").read_text())
    assert summary["kind"] == "sim"
    assert summary["closed_loop"]["episodes"] == 2
    # The cube is not where this policy goes.
    assert summary["closed_loop"]["successes"] == 0
    assert [e["seed"] for e in summary["bags"][0]["episodes"]] == [3, 4]
    assert summary["counts"]["predictions"] == 8
    assert "inference" not in json.dumps(summary["closed_loop"])


def test_an_arm_that_follows_the_chunks_is_near_them_and_far_from_where_it_was(pair):
    methods = json.loads((pair / "a" / "summary.json").read_text())["methods"]
    own = methods["policy"]["position_error_mm"]["1s"]["mean"]
    still = methods["hold_still"]["position_error_mm"]["1s"]["mean"]
    # 0.2 rad/s on a circle of 0.25 m radius moves 50 mm in one second; the latency costs some.
    assert still > 25.0
    assert own < 0.6 * still


def test_rows_begin_where_the_simulated_arm_was(pair):
    table = pq.read_table(pair / "a" / "predictions.parquet").to_pylist()
    first = next(row for row in table if row["method"] == "policy")
    position = np.array(first["start_position"])
    assert np.abs(position - np.array(first["proprio"][:3])).max() < 0.01
    assert first["view_stamps_ns"] == [first["stamp_ns"], first["stamp_ns"], 0]


def test_the_same_episodes_give_the_same_summary(pair):
    assert (pair / "a" / "summary.json").read_bytes() == (pair / "c" / "summary.json").read_bytes()


def test_two_results_are_paired_by_seed_and_time(pair):
    result = compare(load(pair / "a"), load(pair / "b"))
    assert result["pairs"] >= 4
    assert result["closed_loop"]["pairs"] == 2
    assert result["closed_loop"]["p_value"] == 1.0
    assert {"name": "settings.latency", "a": 0.1, "b": 0.3} in result["settings"]


def test_the_page_has_pictures_with_paths_of_the_cameras_that_stand_still(pair):
    page = (pair / "a" / "report.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    front = [pictures[0] for pictures in data["frames"].values()]
    assert len(front) == 8
    for picture in front:
        # The gripper is in view of the front camera.
        assert all(0.0 < value < 1.0 for value in picture["p"][0])
