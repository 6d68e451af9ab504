"""How a dead motor is found though nobody tells of it."""

from __future__ import annotations

import numpy as np
import pytest

from xvla_ros.arm.xs_driver import HARDWARE_ERROR, TORQUE, expected_registers
from xvla_ros.arm.xs_motors import MotorWatch, Question, SilentJoints

EXPECTED = expected_registers("pwm", 100)
TICK = 0.02


@pytest.fixture
def watch() -> MotorWatch:
    return MotorWatch(EXPECTED, 1.0)


def run(watch: MotorWatch, start: float, seconds: float, broken=()) -> list[Question]:
    """Ticks with a driver that answers at once; `broken` motors never."""
    asked = []
    for now in np.arange(start, start + seconds, TICK):
        question = watch.due(now)
        if question is not None:
            asked.append(question)
            value = EXPECTED[question.motor][question.register]
            watch.answer(question, [] if question.motor in broken else [value])
    return asked


def test_every_motor_is_asked_for_its_error_once_in_the_period_and_one_at_a_time(watch):
    # Whole ticks make the questions a little rarer than asked for.
    asked = run(watch, 0.0, 1.5)
    of_errors = {q.motor for q in asked if q.register == HARDWARE_ERROR}
    assert of_errors == set(EXPECTED)
    assert len(asked) <= 1.5 * 18 + 1
    assert watch.due(1.5 + 1e-9) is not None
    assert watch.due(1.9) is None, "the driver has not answered yet"


def test_every_register_is_asked_for_in_the_end(watch):
    assert set(run(watch, 0.0, 6.0)) == set(watch.questions())
    assert watch.fault == ""


def test_a_motor_that_dies_is_named_within_the_period_and_forgotten_when_it_answers_again(watch):
    run(watch, 0.0, 1.0)
    run(watch, 1.0, 1.5, broken=("elbow_shadow",))
    assert watch.fault.startswith("motor 'elbow_shadow' does not answer")
    run(watch, 2.5, 6.0)
    assert watch.fault == ""


def test_the_error_that_a_motor_reports_goes_before_what_follows_from_it(watch):
    watch.answer(Question("waist", TORQUE), [0])
    watch.answer(Question("elbow", HARDWARE_ERROR), [0x20])
    assert "'elbow' has shut down (overload)" in watch.fault


def test_a_driver_that_is_silent_is_told_and_asked_again(watch):
    assert watch.due(0.0) is not None
    assert watch.due(2.9) is None
    assert watch.fault == ""
    question = watch.due(3.1)
    assert question is not None
    assert "does not answer get_motor_registers" in watch.fault
    watch.answer(question, [EXPECTED[question.motor][question.register]])
    assert watch.fault == ""


def test_motors_of_a_suspect_joint_are_asked_first(watch):
    run(watch, 0.0, 0.1)
    watch.suspect("shoulder")
    asked = run(watch, 0.1, 1.0)[:8]
    assert {q.motor for q in asked} == {"shoulder", "shoulder_shadow"}


def silent(commanded, measured, efforts, seconds=1.0):
    """What is found while the elbow goes through `measured`, one value per tick of 0.02 s."""
    joints = SilentJoints()
    found = None
    for i, now in enumerate(np.arange(0.0, seconds, TICK)):
        at = np.zeros(6)
        at[2] = measured(now)
        goal = np.zeros(6)
        goal[2] = commanded
        current = None if efforts is None else np.full(6, 200.0)
        if current is not None:
            current[2] = efforts
        found = joints.update(now, goal, at, current)
        if found is not None:
            return found, i * TICK
    return found, seconds


def test_a_joint_that_stays_away_from_its_command_without_current_is_dead():
    found, after = silent(0.3, lambda _: 0.0, 0.0)
    assert found == 2
    assert 0.4 <= after < 0.5


@pytest.mark.parametrize(
    ("commanded", "measured", "efforts"),
    [
        (0.3, lambda _: 0.0, 900.0),  # blocked: strains
        (0.05, lambda _: 0.0, 0.0),  # nearly there
        (0.9, lambda t: 0.5 * t, 5.0),  # on its way, without effort
        (0.3, lambda _: 0.0, None),  # the driver gives no efforts
    ],
)
def test_a_joint_that_is_blocked_near_or_on_its_way_is_not(commanded, measured, efforts):
    assert silent(commanded, measured, efforts)[0] is None
