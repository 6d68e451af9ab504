"""`xvla train-demo` from the command line."""

import pytest

from xvla_ros.cli import main


@pytest.mark.parametrize("option", ["steps", "processes", "threads", "episodes"])
def test_counts_must_be_positive(option, tmp_path, capsys):
    words = ["train-demo", "--out", str(tmp_path / "model"), f"--{option}", "0"]
    assert main(words) == 2
    assert f"--{option} is 0; it must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
