"""Other people's code to compare small networks with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from xvla_ros.errors import UsageError
from xvla_ros.runtime.benchmark.lerobot_peer import LeRobot


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Networks this small are slower on more threads."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def lerobot() -> LeRobot:
    """LeRobot's X-VLA, without the rest of LeRobot."""
    try:
        return LeRobot.load()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def write_json() -> Callable[[Path, Any], None]:
    def write(path: Path, content: Any) -> None:
        path.write_text(json.dumps(content))

    return write
