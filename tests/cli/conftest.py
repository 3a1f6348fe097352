"""Fixtures of the command-line tests: real order flow and a small recording."""

import os
from pathlib import Path

import pytest

from clob.replay import synthetic_day


@pytest.fixture
def golden_path():
    """An hour of a futures exchange, with the fills that the exchange recorded."""
    folder = os.environ.get("CLOB_DATA_DIR")
    if not folder:
        pytest.skip("CLOB_DATA_DIR does not name the folder with the real order flow")
    path = Path(folder, "golden_esh4_1_99.npz")
    if not path.exists():
        pytest.skip(f"CLOB_DATA_DIR has no {path.name}")
    return path


@pytest.fixture(scope="session")
def day():
    """A short synthetic day; tests must not write to it."""
    return synthetic_day(seed=3, orders=1_500)
