"""Statistics of paired differences, against values found by other means."""

from itertools import product

import numpy as np
import pytest

from xvla_ros.evaluation.paired import difference, independent_units, mcnemar


def test_the_interval_of_independent_pairs_is_that_of_student():
    rng = np.random.default_rng(3)
    a = rng.normal(20.0, 5.0, 400)
    b = a + rng.normal(1.0, 2.0, 400)
    found = difference(a, b, list(range(400)))
    d = b - a
    # The 97.5 % quantile of Student's t with 399 degrees of freedom.
    half = 1.9659 * d.std(ddof=1) / 20.0
    assert found is not None
    assert found.mean == pytest.approx(d.mean())
    assert found.low == pytest.approx(d.mean() - half, abs=0.03)
    assert found.high == pytest.approx(d.mean() + half, abs=0.03)
    assert found.clear
    assert found.p_value < 0.001


def test_pairs_of_one_unit_count_as_one():
    rng = np.random.default_rng(5)
    offsets = rng.normal(0.0, 1.0, 20)
    d = np.repeat(offsets, 50)
    whole = difference(np.zeros(1000), d, np.repeat(np.arange(20), 50).tolist())
    apart = difference(np.zeros(1000), d, list(range(1000)))
    one_each = difference(np.zeros(20), offsets, list(range(20)))
    assert whole is not None
    assert apart is not None
    assert one_each is not None
    assert whole.units == 20
    assert whole.high - whole.low == pytest.approx(one_each.high - one_each.low, rel=0.05)
    # A thousand independent pairs would be too sure: by the square root of 50, and a little more
    # because 20 units show their own variance less well.
    ratio = (whole.high - whole.low) / (apart.high - apart.low)
    assert np.sqrt(50.0) < ratio < 1.3 * np.sqrt(50.0)


def test_the_randomisation_test_counts_all_signs_of_few_units():
    d = np.array([1.0, 2.0, -0.5, 3.0, 0.25])
    totals = [abs(np.dot(signs, d)) for signs in product((1.0, -1.0), repeat=5)]
    found = difference(np.zeros(5), d, list(range(5)))
    assert found is not None
    assert found.p_value == pytest.approx(np.mean(np.array(totals) >= abs(d.sum()) - 1e-12))


def test_no_difference_is_called_clear_about_once_in_twenty():
    rng = np.random.default_rng(8)
    clear = 0
    for _ in range(80):
        found = difference(rng.normal(size=40), rng.normal(size=40), list(range(40)))
        assert found is not None
        clear += found.clear
    # Binomial with n = 80 and p = 0.05: 13 or more come once in three thousand.
    assert clear <= 12


def test_pairs_in_which_one_is_not_known_are_left_out():
    a = np.array([1.0, np.nan, 3.0, 4.0])
    b = np.array([2.0, 5.0, np.nan, 6.0])
    found = difference(a, b, [0, 1, 2, 3])
    assert found is not None
    assert (found.pairs, found.mean_a, found.mean_b, found.mean) == (2, 2.5, 4.0, 1.5)
    assert (found.b_larger, found.a_larger) == (2, 0)
    assert difference(np.full(3, np.nan), np.ones(3), [0, 1, 2]) is None


def test_too_few_units_say_nothing():
    found = difference(np.zeros(9), np.ones(9), [0] * 9)
    assert found is not None
    assert np.isnan([found.low, found.high]).all()
    assert not found.clear
    assert found.p_value == 1.0


def test_the_interval_of_few_units_holds_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(200):
        offsets = rng.normal(1.0, 1.0, 8)
        found = difference(np.zeros(24), np.repeat(offsets, 3), np.repeat(np.arange(8), 3).tolist())
        assert found is not None
        held += found.low <= 1.0 <= found.high
    # 95 % of 200, three standard deviations; a percentile interval holds it about 178 times.
    assert held >= 181


def test_units_are_episodes_if_there_are_enough_of_them():
    episodes = [e for e in range(8) for _ in range(3)]
    assert independent_units(episodes, np.arange(24.0), 5.0) == episodes


def test_few_episodes_are_cut_into_parts_as_long_as_a_chunk():
    times = np.array([10.0, 12.0, 14.9, 15.0, 19.0, 100.0, 104.0])
    assert independent_units([0, 0, 0, 0, 0, 1, 1], times, 5.0) == [0, 0, 0, 1, 1, 2, 2]


def test_mcnemar_is_the_exact_binomial():
    # 10 against 2: 2 (C(12,0) + C(12,1) + C(12,2)) / 2^12 = 158 / 4096.
    assert mcnemar(10, 2) == pytest.approx(158 / 4096)
    assert mcnemar(2, 10) == mcnemar(10, 2)
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(3, 3) == 1.0
