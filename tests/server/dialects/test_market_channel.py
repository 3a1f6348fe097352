"""The market channel of the polymarket dialect: a plain WebSocket client against a real server."""

import hashlib
import json
import random  # noqa: TID251 - seeded, and outside the engine

import msgspec
import pytest
from websockets.exceptions import InvalidStatus

from clob.replay import backtest, open_stream
from tests.server.dialects.polymarket import HOUSE, Market, Socket, dialect_server
from tests.server.feed.connection import Stalled

BUYER = "0x00000000000000000000000000000000000000B2"
SIDES = ("BUY", "SELL")


@pytest.fixture
def pair(live):
    """A complementary market."""
    return Market(live, complementary=True)


def following(socket, *tokens):
    """Subscribe to tokens; return the books."""
    socket.send(assets_ids=tokens, type="market")
    return socket.news()


def book_of(market, token):
    """Return bids and asks as ``GET /book`` has them."""
    answer = market.live.http.get("/book", params={"token_id": token}).json()
    return {name: answer[name] for name in ("bids", "asks")}


class Mirror:
    """The books of a client that follows the channel."""

    def __init__(self):
        self.levels = {}
        self.hashes = {}
        self.market = ""
        self.time = ""

    def apply(self, messages):
        for message in messages:
            self.market, self.time = message["market"], message["timestamp"]
            if message["event_type"] == "book":
                self.replace(message)
            for change in message.get("price_changes", ()):
                self.change(change)

    def replace(self, book):
        """Check a whole book against the changes before it, and keep it."""
        token = book["asset_id"]
        before = self.book(token) if token in self.levels else None
        self.levels[token] = {
            (side, level["price"]): level["size"]
            for side, name in zip(SIDES, ("bids", "asks"), strict=True)
            for level in book[name]
        }
        assert before in (None, self.book(token))
        self.hashes[token] = book["hash"]

    def change(self, change):
        token = change["asset_id"]
        key = change["side"], change["price"]
        if token not in self.levels:
            return
        self.levels[token].pop(key, None)
        if change["size"] != "0":
            self.levels[token][key] = change["size"]
        self.hashes[token] = change["hash"]

    def book(self, token):
        """Return bids and asks, the best last."""
        rows = [
            [
                {"price": price, "size": size}
                for (each, price), size in self.levels[token].items()
                if each == side
            ]
            for side in SIDES
        ]
        bids = sorted(rows[0], key=lambda row: float(row["price"]))
        asks = sorted(rows[1], key=lambda row: -float(row["price"]))
        return {"bids": bids, "asks": asks}

    def hash(self, token):
        """Return the hash of a book, as the clients compute it."""
        head = {"market": self.market, "asset_id": token, "timestamp": self.time, "hash": ""}
        return hashlib.sha1(
            msgspec.json.encode(head | self.book(token)), usedforsecurity=False
        ).hexdigest()


def random_orders(market, seed, count):
    """Place and cancel orders of two makers; yield after each."""
    choose, resting = random.Random(seed), []
    for _ in range(count):
        if resting and choose.random() < 0.25:
            maker, order_id = resting.pop(choose.randrange(len(resting)))
            market.live.http.delete(f"/api/orders/{order_id}", params={"maker": maker})
        else:
            maker, token = choose.choice((HOUSE, BUYER)), choose.choice((market.yes, market.no))
            side, price = choose.randrange(2), choose.randrange(46, 55)
            size = choose.randrange(10_000, 12_000_001) / 10**6
            resting.append((maker, market.place(side, price, size, token, maker)))
        yield


def test_subscriber_receives_the_books_then_changes(live, market):
    market.place(0, 40, 10)
    with Socket(live, "market") as socket:
        yes, no = following(socket, market.yes, market.no)
        assert yes == {
            "event_type": "book",
            "market": yes["market"],
            "asset_id": market.yes,
            "timestamp": yes["timestamp"],
            "hash": yes["hash"],
            "bids": [{"price": "0.4", "size": "10"}],
            "asks": [],
        }
        assert (no["asset_id"], no["bids"], no["asks"]) == (market.no, [], [])
        market.place(0, 41, 2.5)
        [message] = socket.news()
        [change] = message["price_changes"]
        assert message | {"timestamp": "", "price_changes": []} == {
            "event_type": "price_change",
            "market": yes["market"],
            "timestamp": "",
            "price_changes": [],
        }
        assert change == {
            "asset_id": market.yes,
            "price": "0.41",
            "size": "2.5",
            "side": "BUY",
            "hash": change["hash"],
            "best_bid": "0.41",
            "best_ask": "1",
        }


def test_trade_is_followed_by_its_level_and_the_book(live, market):
    order_id = market.place(1, 60, 3)
    with Socket(live, "market") as socket:
        following(socket, market.yes)
        market.place(0, 62, 1, maker=BUYER)
        trade, change, book = socket.news()
        assert trade | {"timestamp": "", "market": ""} == {
            "event_type": "last_trade_price",
            "asset_id": market.yes,
            "price": "0.6",
            "side": "BUY",
            "size": "1",
            "fee_rate_bps": "0",
            "market": "",
            "timestamp": "",
        }
        [level] = change["price_changes"]
        assert (level["price"], level["size"], level["best_ask"]) == ("0.6", "2", "0.6")
        assert book["asks"] == [{"price": "0.6", "size": "2"}]
        assert book["hash"] == level["hash"]
        market.cancel(order_id)
        [change] = socket.news()
        [level] = change["price_changes"]
        assert (level["size"], level["best_bid"], level["best_ask"]) == ("0", "0", "1")


def test_mint_is_one_trade_that_changes_both_books(live, pair):
    pair.place(0, 60, 5, pair.yes)
    with Socket(live, "market") as socket:
        _, no = following(socket, pair.yes, pair.no)
        assert no["asks"] == [{"price": "0.4", "size": "5"}]
        pair.place(0, 40, 2, pair.no, BUYER)
        trade, change, *books = socket.news()
        assert (trade["asset_id"], trade["side"]) == (pair.no, "BUY")
        assert (trade["price"], trade["size"]) == ("0.4", "2")
        levels = [
            (row["asset_id"], row["side"], row["price"], row["size"])
            for row in change["price_changes"]
        ]
        assert levels == [(pair.yes, "BUY", "0.6", "3"), (pair.no, "SELL", "0.4", "3")]
        assert [book["asset_id"] for book in books] == [pair.yes, pair.no]


@pytest.mark.parametrize("complementary", [False, True])
def test_books_of_a_client_equal_those_of_the_server(live, complementary):
    market = Market(live, complementary=complementary)
    mirror = Mirror()
    with Socket(live, "market") as socket:
        mirror.apply(following(socket, market.yes, market.no))
        for _ in random_orders(market, seed=1, count=120):
            messages = socket.news()
            mirror.apply(messages)
            changed = messages[-1] if messages else {}
            for row in changed.get("price_changes", ()):
                assert mirror.hash(row["asset_id"]) == row["hash"]
        for token in (market.yes, market.no):
            assert mirror.book(token) == book_of(market, token)


@pytest.mark.parametrize("complementary", [False, True])
def test_recording_is_replayed_without_divergences(live, complementary, tmp_path):
    market = Market(live, complementary=complementary)
    dump = tmp_path / "dump.jsonl"
    with Socket(live, "market") as socket:
        messages = following(socket, market.yes, market.no)
        for _ in random_orders(market, seed=2, count=150):
            messages += socket.news()
            await_next_millisecond(live, messages[-1])
    dump.write_text("".join(json.dumps(message) + "\n" for message in messages))
    stream = open_stream(dump, format="polymarket", window_ns=0)
    result = backtest(stream)
    assert result.divergence.total == 0
    assert not stream.problems.counts
    assert not stream.problems.remarks
    assert sum(message["event_type"] == "last_trade_price" for message in messages) > 20


def await_next_millisecond(live, message):
    """Wait until later messages have another time: a reader combines those of one time."""
    while live.http.get("/api/time").json()["nowMs"] <= int(message["timestamp"]):
        pass


def test_tokens_are_added_and_ended_on_the_same_connection(live, market):
    with Socket(live, "market") as socket:
        [book] = following(socket, market.yes)
        assert book["asset_id"] == market.yes
        socket.send(assets_ids=[market.no], operation="subscribe")
        assert [each["asset_id"] for each in socket.news()] == [market.yes, market.no]
        socket.send(assets_ids=[market.yes], operation="unsubscribe")
        assert [each["asset_id"] for each in socket.news()] == [market.no]
        market.place(1, 70, 1)
        market.place(0, 70, 1, maker=BUYER)
        assert {each["event_type"] for each in socket.news()} == {"price_change"}
        socket.send(assets_ids=[market.no], operation="unsubscribe")
        market.place(1, 70, 1)
        assert socket.news() == []


def test_client_that_reads_slowly_receives_books_instead_of_changes(tmp_path):
    with dialect_server(tmp_path, ws_soft_bytes=2_000, ws_messages_per_minute=100_000) as live:
        market = Market(live)
        request = {"assets_ids": [market.yes], "type": "market"}
        stalled = Stalled(live, request, "/ws/market")
        with Socket(live, "market") as socket:
            mirror = Mirror()
            mirror.apply(following(socket, market.yes))
            count = 0
            while not is_behind(live):
                for _ in random_orders(market, seed=count, count=100):
                    mirror.apply(socket.news())
                count += 1
            expected = book_of(market, market.yes)
            assert mirror.book(market.yes) == expected
        late = Mirror()
        for head, payload in stalled.frames():
            if head == 0x81:
                message = msgspec.json.decode(payload)
                if message["event_type"] == "book":
                    late.levels.pop(market.yes, None)
                late.apply([message])
                if late.book(market.yes) == expected and late.time == mirror.time:
                    break
        stalled.socket.close()


def is_behind(live):
    """Return whether a client skips events."""
    text = live.http.get("/metrics").text
    return "clob_websockets_behind 0" not in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "INVALID_JSON: "),
        ("[1]", "INVALID_FIELD: the message must be a JSON object; got an array"),
        ('{"type": "user"}', "INVALID_FIELD: type must be market on this path"),
        ('{"operation": "stop"}', "INVALID_FIELD: operation must be subscribe or unsubscribe"),
        ('{"assets_ids": "1"}', "INVALID_FIELD: assets_ids must be an array of texts"),
        ('{"assets_ids": ["77"]}', 'UNKNOWN_MARKET: there is no order book of token "77"'),
    ],
)
def test_request_that_cannot_be_done_closes_the_connection(live, text, reason):
    with Socket(live, "market") as socket:
        socket.send_text(text)
        code, given = socket.closed()
        assert code == 1008
        assert given.startswith(reason)


def test_subscriptions_are_limited(tmp_path):
    with dialect_server(tmp_path, ws_subscriptions_max=1) as live:
        first, second = Market(live), Market(live)
        with Socket(live, "market") as socket:
            assert len(following(socket, first.yes, first.no)) == 2
            socket.send(assets_ids=[second.yes], operation="subscribe")
            assert socket.closed()[1].startswith("TOO_MANY_SUBSCRIPTIONS")


def test_server_without_the_dialect_has_no_channels(tmp_path):
    with dialect_server(tmp_path, dialect="none", chain_id=31337) as live:
        with pytest.raises(InvalidStatus) as caught, Socket(live, "market"):
            pass
        assert caught.value.response.status_code in (403, 404)
