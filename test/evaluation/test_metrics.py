"""Figures from series, with right values found by hand."""

import numpy as np
import pytest

from xvla_ros.evaluation import metrics
from xvla_ros.evaluation.metrics import FramesLost, Spread


def test_a_spread_tells_median_tail_and_largest():
    spread = Spread.of(np.arange(1, 102))
    assert (spread.p50, spread.p95, spread.largest, spread.count) == (51.0, 96.0, 101.0, 101)


def test_a_spread_leaves_out_what_is_not_finite():
    assert Spread.of([1.0, np.nan, 3.0, np.inf]) == Spread(2.0, 2.9, 3.0, 2)
    assert Spread.of([]) == Spread(0.0, 0.0, 0.0, 0)


def test_frames_that_arrive_are_not_lost_whatever_the_times_of_the_reports():
    """15 Hz; the publisher reports ten times a second, the subscriber once, both counting all."""
    published = [(t, int(15 * t)) for t in np.arange(0.0, 20.0, 0.1)]
    received = [(t, int(15 * t) - 40) for t in np.arange(3.03, 18.0, 1.0)]
    lost = metrics.frames_lost(published, received)
    assert lost.published == pytest.approx(15 * 14, abs=1)
    assert lost.lost <= 1


def test_frames_that_do_not_arrive_are_counted():
    published = [(t, 15.0 * t) for t in np.arange(0.0, 20.0, 0.1)]
    received = [(t, int(0.9 * 15 * t)) for t in np.arange(2.0, 18.0, 1.0)]
    lost = metrics.frames_lost(published, received)
    assert lost.published == 15 * 15
    assert lost.lost == pytest.approx(0.1 * 225, abs=1.5)
    assert lost.fraction == pytest.approx(0.1, abs=0.01)


def test_reports_that_do_not_overlap_say_nothing():
    published = [(0.0, 0), (1.0, 15)]
    assert metrics.frames_lost(published, [(5.0, 1), (6.0, 16)]) == FramesLost(0, 0)
    assert metrics.frames_lost([], []).fraction == 0.0


def test_losses_of_two_cameras_add_up():
    assert FramesLost(100, 2) + FramesLost(50, 1) == FramesLost(150, 3)


def test_speed_is_way_per_time():
    path = np.array([[0.0, 0, 0], [0.003, 0.004, 0], [0, 0, 0], [1, 0, 0]])
    speeds = metrics.speeds([0.0, 0.02, 0.04, 0.04], path)
    assert speeds[:2] == pytest.approx([0.25, 0.25])
    assert np.isnan(speeds[2])


def test_changes_are_found_where_a_value_differs_from_the_one_before():
    assert metrics.changes([1.0, 2.0, 3.0, 4.0], [7, 7, 8, 9]) == [3.0, 4.0]
    assert metrics.changes([1.0], [7]) == []


def test_a_rate_needs_two_events():
    assert metrics.rate([0.0, 0.5, 1.0, 1.5]) == pytest.approx(2.0)
    assert metrics.rate([3.0]) == 0.0


def test_times_are_sorted_into_episodes():
    inside = metrics.within([0.5, 1.0, 2.0, 3.5, 9.0], [(1.0, 2.0), (3.0, 4.0)])
    assert inside.tolist() == [False, True, True, True, False]
