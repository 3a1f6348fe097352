"""The fixture that runs a test over both kinds of log."""

import pytest

from clob_server.log import MemoryLog, SqliteLog


@pytest.fixture(params=["memory", "sqlite"])
def log(request, tmp_path):
    """A log of either kind, empty."""
    made = MemoryLog() if request.param == "memory" else SqliteLog(tmp_path / "log")
    yield made
    made.close()
