"""Real processes over real DDS, each test in a ROS domain of its own."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from ros_harness import Ros


@pytest.fixture
def domain() -> Iterator[int]:
    """A ROS domain that no other test on this machine uses meanwhile (a lock per number)."""
    first = os.getpid() % 100
    for offset in range(100):
        number = 1 + (first + offset) % 100
        lock = open(Path(tempfile.gettempdir()) / f"ros_domain_{number}.lock", "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        yield number
        lock.close()
        return
    pytest.fail("all ROS domains from 1 to 100 are in use")


@pytest.fixture
def ros(domain: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ros]:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    session = Ros(domain)
    yield session
    session.close()
