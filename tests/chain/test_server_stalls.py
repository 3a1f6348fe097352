"""An escrow market on a node whose blocks stop: it stops matching, and resumes by itself."""

import signal
import time
from contextlib import contextmanager

import pytest

from clob_server.chain.eth.accounts import OPERATOR
from tests.chain.chain_server import wait_until
from tests.chain.chains import Chain
from tests.chain.escrow_server import EscrowServer
from tests.chain.nodes import running, start_anvil
from tests.chain.settling_server import BUY, SELL, SETTINGS
from tests.chain.test_deploy import deployed
from tests.chain.workers import working
from tests.server.api.makers import problem
from tests.server.live import live_server

pytestmark = pytest.mark.long
LIMIT_S = 6
HURRIED = (
    "import sys; from clob_server.settlement import stalls; "
    f"stalls.LIMIT_MS = {LIMIT_S * 1_000}; "
    "from clob_server.__main__ import main; sys.exit(main())"
)
"""A server to which the delay of the contract is short; the limit is half of it."""
OTHER_CHAIN = 137


@contextmanager
def serving(folder, node, **settings):
    """Run a server with an escrow market and a short limit on a node."""
    settings = SETTINGS | settings | {"program": ("-c", HURRIED)}
    with live_server(folder, chain=node.url, **settings) as live:
        wait_until(lambda: live.http.get("/").json()["chain"]["state"] == "ready")
        yield EscrowServer(live, node.url).set_up()


def is_stalled(server):
    return server.market()["stalled"] is not None


def check_stop(server, ada, bob):
    """Check that a market that has just stopped takes cancels only."""
    wait_until(lambda: is_stalled(server))
    reason = server.market()["stalled"]["reason"]
    assert f"no block of the chain was seen for more than {LIMIT_S} s" in reason
    body = problem(server.place(bob, BUY, 50), "MARKET_STALLED")
    assert reason in body["detail"]
    assert server.settlement().stalled == ["rain"]


def check_trading(server, ada, bob):
    """Wait until the market is open again, trade, and compare with the chain."""
    wait_until(lambda: not is_stalled(server))
    server.trade(bob, ada)
    status = server.until_settled()
    assert (status.stalled, status.failures, status.difference) == ([], [], 0)


def test_market_stops_while_the_node_hangs(tmp_path):
    with running(start_anvil()) as node, serving(tmp_path, node) as server:
        ada, bob = server.depositor(), server.depositor()
        check_trading(server, ada, bob)
        resting = server.placed(ada, SELL, 60)["orderId"]
        time.sleep(LIMIT_S + 2)
        assert not is_stalled(server)  # a quiet chain that answers is no reason
        node.process.send_signal(signal.SIGSTOP)
        try:
            began_s = time.monotonic()
            check_stop(server, ada, bob)
            assert time.monotonic() - began_s > LIMIT_S - 2
            path = f"/api/orders/{resting}"
            assert server.http.get(path).json()["status"] == "open"
        finally:
            node.process.send_signal(signal.SIGCONT)
        check_trading(server, ada, bob)


def test_market_stops_while_a_chain_makes_no_blocks(tmp_path):
    key = tmp_path / "operator.key"
    key.touch(mode=0o600)
    key.write_text(OPERATOR.private_key)
    with running(start_anvil("--chain-id", str(OTHER_CHAIN))) as node:
        chain = Chain(node, tmp_path / "maker")
        with working(chain.folder, node.url, chain_id=OTHER_CHAIN, exchange="") as worker:
            contracts = worker.ready().addresses
        data = tmp_path / "data"
        data.mkdir()
        options = ("--chain-id", OTHER_CHAIN, "--operator-key-file", key)
        settings = {
            "chain_id": OTHER_CHAIN,
            "operator_key_file": key,
            "stablecoin": contracts.stablecoin,
            "collateral": contracts.collateral,
            "conditional_tokens": contracts.conditional_tokens,
            "verifying_contract": deployed(chain, data, *options),
            "chain_final_blocks": 1,
        }
        node.ask("evm_setIntervalMining", 1)
        with serving(data, node, **settings) as server:
            ada, bob = server.depositor(), server.depositor()
            check_trading(server, ada, bob)
            node.ask("evm_setIntervalMining", 0)
            check_stop(server, ada, bob)
            assert server.http.get("/").json()["chain"]["state"] == "ready"
            node.ask("evm_setIntervalMining", 1)
            check_trading(server, ada, bob)
