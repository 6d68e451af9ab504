"""From probabilities of closed to a command that does not chatter."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros.scheduler.gripper import GripperKnots, GripperState
from xvla_ros.scheduler.params import GripperParams

PARAMS = GripperParams()
TICK = 0.02
STEP_DT = 1.0 / 6.0
few = settings(max_examples=60, deadline=None)


def commands(
    probabilities, *, params=PARAMS, threshold=0.0, step_dt=STEP_DT, initial=0.0, open_below=0.0
) -> list[float]:
    """The command at each tick while a chunk of these probabilities is executed."""
    knots = GripperKnots.of(np.array(probabilities), step_dt, threshold, params, open_below)
    state = GripperState(initial)
    out = []
    for i in range(1, round((len(probabilities) + 1) * step_dt / TICK)):
        state = state.advanced(knots, i * TICK, TICK, params)
        out.append(state.command)
    return out


def toggles(values: list[float], initial: float = 0.0) -> list[int]:
    """Ticks at which the command changes."""
    return [i for i, (a, b) in enumerate(pairwise([initial, *values])) if a != b]


def test_it_closes_when_the_knot_is_due_and_not_before():
    changed = toggles(commands([0, 0, 0, 1, 1, 1, 1, 1]))
    assert [i * TICK for i in changed] == pytest.approx([4 * STEP_DT], abs=TICK)


def test_one_knot_alone_closes_nothing():
    assert toggles(commands([0, 0, 1, 0, 0, 1, 0, 0])) == []


@given(st.lists(st.floats(0.61, 0.79), min_size=2, max_size=30), st.sampled_from([0.0, 1.0]))
@few
def test_noise_inside_the_band_changes_nothing(probabilities, initial):
    assert toggles(commands(probabilities, initial=initial), initial) == []


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40), st.floats(0.01, 1.0))
@few
def test_there_is_never_more_than_one_change_per_dwell(probabilities, step_dt):
    changed = toggles(commands(probabilities, step_dt=step_dt))
    assert all((b - a) * TICK >= PARAMS.dwell_s - 1e-9 for a, b in pairwise(changed))


@given(st.lists(st.floats(0.0, 1.0), min_size=4, max_size=30))
@few
def test_a_rising_probability_closes_at_most_once_and_for_good(probabilities):
    rising = sorted(probabilities)
    changed = toggles(commands(rising))
    assert len(changed) <= 1
    if rising[-2] > PARAMS.close_above:
        assert len(changed) == 1


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30))
@few
def test_a_command_is_open_or_closed_and_nothing_between(probabilities):
    assert set(commands(probabilities)) <= {0.0, 1.0}


def test_a_gripper_found_half_closed_stays_until_a_decision():
    values = commands([0.7, 0.7, 0.7, 0.1, 0.1, 0.1], initial=0.43)
    assert values[0] == 0.43
    assert values[-1] == 0.0
    assert set(values) == {0.43, 0.0}


def test_the_threshold_of_a_chunk_replaces_the_parameter_and_keeps_the_band():
    assert toggles(commands([0.9] * 6)) != []
    assert toggles(commands([0.9] * 6, threshold=0.95)) == []
    # The band is 0.2 wide: from 0.95 it opens below 0.75.
    assert toggles(commands([0.76] * 6, threshold=0.95, initial=1.0), 1.0) == []
    assert len(toggles(commands([0.74] * 6, threshold=0.95, initial=1.0), 1.0)) == 1


def test_a_chunk_that_says_when_to_open_has_a_band_of_its_own():
    released = [0.45] * 6
    assert toggles(commands(released, threshold=0.5, open_below=0.4, initial=1.0), 1.0) == []
    assert len(toggles(commands(released, threshold=0.5, open_below=0.5, initial=1.0), 1.0)) == 1
    # Above the threshold it would leave no band at all: the threshold is the most.
    knots = GripperKnots.of(np.ones(2), STEP_DT, 0.5, PARAMS, 0.9)
    assert (knots.close_above, knots.open_below) == (0.5, 0.5)


def test_chunks_that_never_reach_their_first_knot_still_move_the_gripper():
    knots = GripperKnots.of(np.ones(30), STEP_DT, 0.0, PARAMS)
    state = GripperState(0.0)
    for i in range(50):
        # Replanned every tenth of a second: the phase never gets to the first step.
        state = state.advanced(knots, 0.02 * (1 + i % 5), TICK, PARAMS)
    assert state.command == 1.0


def test_holding_lets_the_dwell_pass():
    knots = GripperKnots.of(np.ones(30), STEP_DT, 0.0, PARAMS)
    changed = GripperState(0.0, age=0.0)
    assert changed.advanced(knots, 1.0, TICK, PARAMS).command == 0.0
    assert changed.held(0.3).advanced(knots, 1.0, TICK, PARAMS).command == 1.0
