"""What the tests of several parts share."""

from __future__ import annotations

import importlib.util
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
