"""The exchange contract: registration of markets, also of earlier ones."""

import pytest

from clob_server.chain.config import DEVELOPMENT
from tests.chain.people import read
from tests.chain.venues import Venue
from tests.server.api.people import good
from tests.server.live import live_server

SETTINGS = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
ELSEWHERE = f"0x{'12' * 20}"


def knows(venue, market):
    """Return whether the exchange maps both tokens of a market to its condition."""
    condition = bytes.fromhex(market["conditionId"][2:])
    tokens = int(market["yesTokenId"]), int(market["noTokenId"])
    place = DEVELOPMENT.exchange
    found = [read(venue, place, "outcomes(uint256)", each, kind="bytes32") for each in tokens]
    return found == [condition, condition]


def test_market_is_registered_with_the_exchange(venue):
    market = venue.open_market("hail", "Will it hail?")
    result = good(venue.http.get("/api/gasless/operations/prepare:hail"))
    assert result["answer"]["exchange"] == venue.chain()["exchange"] == DEVELOPMENT.exchange
    for hashed in (result["answer"]["prepareTx"], result["answer"]["registerTx"]):
        assert venue.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
    assert knows(venue, market)


@pytest.mark.long
def test_earlier_market_is_registered_at_the_next_start(tmp_path):
    with live_server(tmp_path, verifying_contract=ELSEWHERE, **SETTINGS) as live:
        venue = Venue(live)
        assert venue.chain()["exchange"] is None
        result = venue.outbox()
        assert result["state"] == "ready"
        assert result["detail"].startswith("trades do not settle: no contract at 0x1212")
        market = venue.open_market("rain", "Will it rain?")
        assert live.stop() == 0
    for _ in range(2):
        with live_server(tmp_path, **SETTINGS) as live:
            venue = Venue(live)
            assert venue.outbox()["detail"] == ""
            venue.wait_for("rain", "prepared")
            assert venue.chain()["exchange"] == DEVELOPMENT.exchange
            assert knows(venue, market)
            found = [each["id"] for each in venue.operations() if each["kind"] == "prepare"]
            assert found == [f"prepare:rain/{DEVELOPMENT.exchange}", "prepare:rain"]
            assert live.stop() == 0
