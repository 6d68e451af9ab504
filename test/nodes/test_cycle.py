"""Deadlines of the command stream."""

from __future__ import annotations

import threading
import time

import pytest

from xvla_ros.nodes.cycle import Cycle, spin


def test_deadlines_lie_on_a_grid_however_late_they_are_met():
    cycle = Cycle(0.02, 10.0)
    assert cycle.meet(10.005) == pytest.approx(0.005)
    assert cycle.wait(10.005) == pytest.approx(0.015)
    assert cycle.meet(10.039) == pytest.approx(0.019)
    assert cycle.wait(10.039) == pytest.approx(0.001)
    assert cycle.missed == 0


def test_a_pause_is_no_burst_afterwards_and_what_was_missed_is_counted():
    cycle = Cycle(0.02, 10.0)
    cycle.meet(10.071)
    assert cycle.missed == 3
    assert cycle.wait(10.071) == pytest.approx(0.009)


def test_no_callback_begins_shortly_before_a_deadline():
    cycle = Cycle(0.02, 10.0)
    assert cycle.free(9.99) == pytest.approx(0.005)
    assert cycle.free(9.997) < 0.0
    # At 200 Hz there must still be time for callbacks.
    assert Cycle(0.005, 10.0).free(9.996) > 0.002


class Busy:
    """An executor with callbacks that always have something to do."""

    def __init__(self, seconds: float) -> None:
        self.spins = 0
        self._seconds = seconds

    def spin_once(self, timeout_sec: float | None = None) -> None:
        self.spins += 1
        time.sleep(self._seconds)


class Ticking:
    def __init__(self, stop: threading.Event, ticks: int) -> None:
        self.cycle: Cycle | None = Cycle(0.02, time.monotonic())
        self.ticks = 0
        self.prepared = 0
        self._stop = stop
        self._wanted = ticks

    def prepare(self, ahead: float) -> None:
        assert ahead >= 0.0
        self.prepared += 1

    def carry_out(self, late: float) -> None:
        assert late >= 0.0
        self.ticks += 1
        assert self.prepared == self.ticks
        if self.ticks == self._wanted:
            self._stop.set()


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.03])
def test_callbacks_without_end_and_slow_ones_starve_neither_the_commands_nor_themselves(seconds):
    stop = threading.Event()
    node, executor = Ticking(stop, 10), Busy(seconds)
    spin(node, executor, stop)
    assert node.ticks == 10
    assert executor.spins >= 9


def test_without_deadlines_callbacks_run():
    stop = threading.Event()
    node = Ticking(stop, 1)
    node.cycle = None

    class Executor(Busy):
        def spin_once(self, timeout_sec: float | None = None) -> None:
            super().spin_once(timeout_sec)
            stop.set()

    executor = Executor(0.0)
    spin(node, executor, stop)
    assert (executor.spins, node.ticks) == (1, 0)
