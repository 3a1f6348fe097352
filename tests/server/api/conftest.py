"""A test server, a production server, and makers that trade there."""

import httpx
import pytest

from tests.server.api.people import Person, Place, Shop, operators_token
from tests.server.live import live_server
from tests.signings import DOMAIN, EXCHANGE

SECRET = "a secret for tests, of more than 32 bytes"


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """A server of the test environment, its budgets off."""
    with live_server(tmp_path_factory.mktemp("api") / "data", rate_limits=False) as server:
        yield server


@pytest.fixture(scope="session")
def production(tmp_path_factory):
    """A server of the production environment, its budgets off; operators come with a token."""
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
        token = operators_token(SECRET)
        server.operator = httpx.Client(
            base_url=server.url, timeout=60, headers={"Authorization": f"Bearer {token}"}
        )
        yield server
        server.operator.close()


@pytest.fixture
def http(live):
    return live.http


@pytest.fixture
def shop(http):
    return Shop(http)


@pytest.fixture
def place():
    return Place()


@pytest.fixture
def alice():
    return Person()


@pytest.fixture
def bob():
    return Person()


@pytest.fixture
def market(production):
    """A market of the production server, with both tokens."""
    made = Place()
    body = {"marketId": made.id, "yesTokenId": str(made.yes), "noTokenId": str(made.no)}
    assert production.operator.post("/api/admin/markets", json=body).status_code == 200
    return made


@pytest.fixture
def key_for(production):
    """Make API keys: ``key_for(person, ...)`` gives the headers that it comes with."""

    def make(*people, scopes=("read", "trade", "cancel")):
        body = {
            "name": "a test",
            "scopes": list(scopes),
            "makers": [person.address for person in people],
        }
        answer = production.operator.post("/api/admin/keys", json=body)
        assert answer.status_code == 200, answer.text
        return {"X-API-Key": answer.json()["key"]}

    return make
