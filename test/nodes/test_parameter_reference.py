"""The reference page and the shipped files say what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from xvla_ros import cli
from xvla_ros.nodes.parameters.command import NODES, reference
from xvla_ros.parameters.files import check_file

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_page_in_docs_is_the_one_that_the_command_makes(capsys):
    assert cli.main(["parameters"]) == 0
    printed = capsys.readouterr().out
    assert printed == reference(NODES)
    page = (REPOSITORY / "docs" / "parameters.md").read_text()
    assert page == printed, "run: xvla parameters > docs/parameters.md"


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "config").glob("*.yaml")), ids=lambda p: p.name
)
def test_every_shipped_parameter_file_is_right(path):
    check_file(path, NODES)


def test_a_wrong_file_ends_the_command_with_2_and_one_line(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text("/**/chunk_scheduler:\n  ros__parameters:\n    fade: 0.4\n")
    assert cli.main(["parameters", "--check", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "did you mean 'fade_s'?" in error
    path.write_text("/**/chunk_scheduler:\n  ros__parameters:\n    fade_s: 0.4\n")
    assert cli.main(["parameters", "--check", str(path)]) == 0
