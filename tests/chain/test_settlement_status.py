"""Settlement as clients see it, on a real server and chain: HTTP, channels, history."""

from contextlib import ExitStack

import pytest

from tests.chain.nodes import KINDS, running, start_node
from tests.chain.people import UNIT
from tests.chain.settling_venues import BUY, SELL, SETTINGS, SettlingVenue
from tests.server.feed.connection import Connection
from tests.server.live import live_server

pytestmark = pytest.mark.long
ATTEMPTS = 20


@pytest.fixture(scope="module", params=KINDS)
def node(request, tmp_path_factory):
    with running(start_node(request.param, tmp_path_factory.mktemp("chain"))) as node:
        yield node


@pytest.fixture(scope="module")
def folder(node, tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def venue(node, folder):
    with live_server(folder, chain=node.url, **SETTINGS) as live:
        yield SettlingVenue(live, node.url).set_up(complementary=True)


def heard(talk, count):
    """Receive settlement messages; return trade id, settlement and transaction of each."""
    result = []
    while len(result) < count:
        message = talk.receive()
        if message["type"] == "settlement":
            data = message["data"]
            result.append((data["tradeId"], data["settlement"], data["txHash"]))
    return result


def trades(venue, count):
    """Return the newest trades."""
    return venue.http.get("/api/markets/rain/trades", params={"limit": count}).json()


def test_trade_status_is_published_until_settlement(venue):
    buyer, seller = venue.trader(), venue.trader()
    with ExitStack() as stack:
        market, his, hers = (stack.enter_context(Connection(venue.live)) for _ in range(3))
        market.send(type="subscribe", channel="settlement", marketId="rain")
        his.send(type="subscribe", channel="settlement", maker=buyer.address)
        hers.send(type="subscribe", channel="user", maker=seller.address)
        assert hers.receive()["type"] == "orders"
        venue.placed(seller, SELL, 50)
        body = venue.signed(buyer, BUY, 50)
        first = venue.http.post("/api/orders", json=body).json()
        [summary] = first["trades"]
        assert summary["txHash"] is None
        result = heard(market, 3)
        assert heard(his, 3) == result
        assert heard(hers, 2) == result[1:]  # the fill message already says pending
    assert [(each, stands) for each, stands, _ in result] == [
        (summary["id"], stands) for stands in ("pending", "submitted", "settled")
    ]
    tx = result[-1][-1]
    assert [hashed for *_, hashed in result] == [None, None, tx]
    receipt = venue.ask("eth_getTransactionReceipt", tx)
    assert int(receipt["status"], 16) == 1
    [trade] = trades(venue, 1)
    assert (trade["settlement"], trade["txHash"]) == ("settled", tx)
    again = venue.http.post("/api/orders", json=body).json()
    assert again == {**first, "duplicate": True, "trades": [{**summary, "txHash": tx}]}


def test_both_trades_of_a_mint_have_one_transaction(venue):
    yes, no = venue.tokens()
    alice, bob = venue.trader(), venue.trader()
    venue.placed(alice, BUY, 60, token=yes)
    venue.placed(bob, BUY, 40, token=no)
    venue.until_settled()
    first, second = trades(venue, 2)
    assert {first["tokenId"], second["tokenId"]} == {str(yes), str(no)}
    assert [each["matchType"] for each in (first, second)] == ["mint", "mint"]
    assert [each["settlement"] for each in (first, second)] == ["settled", "settled"]
    assert first["txHash"] == second["txHash"] is not None


def revoked(venue):
    """Trade after the seller revoked its approval; return the trade and its messages.

    The trade may settle or not be made if the server learns of the revocation early enough.
    """
    buyer, seller = venue.trader(), venue.trader()
    with Connection(venue.live) as talk:
        talk.send(type="subscribe", channel="settlement", maker=seller.address)
        venue.placed(seller, SELL, 50)
        venue.placed(buyer, BUY, 50, size=UNIT // 2)
        heard(talk, 3)
        venue.allow_tokens(seller, False)
        if not venue.place(buyer, BUY, 50, size=UNIT // 2).json().get("matched"):
            return None, None
        venue.until_settled()
        return trades(venue, 1)[0], heard(talk, 3)


def test_failed_trade_reports_its_reason(venue):
    for _ in range(ATTEMPTS):
        trade, result = revoked(venue)
        if trade is not None and trade["settlement"] == "failed":
            break
    assert trade["settlement"] == "failed"
    assert trade["txHash"] is None
    assert trade["settlementReason"]
    assert result == [(trade["id"], stands, None) for stands in ("pending", "submitted", "failed")]


def test_trades_are_equal_after_a_restart(venue, node, folder):
    venue.until_settled()
    before = trades(venue, 100)
    assert {each["settlement"] for each in before} <= {"settled", "failed"}
    assert venue.live.stop() == 0
    with live_server(folder, chain=node.url, **SETTINGS) as live:
        found = live.http.get("/api/markets/rain/trades", params={"limit": 100}).json()
    assert found == before
