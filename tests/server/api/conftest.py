"""Fixtures: a server of each environment, makers, and new market ids."""

import httpx
import pytest

from tests.server.api.makers import ApiClient, Maker, MarketIds, operator_token
from tests.server.api.socket_client import SocketClient
from tests.server.live import live_server
from tests.signings import DOMAIN, EXCHANGE

SECRET = "a secret for tests, of more than 32 bytes"


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """A server of the test environment without rate limits."""
    with live_server(tmp_path_factory.mktemp("api") / "data", rate_limits=False) as server:
        yield server


@pytest.fixture(scope="session")
def production(tmp_path_factory):
    """A server of the production environment without rate limits, and its operator's clients."""
    with live_server(
        tmp_path_factory.mktemp("production") / "data",
        rate_limits=False,
        environment="production",
        eip712_name=DOMAIN.name,
        eip712_version=DOMAIN.version,
        chain_id=DOMAIN.chain_id,
        verifying_contract=EXCHANGE,
        jwt_secret=SECRET,
    ) as server:
        token = operator_token(SECRET)
        server.admin = server.client(token=token)
        server.operator = httpx.Client(
            base_url=server.url, timeout=60, headers={"Authorization": f"Bearer {token}"}
        )
        yield server
        server.operator.close()


OVER_BOTH = (
    "test_batch", "test_decisions_on_repeats", "test_makers_lists", "test_spec_create_signed",
    "test_spec_gasless", "test_spec_orders", "test_spec_reading_and_cancelling",
)  # fmt: skip
"""Modules whose tests run over HTTP and again over a WebSocket."""


def pytest_generate_tests(metafunc):
    if "http" in metafunc.fixturenames and metafunc.module.__name__.endswith(OVER_BOTH):
        metafunc.parametrize("http", ["http", "websocket"], indirect=True)


@pytest.fixture
def http(live, request):
    """A client over HTTP, or one that sends the requests of orders over a WebSocket."""
    if getattr(request, "param", "http") == "http":
        yield live.http
        return
    with SocketClient(live) as client:
        yield client


@pytest.fixture
def api(http):
    return ApiClient(http)


@pytest.fixture
def market():
    return MarketIds()


@pytest.fixture
def alice():
    return Maker()


@pytest.fixture
def bob():
    return Maker()


@pytest.fixture
def production_market(production):
    """A market with both tokens, opened on the production server."""
    ids = MarketIds()
    tokens = {"yesTokenId": str(ids.yes), "noTokenId": str(ids.no)}
    production.admin.admin_create_market(ids.id, tokens)
    return ids


@pytest.fixture
def key_for(production):
    """Return a function that creates an API key for makers and returns its header."""

    def make(*makers, scopes=("read", "trade", "cancel")):
        wallets = [maker.address for maker in makers]
        made = production.admin.admin_create_key("a test", scopes, makers=wallets)
        return {"X-API-Key": made.key}

    return make
