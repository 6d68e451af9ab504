"""The page of an evaluation: what is in it, and what a browser makes of it."""

import base64
import json
import re
import shutil

import cv2
import numpy as np
import pytest

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.report.page import write_report
from xvla_ros.evaluation.report.selection import spread_out, worst

# It would end the data, run a script and close the page if it were not escaped.
HOSTILE = "pick up </script><script>document.title = 'broken'</script> & <b>go</b>"
CAMERA = """
xvla_evaluate:
  ros__parameters:
    calibration:
      "0":
        intrinsics: [60.0, 60.0, 32.0, 24.0]
        size: [64.0, 48.0]
        position: [-0.3, 0.0, 0.2]
        orientation: [-0.5, 0.5, -0.5, 0.5]
"""


@pytest.fixture(scope="module")
def result(bags, turner, results, tmp_path_factory):
    """Two episodes of five seconds, three seeds, one camera calibrated by the parameter file."""
    folder = tmp_path_factory.mktemp("report")
    later = bags.START + 8.0
    messages = [
        *bags.told(HOSTILE),
        *bags.joints(5.0),
        *bags.camera(5.0),
        *bags.camera(5.0, bags.WRIST),
        *bags.joints(5.0, start=later),
        *bags.camera(5.0, start=later),
        *bags.camera(5.0, bags.WRIST, start=later),
    ]
    bag = bags.write(folder / "bag", messages)
    (folder / "camera.yaml").write_text(CAMERA)
    policy = turner.Turner(speed=0.3, noise=0.002, horizon=12, closed=1.0)
    out = results.make([bag], folder / "out", policy, folder / "camera.yaml", seeds=3)
    write_report(out)
    return out


def page_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def data_of(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_page_needs_nothing_but_itself(result):
    page = page_of(result)
    without_pictures = re.sub(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+", "", page)
    addresses = set(re.findall(r"https?://[^\"'\s<>]+", without_pictures))
    # The name of the SVG namespace is no address that anybody visits.
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<link|@import|url\(", without_pictures)
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=", without_pictures)


def test_the_same_result_gives_the_same_page(result):
    before = page_of(result)
    write_report(result)
    assert page_of(result) == before


def test_every_moment_has_the_pictures_of_its_own_stamp(result, bags):
    data = data_of(page_of(result))
    assert data["frames"]
    for index, pictures in data["frames"].items():
        stamp = int(data["moments"]["stamp"][int(index)]) * 1e-9
        assert [picture["slot"] for picture in pictures] == [0, 1]
        for picture in pictures:
            jpeg = base64.b64decode(picture["src"].partition(",")[2])
            bgr = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
            expected = bags.picture(stamp)[0, 0]
            assert bgr[24, 32, ::-1].astype(int) == pytest.approx(expected.astype(int), abs=3)


def test_only_the_calibrated_camera_has_paths_and_they_start_at_the_arm(result, bags):
    data = data_of(page_of(result))
    for index, (front, wrist) in data["frames"].items():
        assert "p" not in wrist
        x, y, z = np.array(data["chunks"][index]["p"][0]) / 1000.0
        # The camera looks along x from 0.3 m behind the base and 0.2 m above it.
        expected = [0.5 - 60 * y / (x + 0.3) / 64, 0.5 - 60 * (z - 0.2) / (x + 0.3) / 48]
        assert front["p"][0] == pytest.approx(expected, abs=2e-3)
        assert front["p"][0] == front["a"][0]
        assert front["p"][5] != front["a"][5]


def test_the_worst_come_first_and_each_event_once():
    scores = np.array([1.0, 9.0, 8.9, np.nan, 5.0, 7.0])
    times = np.array([0.0, 1.0, 1.4, 2.0, 3.0, 1.2])
    # 8.9 is the event of 9.0; 7.0 is at nearly the same time, but in another episode.
    assert worst(scores, [0, 0, 0, 0, 0, 1], times, 3, apart=1.0) == [1, 5, 4]
    assert worst(np.full(6, np.nan), [0] * 6, times, 3, apart=1.0) == []


def test_every_episode_is_in_the_film():
    groups = [0] * 1000 + [1] * 5 + [2]
    chosen = spread_out(groups, 60)
    assert {groups[i] for i in chosen} == {0, 1, 2}
    assert chosen == sorted(set(chosen))
    assert chosen[0] == 0
    assert 999 in chosen
    assert len(chosen) < 80


def test_a_bag_that_is_gone_leaves_a_page_with_a_note(result, tmp_path):
    copy = tmp_path / "out"
    shutil.copytree(result, copy)
    summary = json.loads((copy / "summary.json").read_text())
    summary["bags"][0]["path"] = str(tmp_path / "moved")
    (copy / "summary.json").write_text(json.dumps(summary))
    write_report(copy)
    data = data_of(page_of(copy))
    assert not any(data["frames"].values())
    assert "no such file" in data["notes"]["bag"]


def test_a_folder_without_a_result_is_said_in_one_line(tmp_path):
    with pytest.raises(UsageError, match=r"summary\.json: .*--out of an evaluation"):
        write_report(tmp_path)


def test_a_browser_draws_everything_and_a_click_opens_the_worst_moment(result, results, tmp_path):
    page = page_of(result)
    data = data_of(page)
    second = data["ranks"]["mm_1s"][1]
    click = f"document.querySelector('.worst [data-moment=\"{second}\"]').click();"
    body = results.browse(page, tmp_path, click)
    headings = (
        *("Against simple guesses", "Error over the horizon", "Worst moments"),
        *("Through the recording", "Limits", "Latency", "Recordings", "Parameters and versions"),
    )
    for heading in headings:
        assert f"<h2>{heading}</h2>" in body
    assert f"Prediction at {data['moments']['t'][second]:.2f}" in body
    assert "NaN" not in body
    assert "undefined" not in body
    # The instruction is text, not markup.
    assert "<title>Evaluation of turner</title>" in body
    assert HOSTILE in body


def test_a_browser_draws_a_result_without_any_prediction(bags, turner, results, tmp_path):
    bag = bags.write(tmp_path / "bag", list(bags.joints(1.0)))
    out = results.make([bag], tmp_path / "out", turner.Turner())
    write_report(out)
    body = results.browse(page_of(out), tmp_path)
    assert "There is no prediction." in body
    assert "no camera" in body
