"""Intervals of counted successes."""

import pytest

from xvla_ros.evaluation.statistics import Proportion


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Wilson score bounds, worked out by hand from the quadratic (p - c)^2 = z^2 p (1 - p) / n.
        (95, 100, 0.8882, 0.9785),
        (10, 10, 0.7225, 1.0),
        (0, 10, 0.0, 0.2775),
        (1, 2, 0.0945, 0.9055),
    ],
)
def test_interval_is_wilsons(successes, trials, low, high):
    assert Proportion(successes, trials).interval() == pytest.approx((low, high), abs=1e-4)


def test_nothing_tried_says_nothing():
    assert Proportion(0, 0).interval() == (0.0, 1.0)
    assert Proportion(0, 0).rate == 0.0


def test_more_successes_than_trials_are_refused():
    with pytest.raises(ValueError, match="3 successes out of 2"):
        Proportion(3, 2)


def test_text_states_count_rate_and_interval():
    assert str(Proportion(95, 100)) == "95/100 = 95 % (95 % interval 89-98 %)"
