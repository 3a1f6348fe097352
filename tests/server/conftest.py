"""The `log` fixture, which runs a test with every kind of log."""

import itertools

import pytest

from clob_server.log import FrameStream, MemoryLog, ReplicatedLog, SqliteLog
from tests.server.log.nats_servers import running

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def nats_cluster(tmp_path_factory):
    """One nats-server that syncs each message."""
    with running(tmp_path_factory.mktemp("nats")) as cluster:
        yield cluster


@pytest.fixture
def open_stream(nats_cluster):
    """Open the stream of a test again and again, with one replica."""
    name = f"test-{next(NUMBERS)}"

    def open_one(**options):
        options = {"replicas": 1, "monitors": nats_cluster.monitors, "timeout_s": 2} | options
        return FrameStream(nats_cluster.urls, **({"name": name} | options))

    return open_one


@pytest.fixture(params=["memory", "sqlite", "replicated"])
def log(request, tmp_path):
    """An empty log of each kind."""
    if request.param == "memory":
        made = MemoryLog()
    elif request.param == "sqlite":
        made = SqliteLog(tmp_path / "log")
    else:
        made = ReplicatedLog(tmp_path / "log", request.getfixturevalue("open_stream")())
    yield made
    made.close()
