"""Lag of an arm behind its commands: known delays, the simulated arm, and what cannot be said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xvla_ros import cli
from xvla_ros.arm import constants
from xvla_ros.errors import UsageError
from xvla_ros.evaluation.lag import Signal, measure_lag

READY = np.array(constants.READY)


def wander(times: np.ndarray, seed: int = 0) -> np.ndarray:
    """Smooth motion (n, 6) of a few tenths of a radian, none faster than 1 Hz."""
    rng = np.random.default_rng(seed)
    out = np.zeros((len(times), 6))
    for _ in range(5):
        rate, phase = rng.uniform(0.05, 1.0, 6), rng.uniform(0.0, 6.0, 6)
        out += 0.08 * np.sin(2.0 * np.pi * rate * times[:, None] + phase)
    return READY + out


def samples(rate: float, seconds: float, seed: int = 0) -> np.ndarray:
    """Times of a rate, as uneven as those of a busy machine."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, seconds, 1.0 / rate)
    return times + rng.uniform(0.0, 0.2 / rate, len(times))


@given(st.floats(0.01, 0.6), st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None, derandomize=True)
def test_a_known_delay_is_found_to_a_fraction_of_a_sample_whatever_sag_and_noise(delay, seed):
    rng = np.random.default_rng(seed)
    sent, seen = samples(50.0, 12.0, seed), samples(100.0, 12.0, seed + 1)
    sag = rng.normal(scale=0.03, size=6)
    # Noise of an encoder's step.
    measured = wander(seen - delay, seed) + sag + rng.normal(scale=7e-4, size=(len(seen), 6))
    lag = measure_lag("arm", Signal(sent, wander(sent, seed)), Signal(seen, measured), 0.05)
    # Samples lie 10 and 20 ms apart.
    assert lag.seconds == pytest.approx(delay, abs=1.5e-3)
    assert lag.lowest - 1e-9 <= lag.seconds <= lag.highest + 1e-9
    assert lag.resemblance > 0.95


def test_servos_of_first_order_lag_by_their_time_constant():
    sent = np.arange(0.0, 20.0, 0.02)
    seen = np.arange(0.0, 20.0, 0.01)
    command = wander(sent)
    measured = np.empty((len(seen), 6))
    measured[0] = command[0]
    for i in range(1, len(seen)):
        target = command[np.searchsorted(sent, seen[i], side="right") - 1]
        measured[i] = measured[i - 1] + (1.0 - np.exp(-0.01 / 0.1)) * (target - measured[i - 1])
    lag = measure_lag("arm", Signal(sent, command), Signal(seen, measured), 0.05)
    # At the frequencies of this motion a first-order lag delays by somewhat less.
    assert 0.08 < lag.seconds < 0.12


@pytest.mark.parametrize("delay", [0.12, 0.3])
def test_a_gripper_s_lag_is_the_time_to_half_of_its_way(delay):
    sent = np.arange(0.0, 30.0, 0.02)
    closed = (np.floor(sent / 3.0) % 2.0)[:, None]
    finger = 0.037 - 0.022 * closed
    seen = np.arange(0.0, 30.0, 0.01)
    # A ramp of 0.2 s around the delay.
    whole = np.interp(seen - delay + 0.1, sent, finger[:, 0])
    ramp = np.convolve(np.pad(whole, (20, 0), mode="edge"), np.ones(20) / 20, mode="valid")[:-1]
    lag = measure_lag(
        "gripper", Signal(sent, finger, held=True), Signal(seen, ramp[:, None]), 0.005
    )
    assert lag.seconds == pytest.approx(delay, abs=0.01)


def test_the_pause_between_two_tasks_is_no_motion():
    sent, seen = samples(50.0, 20.0), samples(100.0, 20.0)
    measured = wander(seen - 0.1)
    # Actuation off in between, and somebody moves the arm.
    pause = (sent > 8.0) & (sent < 12.0)
    measured[(seen > 8.1) & (seen < 11.9)] += 0.5
    lag = measure_lag(
        "arm", Signal(sent[~pause], wander(sent)[~pause]), Signal(seen, measured), 0.05
    )
    assert lag.seconds == pytest.approx(0.1, abs=2e-3)
    assert lag.duration < 16.0


@pytest.mark.parametrize(
    ("command", "measured", "message"),
    [
        (wander, lambda t: wander(t, seed=9), "does not follow the commands"),
        (
            lambda t: np.tile(READY, (len(t), 1)),
            lambda t: wander(t),
            "commanded to move by 0.0000 only",
        ),
        (wander, lambda t: wander(t + 0.1), "are both clocks the same"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(command, measured, message):
    sent, seen = samples(50.0, 12.0), samples(100.0, 12.0)
    with pytest.raises(UsageError, match=message):
        measure_lag("arm", Signal(sent, command(sent)), Signal(seen, measured(seen)), 0.05)


def test_a_second_of_commands_is_too_little():
    sent, seen = samples(50.0, 1.5), samples(100.0, 1.5)
    with pytest.raises(UsageError, match="at least 2 s are needed"):
        measure_lag("arm", Signal(sent, wander(sent)), Signal(seen, wander(seen)), 0.05)


def test_the_simulated_arm_has_the_lag_that_its_answer_to_a_step_shows():
    pytest.importorskip("mujoco")
    from xvla_ros.sim.world import SimWorld

    sent = np.arange(0.0, 8.0, 0.02)
    command = READY + 0.5 * (wander(sent) - wander(sent[:1]))
    seen, measured = [], []
    with SimWorld() as world:
        world.reset(0)
        start = world.time
        world.set_arm(READY, constants.FINGER_UPPER)
        for time, joints in zip(sent, command, strict=True):
            world.command_arm(joints)
            for half in (0.01, 0.02):
                world.step_to(start + time + half)
                seen.append(time + half)
                measured.append(world.joints())
    lag = measure_lag(
        "arm", Signal(sent, command), Signal(np.array(seen), np.array(measured)), 0.05
    )
    # A step is half done after 0.096 to 0.109 s, by joint and height.
    assert 0.085 < lag.seconds < 0.12


def test_wrong_arguments_are_one_line(capsys, tmp_path):
    for arguments in ([], ["--live", "bag"], ["--live", "--seconds", "0"], [str(tmp_path / "no")]):
        assert cli.main(["calibrate", "latency", *arguments]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 4
    assert "give recordings, or --live" in errors[0]
