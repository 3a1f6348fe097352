"""Settlement status over HTTP, in channels and in history, on a real server and chain."""

from contextlib import ExitStack

import pytest

from tests.chain.nodes import KINDS, running, start_node
from tests.chain.settling_server import BUY, SELL, SETTINGS, SettlingServer
from tests.chain.wallets import UNIT
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
def server(node, folder):
    with live_server(folder, chain=node.url, **SETTINGS) as live:
        yield SettlingServer(live, node.url).set_up(complementary=True)


def settlement_messages(connection, count):
    """Receive settlement messages; return trade id, settlement and transaction of each."""
    result = []
    while len(result) < count:
        message = connection.receive()
        if message["type"] == "settlement":
            data = message["data"]
            result.append((data["tradeId"], data["settlement"], data["txHash"]))
    return result


def trades(server, count):
    """Return the newest trades."""
    return server.http.get("/api/markets/rain/trades", params={"limit": count}).json()


def test_trade_status_is_published_until_settlement(server):
    buyer, seller = server.trader(), server.trader()
    with ExitStack() as stack:
        market, buyer_feed, seller_feed = (
            stack.enter_context(Connection(server.live)) for _ in range(3)
        )
        market.send(type="subscribe", channel="settlement", marketId="rain")
        buyer_feed.send(type="subscribe", channel="settlement", maker=buyer.address)
        seller_feed.send(type="subscribe", channel="user", maker=seller.address)
        assert seller_feed.receive()["type"] == "orders"
        server.placed(seller, SELL, 50)
        body = server.signed(buyer, BUY, 50)
        first = server.http.post("/api/orders", json=body).json()
        [summary] = first["trades"]
        assert summary["txHash"] is None
        result = settlement_messages(market, 3)
        assert settlement_messages(buyer_feed, 3) == result
        assert (
            settlement_messages(seller_feed, 2) == result[1:]
        )  # the fill message already has "pending"
    assert [(each, status) for each, status, _ in result] == [
        (summary["id"], status) for status in ("pending", "submitted", "settled")
    ]
    tx = result[-1][-1]
    assert [hashed for *_, hashed in result] == [None, None, tx]
    receipt = server.ask("eth_getTransactionReceipt", tx)
    assert int(receipt["status"], 16) == 1
    [trade] = trades(server, 1)
    assert (trade["settlement"], trade["txHash"]) == ("settled", tx)
    repeated = server.http.post("/api/orders", json=body).json()
    assert repeated == {**first, "duplicate": True, "trades": [{**summary, "txHash": tx}]}


def test_both_trades_of_a_mint_have_one_transaction(server):
    yes, no = server.tokens()
    alice, bob = server.trader(), server.trader()
    server.placed(alice, BUY, 60, token=yes)
    server.placed(bob, BUY, 40, token=no)
    server.until_settled()
    first, second = trades(server, 2)
    assert {first["tokenId"], second["tokenId"]} == {str(yes), str(no)}
    assert [each["matchType"] for each in (first, second)] == ["mint", "mint"]
    assert [each["settlement"] for each in (first, second)] == ["settled", "settled"]
    assert first["txHash"] == second["txHash"] is not None


def trade_after_revocation(server):
    """Trade after the seller revoked its approval; return the trade and its messages.

    The trade may settle, or the order is rejected if the server sees the revocation in time.
    """
    buyer, seller = server.trader(), server.trader()
    with Connection(server.live) as connection:
        connection.send(type="subscribe", channel="settlement", maker=seller.address)
        server.placed(seller, SELL, 50)
        server.placed(buyer, BUY, 50, size=UNIT // 2)
        settlement_messages(connection, 3)
        server.allow_tokens(seller, False)
        if not server.place(buyer, BUY, 50, size=UNIT // 2).json().get("matched"):
            return None, None
        server.until_settled()
        return trades(server, 1)[0], settlement_messages(connection, 3)


def test_failed_trade_reports_its_reason(server):
    for _ in range(ATTEMPTS):
        trade, result = trade_after_revocation(server)
        if trade is not None and trade["settlement"] == "failed":
            break
    assert trade["settlement"] == "failed"
    assert trade["txHash"] is None
    assert trade["settlementReason"]
    assert result == [(trade["id"], status, None) for status in ("pending", "submitted", "failed")]


def test_trades_are_equal_after_a_restart(server, node, folder):
    server.until_settled()
    before = trades(server, 100)
    assert {each["settlement"] for each in before} <= {"settled", "failed"}
    assert server.live.stop() == 0
    with live_server(folder, chain=node.url, **SETTINGS) as live:
        after = live.http.get("/api/markets/rain/trades", params={"limit": 100}).json()
    assert after == before
