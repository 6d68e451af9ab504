"""Period, priority and last command of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from xvla_ros.nodes.last_command import LastCommand
from xvla_ros.nodes.period import PeriodMeter
from xvla_ros.nodes.priority import raise_priority
from xvla_ros.scheduler.arm_io import HeldCommand


def test_the_period_is_that_of_the_ticks_and_a_pause_does_not_count():
    meter = PeriodMeter()
    assert meter.percentiles() == (0.0, 0.0)
    for tick in range(99):
        meter.tick(0.02 * tick)
    meter.restart()
    meter.tick(100.0)
    assert meter.percentiles() == pytest.approx((0.02, 0.02))
    meter.tick(100.05)
    p50, p99 = meter.percentiles()
    assert p50 == pytest.approx(0.02)
    assert p99 > 0.02


def test_how_late_commands_begin_is_told_beside_the_period():
    meter = PeriodMeter()
    assert meter.lateness() == 0.0
    for tick in range(101):
        meter.tick(0.02 * tick, 1e-4 * tick)
    assert meter.lateness() == pytest.approx(1e-2, rel=0.02)


def test_the_priority_that_is_named_is_the_one_the_kernel_gives():
    code = (
        "import os; from xvla_ros.nodes.priority import raise_priority; "
        "print(raise_priority()); print(os.sched_getscheduler(0) == os.SCHED_FIFO, os.nice(0))"
    )
    lines = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    fifo, nice = lines[1].split()
    expected = {"SCHED_FIFO 20": "True", "nice -15": "False", "normal": "False"}
    assert fifo == expected[lines[0]]
    if lines[0] == "nice -15":
        assert nice == "-15"


def test_without_permission_the_priority_stays_and_is_called_normal(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "setpriority", refuse)
    assert raise_priority() == "normal"


def test_a_process_gives_way_with_all_its_threads_and_its_session():
    code = (
        "import os, threading; from xvla_ros.nodes.priority import lower_priority as lower; "
        "end = threading.Event(); thread = threading.Thread(target=end.wait); thread.start(); "
        "before = os.nice(0); print(lower(before + 3)); "
        "print(*{os.getpriority(0, int(t)) - before for t in os.listdir('/proc/self/task')}); "
        "end.set()"
    )
    nice = os.nice(0)
    run = partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    told, threads = run(check=True).stdout.splitlines()
    assert told == f"nice {nice + 3}"
    assert threads == "3"
    told, threads = run(check=True, start_new_session=True).stdout.splitlines()
    assert told.startswith(f"nice {nice + 3}")
    assert threads == "3"


def test_the_last_command_is_remembered_for_a_minute(tmp_path):
    command = HeldCommand(np.arange(6.0), 1.0)
    first = LastCommand(tmp_path / "state" / "last")
    assert first.read(100.0) is None
    first.write(command, 100.0)
    second = LastCommand(tmp_path / "state" / "last")
    kept = second.read(101.0)
    assert kept is not None
    assert np.array_equal(kept.joints, command.joints)
    assert kept.gripper_closed == 1.0
    assert second.read(161.0) is None
    assert second.read(99.0) is None


def test_a_last_command_that_cannot_be_written_or_read_is_none(tmp_path):
    (tmp_path / "file").write_text("in the way")
    unwritable = LastCommand(tmp_path / "file" / "last")
    unwritable.write(HeldCommand(np.zeros(6), 0.0), 100.0)
    assert unwritable.read(100.0) is None
    (tmp_path / "short").write_bytes(b"abc")
    assert LastCommand(tmp_path / "short").read(100.0) is None
