"""`xvla benchmark commands`: the figures, and the whole of it over real DDS."""

from __future__ import annotations

import json

import numpy as np
import pytest

from xvla_ros import cli
from xvla_ros.evaluation.live_commands import figures


def test_jitter_is_the_distance_from_the_period_and_a_gap_is_a_missed_command():
    stamps = 1_000_000_000 + 20_000_000 * np.arange(200, dtype=np.int64)
    even = figures(stamps.tolist(), 0.02, "normal", True, 3)
    assert (even.commands, even.missed, even.jitter_max_ms) == (200, 0, 0.0)
    assert even.seconds == pytest.approx(3.98)
    stamps[100] += 5_000_000
    shifted = figures(stamps.tolist(), 0.02, "normal", True, 3)
    assert shifted.jitter_max_ms == pytest.approx(5.0)
    assert shifted.missed == 0
    gap = figures([*stamps[:120].tolist(), *stamps[123:].tolist()], 0.02, "normal", True, 3)
    assert gap.missed == 3


def test_the_command_measures_the_real_stream(monkeypatch, tmp_path, domain, capsys):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = tmp_path / "figures.json"
    arguments = ["--seconds", "2", "--threads", "1", "--ticks", "100", "--out", str(tmp_path)]
    # A busy machine may miss a command: that is a figure, and no failure of the measurement.
    assert cli.main(["benchmark", "commands", *arguments, "--json", str(out)]) in (0, 1)
    content = json.loads(out.read_text())
    assert content["decide"]["tick"]["calls"] == 100
    assert content["fixed work"]["calls"] == 100
    stream = content["stream"]
    assert stream["commands"] > 50
    assert stream["saturated"]
    beside = stream["beside_network"]
    # In two seconds on a busy machine there may have been no chunk yet.
    assert not beside or 0.0 < beside["min"] <= beside["median"] <= beside["p95"]
    assert stream["priority"] in ("SCHED_FIFO 20", "nice -15", "normal")
    assert json.loads(capsys.readouterr().out) == content


def test_wrong_arguments_are_one_line(capsys):
    assert cli.main(["benchmark", "commands", "--seconds", "-1"]) == 2
    assert "--seconds" in capsys.readouterr().err
