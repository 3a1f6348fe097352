"""Fixtures: servers of both environments, and a proxy before one."""

import pytest

from tests.client.chaos_proxy import ChaosProxy
from tests.server.api.makers import MarketIds
from tests.server.live import live_server

SECRET = "a secret for tests, of more than 32 bytes"


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """A server of the test environment without rate limits."""
    folder = tmp_path_factory.mktemp("client") / "data"
    with live_server(folder, rate_limits=False, jwt_secret=SECRET) as server:
        yield server


@pytest.fixture(scope="session")
def production(tmp_path_factory):
    """A server of the production environment."""
    folder = tmp_path_factory.mktemp("client-production") / "data"
    settings = {"environment": "production", "jwt_secret": SECRET, "rate_limits": False}
    domain = {"eip712_name": "exchange", "eip712_version": "2", "chain_id": 1}
    contract = {"verifying_contract": f"0x{0xE:040x}"}
    with live_server(folder, **settings, **domain, **contract) as server:
        yield server


@pytest.fixture
def market():
    """The ids of a new market, which opens with its first order."""
    return MarketIds("client")


@pytest.fixture
def proxy(live):
    """A proxy that loses answers."""
    with ChaosProxy(live.url) as made:
        yield made
