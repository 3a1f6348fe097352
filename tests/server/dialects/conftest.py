"""A server with the polymarket dialect for the tests of a module, two clients and a market."""

import pytest

from tests.server.dialects.polymarket import Market, client_of, dialect_server
from tests.signings import KEYS


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with dialect_server(tmp_path_factory.mktemp("dialect")) as server:
        yield server


@pytest.fixture(scope="module")
def alice(live):
    return client_of(live, KEYS[0])


@pytest.fixture(scope="module")
def bob(live):
    return client_of(live, KEYS[1])


@pytest.fixture
def market(live):
    return Market(live)
