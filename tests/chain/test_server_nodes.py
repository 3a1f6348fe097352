"""A server over several nodes of one chain, one of which lies or is gone.

Fates of trades, operations and accounts are those of the real chain.
"""

import contextlib

import pytest

from tests.chain.chain_server import conversion, wait_until
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.proxy import Drop, Lie, Proxy
from tests.chain.settling_server import SETTINGS, SettlingServer, settled_numbers
from tests.chain.wallets import UNIT
from tests.server.live import live_server

pytestmark = pytest.mark.long
NUM_NODES = 3
LOGS, RECEIPT, CALL = "eth_getLogs", "eth_getTransactionReceipt", "eth_call"


def without_topics(logs):
    """Return logs, each of another event."""
    return [{**log, "topics": [f"0x{'00' * 32}"]} for log in logs]


def reverted(receipt):
    """Return a receipt of a failed transaction without logs."""
    return receipt and {**receipt, "status": "0x0", "logs": []}


def rich(word):
    """Return the result of a call with a huge number."""
    return f"0x{'0f' * 32}" if len(word) == 66 else word


LIES = {LOGS: without_topics, RECEIPT: reverted, CALL: rich}


@pytest.fixture(scope="module", params=KINDS)
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("settling")
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(running(start_node(request.param, folder / "devchain")))
        proxies = [Proxy(node.url) for _ in range(NUM_NODES)]
        for proxy in proxies:
            stack.callback(proxy.close)
        first, *others = (proxy.url for proxy in proxies)
        settings = {"chain": first, "chain_nodes": tuple(others), **SETTINGS}
        live = stack.enter_context(live_server(folder / "data", **settings))
        server = SettlingServer(live, node.url).set_up()
        server.proxies = proxies
        yield server


@pytest.mark.parametrize("liar", range(NUM_NODES))
def test_node_that_lies_changes_no_fate_account_or_operation(server, liar):
    proxy = server.proxies[liar]
    with contextlib.ExitStack() as stack:
        for method, change in LIES.items():
            stack.enter_context(proxy.inject(Lie(change, method)))
        ada, bob = server.trader(), server.trader()
        before = len(settled_numbers(server))
        server.trade(ada, bob, count=3)
        status = server.until_settled()
        assert (status.difference, status.failures) == (0, [])
        assert len(settled_numbers(server)) == before + 3
        # The wallet has no collateral left for this.
        ada.approve_collateral()
        body = conversion(ada, server.market(), 50 * UNIT)
        rejected = server.post("/api/gasless/split", body)
        assert rejected.json()["code"] == "INSUFFICIENT_BALANCE"
        server.convert("split", ada, server.market(), UNIT)
    server.quiet()
    assert server.settlement().difference == 0


def test_node_that_is_gone_delays_nothing(server):
    with server.proxies[0].inject(Drop()):
        ada, bob = server.trader(), server.trader()
        server.trade(ada, bob)
        assert server.until_settled().failures == []
        assert server.chain()["state"] == "ready"


def test_two_nodes_that_are_gone_stop_settlement_but_no_trading_until_one_is_back(server):
    ada, bob = server.trader(), server.trader()
    server.trade(ada, bob)
    server.until_settled()
    with server.proxies[0].inject(Drop()):
        with server.proxies[1].inject(Drop()):
            wait_until(lambda: server.chain()["state"] == "unreachable")
            server.trade(ada, bob)
            assert server.settlement().pending + server.settlement().submitted == 1
        assert server.until_settled().failures == []
