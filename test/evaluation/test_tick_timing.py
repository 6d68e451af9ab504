"""What the timing of command periods times."""

from __future__ import annotations

import itertools
from dataclasses import asdict

import pytest

from xvla_ros.evaluation.tick_timing import Timing, measure


def test_every_period_of_an_arm_in_motion_is_timed():
    # A clock that says a millisecond more each time it is read: two readings to a call.
    readings = itertools.count()
    figures = measure(lambda: 1e-3 * next(readings), ticks=150)
    assert set(figures) == {"tick", "sample", "submit"}
    assert figures["tick"].calls == figures["sample"].calls == 150
    # Three seconds of a policy of 2 Hz with a latency of 0.4 s.
    assert figures["submit"].calls == 6
    for timing in figures.values():
        assert timing.median_ms == pytest.approx(1.0)
        assert timing.max_ms == pytest.approx(1.0)
    assert next(readings) == 2 * (150 + 150 + 6)


def test_percentiles_are_of_the_calls():
    timing = Timing.of([0.001 * i for i in range(1, 101)])
    assert asdict(timing) == pytest.approx(
        {"calls": 100, "median_ms": 50.5, "p95_ms": 95.05, "p99_ms": 99.01, "max_ms": 100.0}
    )
