"""Tables are legible in a file too."""

from xvla_ros.evaluation.console import terminal


def test_a_file_is_wide_and_columns_are_kept_to(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    terminal().print("x" * 120)
    monkeypatch.setenv("COLUMNS", "70")
    terminal().print("x" * 120)
    assert [len(line) for line in capsys.readouterr().out.splitlines()] == [120, 70, 50]
