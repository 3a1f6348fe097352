"""Paths of recorded order flow; tests skip with a reason if the files are missing."""

import os
from pathlib import Path

import pytest


def data_file(name):
    """Return the path of a data file, or skip the test."""
    folder = os.environ.get("CLOB_DATA_DIR")
    if not folder:
        pytest.skip("CLOB_DATA_DIR is not set: no recorded order flow to replay")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"CLOB_DATA_DIR has no {name}")
    return path
