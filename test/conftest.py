"""What the tests of several parts share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """The module tiny_models beside this file.

    pytest's importlib mode leaves the folder off the path, and torch is imported only by those who
    ask.
    """
    path = Path(__file__).parent / "tiny_models.py"
    spec = importlib.util.spec_from_file_location("tiny_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_models"] = module
    spec.loader.exec_module(module)
    return module
