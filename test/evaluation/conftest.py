import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from xvla_ros.evaluation.bag import storage as bag


def _load(name):
    """A helper module beside this file; pytest's importlib mode leaves the folder off the path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def live_bag():
    """The module of that name: the numbers that are in the bag of a run."""
    return _load("live_bag")


@pytest.fixture(scope="session")
def bags():
    """The module of that name: bags with known content."""
    return _load("bags")


@pytest.fixture(scope="session")
def datasets():
    """The module of that name: LeRobot datasets with known content."""
    return _load("datasets")


@pytest.fixture(scope="session")
def turner():
    """The module of that name: a policy that knows what the arm in those bags does."""
    _load("bags")
    return _load("turner")


@pytest.fixture(scope="session")
def results():
    """The module of that name: results of evaluations on small bags."""
    return _load("results")


@pytest.fixture(scope="session")
def picture():
    """A picture that JPEG keeps well: grey with a white square."""
    image = np.full((480, 640, 3), 90, dtype=np.uint8)
    image[200:280, 280:360] = 255
    return image


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, live_bag, picture):
    """Folder with the bag of a run of six seconds."""
    folder = tmp_path_factory.mktemp("demo")
    bag.write(folder / "bag", live_bag.records(6.0, picture))
    return folder
