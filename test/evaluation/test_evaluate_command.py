"""`xvla evaluate sim` from the command line."""

import json
from pathlib import Path

import pytest

from xvla_ros.cli import main

MODEL = Path(__file__).parents[2] / "models" / "demo"


def test_results_are_printed_and_written(tmp_path, capsys):
    file = tmp_path / "new" / "result.json"
    words = ["evaluate", "sim", "--model", str(MODEL), "--task", "reach", "--episodes", "2"]
    words += ["--seed", "40", "--latency", "0.2", "--limit", "4", "--threads", "1"]
    assert main([*words, "--json", str(file)]) == 0
    content = json.loads(file.read_text())
    assert [result["seed"] for result in content["results"]] == [40, 41]
    assert content["success_rate"] == content["successes"] / 2
    assert content["latency_s"] == 0.2
    assert len(content["model_hash"]) == 64
    assert f"reach, seeing: {content['successes']}/2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", str(MODEL), "--episodes", "0"], "ask for at least one"),
        (["--model", str(MODEL), "--latency", "-1"], "must be positive"),
        (["--model", str(MODEL), "--strategy", "magic"], "anchor_fade"),
        (["--model", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words, message, capsys):
    assert main(["evaluate", "sim", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
