"""What clients see of settlement, of a real server over a real chain: HTTP, channels, history."""

from contextlib import ExitStack

import pytest

from tests.chain.nodes import KINDS, running, start_node
from tests.chain.people import UNIT
from tests.chain.settling_venues import BUY, SELL, SETTINGS, SettlingVenue
from tests.server.feed.talk import Talk
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
        yield SettlingVenue(live, node.url).found(complementary=True)


def heard(talk, count):
    """Hear so much of settlement: which trade, how it stands, by which transaction."""
    told = []
    while len(told) < count:
        message = talk.hear()
        if message["type"] == "settlement":
            data = message["data"]
            told.append((data["tradeId"], data["settlement"], data["txHash"]))
    return told


def trades(venue, count):
    """The newest trades."""
    return venue.http.get("/api/markets/rain/trades", params={"limit": count}).json()


def test_a_trade_is_followed_from_its_making_to_its_transaction(venue):
    buyer, seller = venue.trader(), venue.trader()
    with ExitStack() as stack:
        market, his, hers = (stack.enter_context(Talk(venue.live)) for _ in range(3))
        market.say(type="subscribe", channel="settlement", marketId="rain")
        his.say(type="subscribe", channel="settlement", maker=buyer.address)
        hers.say(type="subscribe", channel="user", maker=seller.address)
        assert hers.hear()["type"] == "orders"
        venue.placed(seller, SELL, 50)
        body = venue.signed(buyer, BUY, 50)
        first = venue.http.post("/api/orders", json=body).json()
        [summary] = first["trades"]
        assert summary["txHash"] is None
        told = heard(market, 3)
        assert heard(his, 3) == told
        assert heard(hers, 2) == told[1:]  # the fill says that it is pending
    assert [(each, stands) for each, stands, _ in told] == [
        (summary["id"], stands) for stands in ("pending", "submitted", "settled")
    ]
    tx = told[-1][-1]
    assert [hashed for *_, hashed in told] == [None, None, tx]
    receipt = venue.ask("eth_getTransactionReceipt", tx)
    assert int(receipt["status"], 16) == 1
    [trade] = trades(venue, 1)
    assert (trade["settlement"], trade["txHash"]) == ("settled", tx)
    again = venue.http.post("/api/orders", json=body).json()
    assert again == {**first, "duplicate": True, "trades": [{**summary, "txHash": tx}]}


def test_both_trades_of_a_mint_have_the_transaction_that_made_the_tokens(venue):
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
    """Make a trade after the seller took his approval back; how it stands, and what was told.

    It may settle all the same, or not be made, where the news of it are as fast as the order.
    """
    buyer, seller = venue.trader(), venue.trader()
    with Talk(venue.live) as talk:
        talk.say(type="subscribe", channel="settlement", maker=seller.address)
        venue.placed(seller, SELL, 50)
        venue.placed(buyer, BUY, 50, size=UNIT // 2)
        heard(talk, 3)
        venue.allow_tokens(seller, False)
        if not venue.place(buyer, BUY, 50, size=UNIT // 2).json().get("matched"):
            return None, None
        venue.until_settled()
        return trades(venue, 1)[0], heard(talk, 3)


def test_a_trade_that_fails_says_why_everywhere(venue):
    for _ in range(ATTEMPTS):
        trade, told = revoked(venue)
        if trade is not None and trade["settlement"] == "failed":
            break
    assert trade["settlement"] == "failed"
    assert trade["txHash"] is None
    assert trade["settlementReason"]
    assert told == [(trade["id"], stands, None) for stands in ("pending", "submitted", "failed")]


def test_all_of_it_is_the_same_after_a_restart(venue, node, folder):
    venue.until_settled()
    before = trades(venue, 100)
    assert {each["settlement"] for each in before} <= {"settled", "failed"}
    assert venue.live.stop() == 0
    with live_server(folder, chain=node.url, **SETTINGS) as live:
        found = live.http.get("/api/markets/rain/trades", params={"limit": 100}).json()
    assert found == before
