"""What the tests of several parts share."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def load_module(path: Path) -> ModuleType:
    """A module of the tests by its file: pytest's importlib mode leaves folders off the path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def load() -> Callable[[Path], ModuleType]:
    """Loads a module of the tests by its file."""
    return load_module


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """The module tiny_models beside this file; torch is imported only by those who ask."""
    return load_module(Path(__file__).with_name("tiny_models.py"))


@pytest.fixture(scope="session")
def bridge_data() -> Path:
    """A sample of BridgeData V2 (rail.eecs.berkeley.edu/datasets/bridge_release): `episodes.json`,
    photographs. Tests that need it are skipped where it is not there."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "bridge"
    folder = Path(os.environ.get("XVLA_BRIDGE_DATA", beside))
    if not (folder / "episodes.json").is_file():
        pytest.skip(f"no BridgeData sample at {folder}; set XVLA_BRIDGE_DATA")
    return folder
