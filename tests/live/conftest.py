"""A server for the tests of a module, a market, and a proxy before the server."""

import pytest

from tests.client.chaos_proxy import ChaosProxy
from tests.server.api.makers import MarketIds
from tests.server.live import live_server


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "data"
    with live_server(folder, rate_limits=False, ws_resume_events=60) as server:
        yield server


@pytest.fixture
def market():
    return MarketIds("live")


@pytest.fixture
def proxy(live):
    with ChaosProxy(live.url) as made:
        yield made
