"""Whether a variant is as good as the reference: intervals, margins, files of episodes."""

import json
import math

import numpy as np
import pytest

from xvla_ros.errors import UsageError
from xvla_ros.evaluation.verify.trial import Conditions, Outcome, Trial
from xvla_ros.evaluation.verify.variant import Variant
from xvla_ros.evaluation.verify.verdict import judge, paired_interval


def outcomes(*successes, seconds=3.0):
    return {s: Outcome(s, bool(ok), seconds, 0, 1.0) for s, ok in enumerate(successes)}


def likelihood_interval(only_a, only_b, n):
    """The same interval by brute force: the likelihood's maximum under each difference."""
    share = np.linspace(0.0, 1.0, 20001)
    inside = []
    for delta in np.linspace(-0.3, 0.3, 1201):
        a, b = share, share + delta
        rest = 1.0 - a - b
        possible = (b >= 0.0) & (rest >= 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = [
                np.where(count == 0, 0.0, count * np.log(p))
                for count, p in ((only_a, a), (only_b, b), (n - only_a - only_b, rest))
            ]
        total = np.where(possible, sum(terms), -np.inf)
        likeliest = share[int(np.argmax(total))]
        variance = n * (2 * likeliest + delta - delta**2)
        gap = only_b - only_a - n * delta
        if gap == 0 or (variance > 0 and abs(gap) <= 1.959964 * math.sqrt(variance)):
            inside.append(delta)
    return min(inside), max(inside)


@pytest.mark.parametrize(("only_a", "only_b", "n"), [(1, 0, 44), (8, 3, 100), (5, 5, 400)])
def test_the_interval_is_that_of_the_likeliest_table(only_a, only_b, n):
    expected = likelihood_interval(only_a, only_b, n)
    assert paired_interval(only_a, only_b, n) == pytest.approx(expected, abs=1.1e-3)


def test_pairs_that_never_differ_leave_room_for_a_difference():
    low, high = paired_interval(0, 0, 400)
    # Score interval of 0 in n: z^2 / (n + z^2).
    assert high == pytest.approx(1.96**2 / (400 + 1.96**2), rel=1e-3)
    assert low == -high


def test_the_interval_turns_round_with_the_two_sides():
    low, high = paired_interval(7, 2, 150)
    assert paired_interval(2, 7, 150) == pytest.approx((-high, -low))


def test_equal_variants_are_accepted_only_with_enough_pairs():
    few, many = outcomes(*[1] * 40), outcomes(*[1] * 400)
    assert not judge(few, few, 0.02).accepted
    assert judge(many, many, 0.02).accepted


def test_a_loss_is_seen_whatever_both_fail_at():
    a = outcomes(*[1] * 380, *[0] * 20)
    b = outcomes(*[1] * 360, *[0] * 40)
    found = judge(a, b, 0.02)
    assert (found.only_a, found.only_b) == (20, 0)
    assert found.p_value == pytest.approx(2 * 0.5**20)
    assert not found.accepted
    assert judge(a, b, 0.10).accepted


def test_only_seeds_that_both_have_run_are_pairs():
    a, b = outcomes(1, 1, 0), outcomes(1, 0)
    found = judge(a, b)
    assert (found.a.successes, found.b.successes, found.a.trials) == (2, 1, 2)
    with pytest.raises(ValueError, match="no seed"):
        judge(outcomes(1), {})


def test_the_time_to_success_counts_where_both_succeed():
    a = outcomes(1, 1, 1, 1, 0, seconds=3.0)
    b = outcomes(1, 1, 1, 1, 1, seconds=3.5)
    found = judge(a, b).seconds
    assert found is not None
    assert (found.pairs, found.mean) == (4, pytest.approx(0.5))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("dtype=bfloat16, steps=4", {"dtype": "bfloat16", "steps": 4}),
        ("steps=[1,.7,.4,.1],views=1", {"steps": [1, 0.7, 0.4, 0.1], "views": 1}),
    ],
)
def test_a_variant_is_read_and_written(text, options):
    variant = Variant.parse(text)
    assert variant.options == options
    assert Variant.parse("" if variant.label == "exact" else variant.label) == variant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed=fast", "'speed' is no option; known: .*dtype"),
        ("bfloat16", "write name=value"),
        ("dtype=", "write name=value"),
        ("steps=[1,", "cannot be read"),
    ],
)
def test_what_is_no_variant_is_refused_in_one_line(text, message):
    with pytest.raises(UsageError, match=message) as error:
        Variant.parse(text)
    assert "\n" not in str(error.value)


def test_episodes_are_kept_and_go_on(tmp_path):
    conditions = Conditions("models/demo", "reach")
    trial = Trial(tmp_path, conditions, Variant({"steps": 4}))
    trial.begin("abc")
    trial.add(list(outcomes(1, 0, 1).values()))
    with trial.path.open("a") as stream:
        stream.write('{"seed": 3, "succ')  # the process died here

    again = Trial(tmp_path, conditions, Variant({"steps": 4}))
    again.begin("abc")
    assert again.missing(range(5)) == [3, 4]
    assert [o.success for o in again.outcomes.values()] == [True, False, True]
    assert json.loads(trial.path.read_text().splitlines()[0])["model_hash"] == "abc"


@pytest.mark.parametrize(
    ("conditions", "digest"),
    [(Conditions("models/demo", "reach"), "def"), (Conditions("m", "reach", 0.4), "abc")],
)
def test_episodes_of_something_else_are_not_mixed_in(tmp_path, conditions, digest):
    Trial(tmp_path, Conditions("m", "reach"), Variant()).begin("abc")
    with pytest.raises(UsageError, match="use another --out"):
        Trial(tmp_path, conditions, Variant()).begin(digest)
