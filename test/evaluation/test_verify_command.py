"""`xvla verify` from the command line, on the demo policy."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from xvla_ros.cli import main

MODEL = str(Path(__file__).parents[2] / "models" / "demo")
FEW = ["--observations", "2", "--noise-seeds", "2"]


def verify(*words):
    return main(["verify", "--model", MODEL, "--a", "threads=1", *words])


def test_the_same_network_agrees_and_fewer_steps_do_not(tmp_path, capsys):
    file = tmp_path / "figures.json"
    words = ["--b", "threads=1,view_cache=false", "--json", str(file), *FEW]
    assert verify(*words) == 0
    content = json.loads(file.read_text())
    (same,) = content["same_inputs"]["variants"]
    assert same["actions"]["mm_max"] == 0.0
    assert same["features"]["max_abs"] == 0.0
    assert same["within"] is True
    assert content["same_inputs"]["spread_of_seeds"]["mm_rmse"] > 0.0
    assert len(content["model"]["hash"]) == 64
    assert "within" in capsys.readouterr().out

    assert verify("--b", "threads=1,steps=1", *FEW, "--json", str(file)) == 1
    (one,) = json.loads(file.read_text())["same_inputs"]["variants"]
    assert one["faults"]
    assert one["features"]["max_abs"] == 0.0
    assert one["actions"]["mm_max"] > 0.0


def test_pictures_of_a_folder_are_the_views_of_an_observation(tmp_path):
    for view in ("front", "wrist"):
        (tmp_path / view).mkdir()
        for name in ("1.png", "2.png"):
            cv2.imwrite(str(tmp_path / view / name), np.full((60, 80, 3), 99, np.uint8))
    file = tmp_path / "figures.json"
    words = ["--inputs", str(tmp_path), "--b", "threads=1,view_cache=false", "--json", str(file)]
    assert verify(*words, *FEW) == 0
    assert json.loads(file.read_text())["same_inputs"]["observations"] == 2


def test_closed_loop_goes_on_where_it_was_interrupted(tmp_path, capsys):
    words = ["--task", "reach", "--limit", "3", "--observations", "0", "--out", str(tmp_path)]
    words += ["--b", "threads=1,steps=2", "--json", str(tmp_path / "a.json")]
    # Two episodes cannot show anything.
    assert verify(*words, "--closed-loop", "2") == 1
    first = (tmp_path / "reach-threads-1.jsonl").read_text()
    assert verify(*words, "--closed-loop", "3", "--margin", "90") == 0
    assert (tmp_path / "reach-threads-1.jsonl").read_text().startswith(first)
    loop = json.loads((tmp_path / "a.json").read_text())["closed_loop"]
    assert loop["variants"][0]["pairs"] == 3
    assert loop["variants"][0]["accepted"] is True
    assert "not shown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--b is missing"),
        (["--b", "threads=1"], "two ways are the same"),
        (["--b", "colour=red"], "'colour' is no option; known:"),
        (["--b", "dtype=float8"], "dtype=float8: "),
        (["--b", "steps=5", "--noise-seeds", "1"], "--noise-seeds is 1; at least 2"),
        (["--b", "steps=5", "--closed-loop", "0", "--observations", "0"], "--closed-loop is 0"),
        (["--b", "steps=5", "--inputs", "/no/such/bag"], "/no/such/bag"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words, message, capsys):
    assert verify(*words) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error
    assert error.startswith("xvla: error: ")
