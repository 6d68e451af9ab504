"""Two results side by side, from their folders to numbers, table and page."""

import json
import re
import shutil

import numpy as np
import pytest

from xvla_ros.arm.kinematics import WidowX250s
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.compare_command import LABELS
from xvla_ros.evaluation.comparison import compare, load
from xvla_ros.evaluation.report.compare_page import write_comparison


@pytest.fixture(scope="module")
def pair(bags, turner, results, tmp_path_factory):
    """A policy that turns too fast by half, and one that turns as the arm does."""
    folder = tmp_path_factory.mktemp("comparison")
    bag = bags.write(folder / "bag", bags.normal(12.0))
    short = {"horizon": 8, "num_views": 2}
    a = results.make([bag], folder / "fast", turner.Turner(speed=0.3, **short))
    b = results.make([bag], folder / "right", turner.Turner(speed=0.2, **short))
    return a, b


def test_pairs_are_the_same_observations_and_the_better_one_is_named(pair, bags):
    result = compare(load(pair[0]), load(pair[1]))
    assert (result["only_a"], result["only_b"]) == (0, 0)
    found = result["differences"]["position_error_mm_1s"]
    # After one second it is 0.1 rad ahead, on a circle about the base's axis.
    radius = np.hypot(*WidowX250s().fk(bags.READY).position[:2])
    assert found["mean_a"] == pytest.approx(2000.0 * radius * np.sin(0.05), rel=1e-3)
    assert found["mean_b"] < 0.1
    assert found["mean"] == pytest.approx(found["mean_b"] - found["mean_a"], abs=1e-5)
    assert found["better"] == "b"
    assert found["high"] < 0.0
    assert result["differences"]["gripper_agreement"]["better"] is None
    assert result["horizon"]["position_error_mm"]["b"][0] < 0.1


def test_what_a_result_has_alone_is_left_out_and_counted(pair, bags, turner, results, tmp_path):
    longer = bags.write(tmp_path / "bag", bags.normal(16.0))
    other = results.make([longer], tmp_path / "long", turner.Turner(horizon=8, num_views=2))
    result = compare(load(pair[1]), load(other))
    assert result["pairs"] == len(load(pair[1]).keys)
    assert result["only_b"] == len(load(other).keys) - result["pairs"] > 0


def test_settings_that_differ_are_listed(pair, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(pair[0], changed)
    summary = json.loads((changed / "summary.json").read_text())
    summary["parameters"]["xvla_policy"]["denoising_steps"] = 3
    summary["settings"]["seed"] = 7
    (changed / "summary.json").write_text(json.dumps(summary))
    result = compare(load(pair[0]), load(changed))
    assert [entry["name"] for entry in result["settings"]] == [
        "settings.seed",
        "parameters.xvla_policy.denoising_steps",
    ]
    assert result["notes"] == ["the noise is not the same: seeds differ"]


def test_results_of_other_recordings_cannot_be_compared(pair, bags, turner, results, tmp_path):
    messages = [m for m in bags.normal(12.0) if m.time > bags.START + 3.03]
    other = bags.write(tmp_path / "other", messages)
    out = results.make([other], tmp_path / "out", turner.Turner(horizon=8, num_views=2))
    with pytest.raises(UsageError, match="no observation in common"):
        compare(load(pair[0]), load(out))
    with pytest.raises(UsageError, match="--out of an evaluation"):
        load(tmp_path)


def test_the_page_holds_the_comparison(pair, results, tmp_path):
    result = compare(load(pair[0]), load(pair[1]))
    page = write_comparison(tmp_path, result, LABELS).read_text(encoding="utf-8")
    found = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert found is not None
    assert json.loads(found[1])["comparison"] == json.loads(json.dumps(result))
    assert set(result["differences"]) <= set(LABELS)
    assert not re.search(r"<link|@import|url\(|\ssrc=", page.partition('id="data">')[0])


def test_a_browser_draws_the_comparison(pair, results, tmp_path):
    result = compare(load(pair[0]), load(pair[1]))
    page = write_comparison(tmp_path, result, LABELS).read_text(encoding="utf-8")
    body = results.browse(page, tmp_path)
    assert "B is closer to what the arm did" in body
    for heading in ("Paired differences", "Mean error over the horizon", "What differs"):
        assert f"<h2>{heading}</h2>" in body
    assert "NaN" not in body
