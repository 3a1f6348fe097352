"""Each sentence of the specification's "Events", against a running server (decisions 37, 38)."""

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.feed.book_reader import BookReader, book_in
from tests.server.feed.connection import BUY, MAKER, OTHER, SELL, Connection, Market

TOKEN = 10**18


def tokens(size):
    """Return a number of tokens as messages show it."""
    return str(size * TOKEN)


@pytest.fixture
def market(live):
    """A market with one sell order of ten tokens at 60."""
    made = Market(live, TOKEN)
    made.first = made.order(SELL, 60, 10)["orderId"]
    return made


@pytest.fixture
def connection(live):
    with Connection(live) as client:
        yield client


def kinds(messages):
    return [message["type"] for message in messages]


def test_real_time_updates_use_a_websocket_connection_to_ws_url(live, connection, market):
    assert live.ws_url.endswith("/ws")
    connection.subscribe(market)
    assert connection.receive()["type"] == "orderbook"


def test_subscribe_is_a_json_text_message_with_type_channel_and_market_id(connection, market):
    connection.send_text(f'{{"type":"subscribe","channel":"orderbook","marketId":"{market.id}"}}')
    message = connection.receive()
    assert (message["channel"], message["marketId"], message["tokenId"]) == (
        "orderbook", market.id, market.yes,
    )  # fmt: skip


def test_each_server_message_is_json_text_of_one_of_four_types(connection, market):
    connection.subscribe(market)
    connection.receive()
    market.order(BUY, 60, 4)
    market.order(BUY, 60, 6)
    market.cancel(market.order(BUY, 40, 3)["orderId"])
    market.order(SELL, 41, 5, token=market.no)
    messages = connection.receive_until("order_added", tokenId=market.no)
    assert all(isinstance(message["seq"], int) for message in messages)
    # the second token's book opens with its first order
    assert kinds(messages) == [
        "trade", "trade", "order_removed", "order_added", "order_removed", "orderbook",
        "order_added",
    ]  # fmt: skip


def test_orderbook_is_a_full_snapshot(connection, market):
    market.order(BUY, 40, 7)
    market.order(BUY, 40, 8)
    connection.subscribe(market)
    message, answer = connection.receive(), market.book()
    names = ("bids", "asks", "lastUpdate", "checksum")
    assert message["data"] == {name: answer[name] for name in names}
    assert message["seq"] == answer["seq"] == 3
    level = {"price": 40, "size": tokens(15), "numOrders": 2, "orders": 2}
    assert message["data"]["bids"] == [level]


def test_order_added_is_a_new_order_in_the_book(connection, market):
    connection.subscribe(market)
    connection.receive()
    made = market.order(BUY, 40, 7)
    message = connection.receive()
    assert message["type"] == "order_added"
    assert message["data"] == {
        "orderId": made["orderId"],
        "side": 0,
        "price": 40,
        "size": tokens(7),
    }


def test_order_added_has_the_remainder_after_its_trades(connection, market):
    connection.subscribe(market)
    connection.receive()
    made = market.order(BUY, 61, 25)
    messages = connection.receive(3)
    assert kinds(messages) == ["trade", "order_removed", "order_added"]
    assert messages[2]["data"] == {
        "orderId": made["orderId"],
        "side": 0,
        "price": 61,
        "size": tokens(15),
    }


def test_order_removed_is_an_order_cancelled(connection, market):
    connection.subscribe(market)
    connection.receive()
    market.cancel(market.first)
    message = connection.receive()
    assert message["type"] == "order_removed"
    assert message["data"] == {
        "orderId": market.first, "side": 1, "price": 60, "size": tokens(10), "reason": "cancelled",
    }  # fmt: skip


def test_order_removed_is_an_order_filled(connection, market):
    connection.subscribe(market)
    connection.receive()
    market.order(BUY, 60, 10)
    _, message = connection.receive(2)
    assert message["type"] == "order_removed"
    assert message["data"] == {
        "orderId": market.first, "side": 1, "price": 60, "size": "0", "reason": "filled",
    }  # fmt: skip


def test_trade_is_a_trade_executed(live, connection, market):
    connection.subscribe(market)
    connection.receive()
    made = market.order(BUY, 65, 4, maker=OTHER)
    message = connection.receive()
    [trade] = live.http.get(f"/api/markets/{market.id}/trades").json()
    assert message["type"] == "trade"
    assert message["data"].items() >= trade.items()
    assert (trade["id"], trade["price"]) == (made["trades"][0]["id"], 60)
    assert (trade["buyer"], trade["seller"]) == (OTHER, MAKER)
    assert message["data"]["restingOrderId"] == market.first
    assert message["data"]["incomingOrderId"] == made["orderId"]
    assert (message["data"]["restingRemaining"], message["data"]["incomingRemaining"]) == (
        tokens(6),
        "0",
    )


def test_every_message_has_the_fields_of_decision_37_and_seq_increases_by_one(connection, market):
    connection.subscribe(market)
    first = connection.receive()
    for number in range(5):
        market.order(BUY, 40, 5 + number)
    messages = [first, *connection.receive(5)]
    fields = ["type", "channel", "marketId", "tokenId", "seq", "timestamp", "data"]
    assert all(list(message) == fields for message in messages)
    assert [message["seq"] for message in messages] == [1, 2, 3, 4, 5, 6]


def test_other_markets_are_not_sent(live, connection, market):
    other = Market(live, TOKEN)
    other.order(SELL, 60, 5)
    connection.subscribe(market)
    connection.receive()
    other.order(SELL, 61, 5)
    market.order(BUY, 40, 5)
    assert connection.receive()["marketId"] == market.id


def test_one_connection_may_have_several_subscriptions(live, connection, market):
    other = Market(live, TOKEN)
    other.order(SELL, 60, 5)
    for each in (market, other):
        connection.subscribe(each)
        connection.receive()
    other.order(SELL, 61, 5)
    market.order(BUY, 40, 5)
    assert [message["marketId"] for message in connection.receive(2)] == [other.id, market.id]


def test_extended_client_receives_unsubscribed_heartbeat_and_error(connection, market):
    connection.subscribe(market, extended=True)
    assert kinds(connection.receive(2)) == ["subscribed", "orderbook"]
    beat = connection.receive()
    assert (beat["type"], beat["marketId"], beat["seq"]) == ("heartbeat", market.id, 1)
    connection.send(type="subscribe", channel="settlement")
    assert connection.receive_until("error")[-1]["code"] == "CHAIN_NOT_CONFIGURED"
    connection.send(type="unsubscribe", channel="orderbook", marketId=market.id)
    connection.receive_until("unsubscribed")
    connection.send_text("PING")
    assert connection.receive_text() == "PONG"


def test_client_resumes_without_a_gap(live, connection, market):
    connection.subscribe(market)
    seq = connection.receive()["seq"]
    market.order(BUY, 40, 5)
    market.order(BUY, 41, 5)
    with Connection(live) as again:
        again.subscribe(market, extended=True, resume={"seq": seq})
        subscribed, *messages = again.receive(3)
        assert subscribed["resumed"] is True
        assert messages == connection.receive(2)


def test_user_channel_sends_orders_and_fills(connection, market):
    connection.send(type="subscribe", channel="user", maker=MAKER, marketId=market.id)
    orders = connection.receive()
    assert [order["id"] for order in orders["data"]] == [market.first]
    market.order(BUY, 60, 4, maker=OTHER)
    fill, order = connection.receive(2)
    assert (fill["type"], fill["data"]["remaining"]) == ("fill", tokens(6))
    assert (order["type"], order["data"]["status"]) == ("order", "partial")


def test_invalid_message_closes_a_plain_client_with_1008(connection):
    connection.send_text("what?")
    with pytest.raises(ConnectionClosed) as closed:
        connection.receive()
    assert closed.value.rcvd.code == 1008


def test_oversized_message_closes_with_1009(connection):
    connection.send(type="ping", id="x" * 80_000)
    with pytest.raises(ConnectionClosed) as closed:
        connection.receive()
    assert closed.value.rcvd.code == 1009


def test_rebuilt_books_equal_the_orderbook_endpoint(live, connection, market):
    connection.subscribe(market)
    reader = BookReader()
    reader.apply([connection.receive()])
    for number in range(60):
        made = market.order(number % 2, 45 + number * 7 % 11, 5 + number % 5)
        if number % 4 == 0 and not made["matched"]:
            market.cancel(made["orderId"])
        book = market.book()
        while reader.seq < book["seq"]:
            reader.apply([connection.receive()])
        assert reader.book(market.yes) == book_in(book)
    assert min(reader.counts[kind] for kind in ("trade", "order_removed")) > 5
