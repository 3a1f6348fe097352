"""The specification's "Events", each sentence against a server that runs (decisions 37, 38)."""

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.feed.readers import BookReader, book_in
from tests.server.feed.talk import BUY, MAKER, OTHER, SELL, Market, Talk


@pytest.fixture
def market(live):
    """A market in which one order of ten tokens is for sale at 60."""
    made = Market(live)
    made.first = made.order(SELL, 60, 10)["orderId"]
    return made


@pytest.fixture
def talk(live):
    with Talk(live) as client:
        yield client


def kinds(messages):
    return [message["type"] for message in messages]


def test_real_time_updates_use_a_websocket_connection_to_ws_url(live, talk, market):
    assert live.ws_url.endswith("/ws")
    talk.subscribe(market)
    assert talk.hear()["type"] == "orderbook"


def test_subscribe_is_a_json_text_message_with_type_channel_and_market_id(talk, market):
    talk.say_text(f'{{"type":"subscribe","channel":"orderbook","marketId":"{market.id}"}}')
    told = talk.hear()
    assert (told["channel"], told["marketId"], told["tokenId"]) == (
        "orderbook", market.id, market.yes,
    )  # fmt: skip


def test_each_server_message_is_json_text_of_one_of_four_types(talk, market):
    talk.subscribe(market)
    talk.hear()
    market.order(BUY, 60, 4)
    market.order(BUY, 60, 6)
    market.cancel(market.order(BUY, 40, 3)["orderId"])
    market.order(SELL, 41, 5, token=market.no)
    told = talk.hears_nothing_but("order_added", tokenId=market.no)
    assert all(isinstance(message["seq"], int) for message in told)
    # The second token has a book from its first order on.
    assert kinds(told) == [
        "trade", "trade", "order_removed", "order_added", "order_removed", "orderbook",
        "order_added",
    ]  # fmt: skip


def test_orderbook_is_a_full_snapshot(talk, market):
    market.order(BUY, 40, 7)
    market.order(BUY, 40, 8)
    talk.subscribe(market)
    told, answer = talk.hear(), market.book()
    assert told["data"] == {name: answer[name] for name in ("bids", "asks", "lastUpdate")}
    assert told["seq"] == answer["seq"] == 3
    level = {"price": 40, "size": "15", "numOrders": 2, "orders": 2}
    assert told["data"]["bids"] == [level]


def test_order_added_is_a_new_order_in_the_book(talk, market):
    talk.subscribe(market)
    talk.hear()
    made = market.order(BUY, 40, 7)
    told = talk.hear()
    assert told["type"] == "order_added"
    assert told["data"] == {"orderId": made["orderId"], "side": 0, "price": 40, "size": "7"}


def test_order_added_has_what_is_left_after_its_trades(talk, market):
    talk.subscribe(market)
    talk.hear()
    made = market.order(BUY, 61, 25)
    told = talk.hear(3)
    assert kinds(told) == ["trade", "order_removed", "order_added"]
    assert told[2]["data"] == {"orderId": made["orderId"], "side": 0, "price": 61, "size": "15"}


def test_order_removed_is_an_order_cancelled(talk, market):
    talk.subscribe(market)
    talk.hear()
    market.cancel(market.first)
    told = talk.hear()
    assert told["type"] == "order_removed"
    assert told["data"] == {
        "orderId": market.first, "side": 1, "price": 60, "size": "10", "reason": "cancelled",
    }  # fmt: skip


def test_order_removed_is_an_order_filled(talk, market):
    talk.subscribe(market)
    talk.hear()
    market.order(BUY, 60, 10)
    _, told = talk.hear(2)
    assert told["type"] == "order_removed"
    assert told["data"] == {
        "orderId": market.first, "side": 1, "price": 60, "size": "0", "reason": "filled",
    }  # fmt: skip


def test_trade_is_a_trade_executed(live, talk, market):
    talk.subscribe(market)
    talk.hear()
    made = market.order(BUY, 65, 4, maker=OTHER)
    told = talk.hear()
    [trade] = live.http.get(f"/api/markets/{market.id}/trades").json()
    assert told["type"] == "trade"
    assert told["data"].items() >= trade.items()
    assert (trade["id"], trade["price"]) == (made["trades"][0]["id"], 60)
    assert (trade["buyer"], trade["seller"]) == (OTHER, MAKER)
    assert told["data"]["restingOrderId"] == market.first
    assert told["data"]["incomingOrderId"] == made["orderId"]
    assert (told["data"]["restingRemaining"], told["data"]["incomingRemaining"]) == ("6", "0")


def test_every_message_has_the_fields_of_decision_37_and_seq_rises_by_one(talk, market):
    talk.subscribe(market)
    first = talk.hear()
    for number in range(5):
        market.order(BUY, 40, 5 + number)
    told = [first, *talk.hear(5)]
    fields = ["type", "channel", "marketId", "tokenId", "seq", "timestamp", "data"]
    assert all(list(message) == fields for message in told)
    assert [message["seq"] for message in told] == [1, 2, 3, 4, 5, 6]


def test_nothing_is_told_of_another_market(live, talk, market):
    other = Market(live)
    other.order(SELL, 60, 5)
    talk.subscribe(market)
    talk.hear()
    other.order(SELL, 61, 5)
    market.order(BUY, 40, 5)
    assert talk.hear()["marketId"] == market.id


def test_one_connection_may_have_several_subscriptions(live, talk, market):
    other = Market(live)
    other.order(SELL, 60, 5)
    for each in (market, other):
        talk.subscribe(each)
        talk.hear()
    other.order(SELL, 61, 5)
    market.order(BUY, 40, 5)
    assert [message["marketId"] for message in talk.hear(2)] == [other.id, market.id]


def test_unsubscribe_heartbeat_and_errors_are_told_to_an_extended_client(talk, market):
    talk.subscribe(market, extended=True)
    assert kinds(talk.hear(2)) == ["subscribed", "orderbook"]
    beat = talk.hear()
    assert (beat["type"], beat["marketId"], beat["seq"]) == ("heartbeat", market.id, 1)
    talk.say(type="subscribe", channel="settlement")
    assert talk.hears_nothing_but("error")[-1]["code"] == "CHAIN_NOT_CONFIGURED"
    talk.say(type="unsubscribe", channel="orderbook", marketId=market.id)
    talk.hears_nothing_but("unsubscribed")
    talk.say_text("PING")
    assert talk.hear_text() == "PONG"


def test_a_client_goes_on_where_he_was(live, talk, market):
    talk.subscribe(market)
    seq = talk.hear()["seq"]
    market.order(BUY, 40, 5)
    market.order(BUY, 41, 5)
    with Talk(live) as again:
        again.subscribe(market, extended=True, resume={"seq": seq})
        subscribed, *told = again.hear(3)
        assert subscribed["resumed"] is True
        assert told == talk.hear(2)


def test_the_user_channel_tells_a_maker_of_his_orders_and_fills(talk, market):
    talk.say(type="subscribe", channel="user", maker=MAKER, marketId=market.id)
    orders = talk.hear()
    assert [order["id"] for order in orders["data"]] == [market.first]
    market.order(BUY, 60, 4, maker=OTHER)
    fill, order = talk.hear(2)
    assert (fill["type"], fill["data"]["remaining"]) == ("fill", "6")
    assert (order["type"], order["data"]["status"]) == ("order", "partial")


def test_what_cannot_be_understood_closes_a_plain_client_with_1008(talk):
    talk.say_text("what?")
    with pytest.raises(ConnectionClosed) as closed:
        talk.hear()
    assert closed.value.rcvd.code == 1008


def test_a_message_that_is_too_big_closes_with_1009(talk):
    talk.say(type="ping", id="x" * 20_000)
    with pytest.raises(ConnectionClosed) as closed:
        talk.hear()
    assert closed.value.rcvd.code == 1009


def test_books_kept_from_the_stream_are_those_of_the_orderbook_endpoint(live, talk, market):
    talk.subscribe(market)
    reader = BookReader()
    reader.take([talk.hear()])
    for number in range(60):
        made = market.order(number % 2, 45 + number * 7 % 11, 5 + number % 5)
        if number % 4 == 0 and not made["matched"]:
            market.cancel(made["orderId"])
        told = market.book()
        while reader.seq < told["seq"]:
            reader.take([talk.hear()])
        assert reader.book(market.yes) == book_in(told)
    assert min(reader.counts[kind] for kind in ("trade", "order_removed")) > 5
