"""The exchange contract: registration of markets, also of earlier ones."""

import pytest

from clob_server.chain.config import DEVELOPMENT
from tests.chain.chain_server import ChainServer
from tests.chain.wallets import read
from tests.server.api.makers import good
from tests.server.live import live_server

SETTINGS = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
NO_CONTRACT = f"0x{'12' * 20}"


def is_registered(server, market):
    """Return whether the exchange maps both tokens of a market to its condition."""
    condition = bytes.fromhex(market["conditionId"][2:])
    tokens = int(market["yesTokenId"]), int(market["noTokenId"])
    exchange = DEVELOPMENT.exchange
    outcomes = [
        read(server, exchange, "outcomes(uint256)", each, kind="bytes32") for each in tokens
    ]
    return outcomes == [condition, condition]


def test_market_is_registered_with_the_exchange(server):
    market = server.open_market("hail", "Will it hail?")
    result = good(server.http.get("/api/gasless/operations/prepare:hail"))
    assert result["answer"]["exchange"] == server.chain()["exchange"] == DEVELOPMENT.exchange
    for hashed in (result["answer"]["prepareTx"], result["answer"]["registerTx"]):
        assert server.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
    assert is_registered(server, market)


@pytest.mark.long
def test_earlier_market_is_registered_at_the_next_start(tmp_path):
    with live_server(tmp_path, verifying_contract=NO_CONTRACT, **SETTINGS) as live:
        server = ChainServer(live)
        assert server.chain()["exchange"] is None
        result = server.outbox()
        assert result["state"] == "ready"
        assert result["detail"].startswith("trades do not settle: no contract at 0x1212")
        market = server.open_market("rain", "Will it rain?")
        assert live.stop() == 0
    for _ in range(2):
        with live_server(tmp_path, **SETTINGS) as live:
            server = ChainServer(live)
            assert server.outbox()["detail"] == ""
            server.wait_for("rain", "prepared")
            assert server.chain()["exchange"] == DEVELOPMENT.exchange
            assert is_registered(server, market)
            operation_ids = [
                each["id"] for each in server.operations() if each["kind"] == "prepare"
            ]
            assert operation_ids == [f"prepare:rain/{DEVELOPMENT.exchange}", "prepare:rain"]
            assert live.stop() == 0
