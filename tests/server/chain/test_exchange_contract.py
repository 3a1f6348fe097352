"""The exchange is named once it is there; markets from before it are registered there."""

import pytest

from clob_server.chain.config import DEVELOPMENT
from tests.chain.people import read
from tests.chain.venues import Venue
from tests.server.api.people import good
from tests.server.live import live_server

SETTINGS = {"chain": "embedded", "chain_port": 0, "rate_limits": False}
ELSEWHERE = f"0x{'12' * 20}"


def knows(venue, market):
    """If the exchange knows both tokens of a market, as those of its condition."""
    condition = bytes.fromhex(market["conditionId"][2:])
    tokens = int(market["yesTokenId"]), int(market["noTokenId"])
    place = DEVELOPMENT.exchange
    found = [read(venue, place, "outcomes(uint256)", each, kind="bytes32") for each in tokens]
    return found == [condition, condition]


def test_a_market_is_registered_at_the_exchange(venue):
    market = venue.open_market("hail", "Will it hail?")
    told = good(venue.http.get("/api/gasless/operations/prepare:hail"))
    assert told["answer"]["exchange"] == venue.chain()["exchange"] == DEVELOPMENT.exchange
    for hashed in (told["answer"]["prepareTx"], told["answer"]["registerTx"]):
        assert venue.ask("eth_getTransactionReceipt", hashed)["status"] == "0x1"
    assert knows(venue, market)


@pytest.mark.long
def test_a_market_of_before_the_exchange_is_registered_at_the_next_start(tmp_path):
    with live_server(tmp_path, verifying_contract=ELSEWHERE, **SETTINGS) as live:
        venue = Venue(live)
        assert venue.chain()["exchange"] is None
        told = venue.outbox()
        assert told["state"] == "ready"
        assert told["detail"].startswith("trades do not settle: there is no contract at 0x1212")
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
