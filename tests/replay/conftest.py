"""Fixtures of the replay tests: the golden hour, and a short synthetic day."""

import os
from pathlib import Path

import pytest

from clob.replay import synthetic_day


@pytest.fixture
def golden_path():
    """An hour of an exchange, with its recorded fills."""
    folder = os.environ.get("CLOB_DATA_DIR")
    if not folder:
        pytest.skip("CLOB_DATA_DIR does not say where the real order flow is")
    path = Path(folder, "golden_esh4_1_99.npz")
    if not path.exists():
        pytest.skip(f"CLOB_DATA_DIR has no {path.name}")
    return path


@pytest.fixture(scope="session")
def day():
    """A short synthetic day; must not be modified."""
    return synthetic_day(seed=3, orders=1_500)
