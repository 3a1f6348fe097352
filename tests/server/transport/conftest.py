"""Servers shared by the tests of the transport."""

import pytest

from tests.server.transport.process import Process

LOOPS = ["uvloop", "asyncio"]


@pytest.fixture(scope="session", params=LOOPS)
def server(request):
    """A server per event loop, with heads of 2 KiB and frequent pings."""
    limits = {"headers_max_bytes": 2048, "ping_interval_s": 0.1}
    with Process(loop=request.param, limits=limits) as process:
        yield process


@pytest.fixture(scope="session")
def hasty():
    """A server with short deadlines."""
    limits = {
        "header_timeout_s": 0.3,
        "body_timeout_s": 0.3,
        "keep_alive_s": 0.3,
        "stall_timeout_s": 0.5,
        "linger_s": 0.2,
    }
    with Process(limits=limits) as process:
        yield process
