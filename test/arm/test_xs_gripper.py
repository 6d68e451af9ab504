"""The gripper on PWM pushes as long as it must and never stalls at full power."""

from __future__ import annotations

import numpy as np
import pytest

from xvla_ros.arm.xs_gripper import PwmGripper

PUSH, HOLD = 250, 150
SPEED = 5.0  # of the fraction closed, per second


def close(target: float, start: float, stop: float, seconds: float = 2.0) -> list[tuple]:
    """(time, PWM, fraction closed) of a gripper that moves until something is at `stop`."""
    gripper = PwmGripper(PUSH, HOLD)
    gripper.command(target, 0.0)
    closed, told = start, []
    for now in np.arange(0.0, seconds, 0.02):
        pwm = gripper.update(now, closed)
        told.append((now, pwm, closed))
        if pwm:
            step = SPEED * 0.02 * (-1.0 if pwm > 0 else 1.0)
            low, high = (0.0, stop) if pwm < 0 else (stop, 1.0)
            closed = float(np.clip(closed + step, low, high))
    return told


def test_closing_on_nothing_ends_without_force():
    told = close(1.0, 0.0, 1.0)
    assert told[0][1] == -PUSH
    assert told[-1][1] == 0
    assert told[-1][2] == pytest.approx(1.0)


def test_opening_ends_without_force():
    told = close(0.0, 1.0, 0.0)
    assert told[0][1] == PUSH
    assert told[-1][1] == 0


def test_something_grasped_is_pressed_with_the_holding_force():
    told = close(1.0, 0.0, 0.6)
    assert told[-1][1] == -HOLD
    full = [now for now, pwm, _ in told if pwm == -PUSH]
    # A way of 0.6 takes 0.12 s; a stop counts after 0.4 s.
    assert full[-1] < 0.12 + 0.4 + 0.1


def test_an_opening_that_is_blocked_gives_up():
    assert close(0.0, 1.0, 0.5)[-1][1] == 0


def test_without_a_measurement_the_push_ends_after_a_while():
    gripper = PwmGripper(PUSH, HOLD)
    assert gripper.update(0.0, None) is None
    gripper.command(1.0, 0.0)
    assert gripper.update(0.5, None) == -PUSH
    assert gripper.update(1.1, None) == -HOLD
    gripper.command(0.0, 2.0)
    assert gripper.update(2.5, None) == PUSH
    assert gripper.update(3.1, None) == 0


def test_the_same_command_again_starts_nothing_and_what_is_left_on_never_opens():
    gripper = PwmGripper(PUSH, HOLD)
    gripper.command(0.0, 0.0)
    assert gripper.update(0.0, 1.0) == PUSH
    assert gripper.resting() == 0
    told = [gripper.update(now, 1.0) for now in np.arange(0.02, 0.6, 0.02)]
    gripper.command(0.0, 0.3)
    assert told[0] == PUSH
    assert told[-1] == 0, "it has stalled since the first command"


def test_a_pause_of_the_measurement_is_no_stop_of_the_fingers():
    gripper = PwmGripper(PUSH, HOLD)
    gripper.command(1.0, 0.0)
    assert gripper.update(0.0, 0.2) == -PUSH
    for now in np.arange(0.02, 0.6, 0.02):
        assert gripper.update(now, None) == -PUSH
    assert gripper.update(0.62, 0.2) == -PUSH
    assert gripper.update(0.7, 0.99) == 0


def test_what_slips_out_of_the_gripper_is_not_pressed_for_any_longer():
    gripper = PwmGripper(PUSH, HOLD)
    gripper.command(1.0, 0.0)
    told = [gripper.update(now, 0.5) for now in np.arange(0.0, 1.0, 0.02)]
    assert told[-1] == -HOLD
    assert gripper.update(1.0, 0.7) == -HOLD
    assert gripper.update(1.5, 1.0) == 0
