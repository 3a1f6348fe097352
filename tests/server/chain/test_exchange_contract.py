"""The exchange contract: registration of markets, also of earlier ones."""

from clob_server.chain.config import DEVELOPMENT
from tests.chain.wallets import read
from tests.server.api.makers import good

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
