"""A server whose oracle has a key of its own, or lost it: the markets of both keys."""

from contextlib import contextmanager

import pytest

from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from tests.chain.chain_server import ChainServer
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.settling_server import SETTINGS
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

ORACLE = WALLETS[5]


@pytest.fixture(params=KINDS)
def start(request, tmp_path):
    """Return a context with a server on one node, with other settings each time."""
    with running(start_node(request.param, tmp_path / "devchain")) as node:

        @contextmanager
        def start(**settings):
            with live_server(tmp_path / "data", chain=node.url, **SETTINGS, **settings) as live:
                yield ChainServer(live, node.url)

        yield start


def opened(server, name):
    """Open a market of the chain; return its JSON once it is prepared."""
    server.admin.admin_create_market(name, {"question": f"Will it {name}?"})
    server.wait_for(name, "prepared")
    return server.http.get(f"/api/markets/{name}").json()


def resolve(server, name):
    """Resolve a market and return the response."""
    path, headers = f"/api/admin/markets/{name}/resolve", authority_of(server.live)
    return server.http.post(path, json={"outcome": "yes"}, headers=headers)


def reporter(server, name):
    """Return who sent the transaction that reported an outcome."""
    [operation] = [each for each in server.operations() if each.id == f"report:{name}"]
    sent = server.ask("eth_getTransactionByHash", operation.steps[0].hashes[0])
    return sent["from"].lower()


def test_each_market_is_resolved_by_the_oracle_that_it_was_prepared_with(start):
    with start() as server:
        assert opened(server, "rain")["oracle"] == OPERATOR.address
    with start(oracle_key=ORACLE.private_key) as server:
        for name in ("snow", "hail"):
            assert opened(server, name)["oracle"] == ORACLE.address
        for name, oracle in (("rain", OPERATOR), ("snow", ORACLE)):
            assert resolve(server, name).status_code == 200
            server.wait_for(name, "reported")
            assert reporter(server, name) == oracle.address.lower()
    with start() as server:
        server.wait_for("hail", "prepared")
        answer = resolve(server, "hail")
        assert (answer.status_code, answer.json()["code"]) == (409, "ORACLE_KEY_MISSING")
        assert ORACLE.address in answer.json()["detail"]
        assert OPERATOR.address in answer.json()["detail"]
        assert server.http.get("/api/markets/hail").json()["mode"] == "open"
    with start(oracle_key=ORACLE.private_key) as server:
        assert resolve(server, "hail").status_code == 200
        server.wait_for("hail", "reported")
