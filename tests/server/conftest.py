"""The `log` fixture, which runs a test with both kinds of log."""

import pytest

from clob_server.log import MemoryLog, SqliteLog


@pytest.fixture(params=["memory", "sqlite"])
def log(request, tmp_path):
    """An empty log of either kind."""
    made = MemoryLog() if request.param == "memory" else SqliteLog(tmp_path / "log")
    yield made
    made.close()
