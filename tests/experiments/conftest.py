import sys
from pathlib import Path

import pytest

import tfsoftmax  # noqa: F401  (all of it, before a program is imported that starts without it)

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def fakes():
    """Commands that stand in for train.py and evaluate.py, and need no TensorFlow."""
    return {
        name: (sys.executable, str(HERE / "fake_tools.py"), name) for name in ("train", "evaluate")
    }


@pytest.fixture
def data(tmp_path):
    """A folder that passes for a corpus; the fakes log their calls in it."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
