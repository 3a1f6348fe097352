"""A client of the user channel resumes: it gets every fill once, and its orders as they are."""

import random  # noqa: TID251 - seeded
import threading
import time

import pytest

from tests.server.feed.connection import BUY, MAKER, OTHER, SELL, Connection, Market
from tests.server.live import started

TOKEN = 10**18
RETRY_S = 0.5
ACTIONS = 12
OPEN = {"open", "partial"}


class Follower:
    """A maker that keeps its fills and open orders, over connections that end at any time."""

    def __init__(self, maker=MAKER):
        self.maker, self.fills, self.orders = maker, [], {}
        self.position, self.answers = None, []

    def subscribe(self, connection, **fields):
        request = {"type": "subscribe", "channel": "user", "maker": self.maker, "extended": True}
        if self.position is not None:
            request["resume"] = self.position
        connection.send(**request, **fields)

    def take(self, message):
        """Apply a message."""
        kind, data = message["type"], message.get("data")
        if kind == "subscribed":
            self.answers.append(message["resumed"])
            if self.position is not None and not message["resumed"]:
                self.read_missed(message["cursor"])
            self.epoch = message["epoch"]
        elif kind == "fill":
            self.fills.append(data)
            self.position = {"cursor": data["cursor"], "epoch": self.epoch}
        elif kind == "order":
            self.orders.pop(data["id"], None)
            if data["status"] in OPEN:
                self.orders[data["id"]] = data
        elif kind == "orders":
            self.orders = {each["id"]: each for each in data}
            self.position = {"cursor": message["cursor"], "epoch": self.epoch}

    def read_missed(self, until):
        """Read the fills up to a cursor over HTTP: they are too many to resume."""
        after = self.position["cursor"]
        found = fills_of(self.live, self.maker, after)
        self.fills += [each for each in found if place_in(each["cursor"]) <= place_in(until)]

    def follow(self, connection, count=None):
        """Read ``count`` messages, at most to the answer to a ping."""
        connection.send(type="ping")
        while count is None or count > 0:
            message = self.receive(connection)
            if message["type"] == "pong":
                return
            count = None if count is None else count - 1

    def catch_up(self, live):
        """Connect, and read until nothing is missing."""
        with Connection(live) as connection:
            self.subscribe(connection)
            while self.receive(connection)["type"] != "orders":
                pass
            self.follow(connection)

    def receive(self, connection):
        """Read a message, apply it, and return it; subscribe again while history is behind."""
        while (message := connection.receive())["type"] == "error":
            assert message["code"] == "RECOVERING", message
            time.sleep(RETRY_S)
            self.subscribe(connection)
        self.take(message)
        return message


def place_in(cursor):
    """Return the place in a cursor."""
    return int(cursor.partition("-")[2])


def fills_of(live, maker=MAKER, after="0-0"):
    """Return the fills of a maker after a cursor, oldest first."""
    found, query = [], {"maker": maker, "order": "asc", "limit": 500, "after": after}
    while True:
        response = live.http.get("/api/fills", params=query)
        assert response.status_code == 200, response.text
        found += response.json()
        if "x-next-cursor" not in response.headers:
            return found
        query["cursor"] = response.headers["x-next-cursor"]


def open_orders(live, maker=MAKER):
    """Return the open orders of a maker."""
    response = live.http.get("/api/orders", params={"maker": maker, "limit": 500})
    return {each["id"]: each for each in response.json()}


def test_a_fill_while_away_is_sent_once(live):
    market, follower = Market(live, TOKEN), Follower()
    sold = market.order(SELL, 40, 9)["orderId"]
    cancelled = market.order(SELL, 45, 2)["orderId"]
    follower.catch_up(live)
    for _ in range(3):
        market.order(BUY, 40, 2, maker=OTHER)
    market.cancel(cancelled)
    added = market.order(SELL, 50, 1)["orderId"]
    with Connection(live) as connection:
        follower.subscribe(connection, marketId=market.id)
        subscribed, *messages = connection.receive(6)
    assert (subscribed["resumed"], subscribed["cursor"]) == (True, messages[-1]["cursor"])
    kinds = [each["type"] for each in messages]
    assert kinds == ["fill", "fill", "fill", "order", "orders"]
    assert [each["data"]["remaining"] for each in messages[:3]] == [
        str(each * TOKEN) for each in (7, 5, 3)
    ]
    assert {each["data"]["orderId"] for each in messages[:3]} == {sold}
    finished = messages[3]["data"]
    assert (finished["id"], finished["status"]) == (cancelled, "cancelled")
    assert [each["id"] for each in messages[4]["data"]] == [sold, added]
    query = {"maker": MAKER, "marketId": market.id, "order": "asc"}
    query["after"] = follower.position["cursor"]
    assert live.http.get("/api/fills", params=query).json() == [m["data"] for m in messages[:3]]


@pytest.mark.parametrize(
    ("channel", "resume", "path"),
    [
        ("user", {"seq": 3}, "resume.seq"),
        ("user", {}, "resume.cursor"),
        ("user", {"cursor": "3"}, "resume.cursor"),
        ("user", {"cursor": "1-2", "seq": 3}, "resume.seq"),
        ("orderbook", {"cursor": "1-2"}, "resume.seq"),
    ],
)
def test_a_position_of_another_channel_is_rejected(live, channel, resume, path):
    market = Market(live, TOKEN)
    market.order(SELL, 40, 9)
    of = {"marketId": market.id} if channel == "orderbook" else {"maker": MAKER}
    with Connection(live) as connection:
        connection.send(type="subscribe", channel=channel, extended=True, resume=resume, **of)
        error = connection.receive()
    assert (error["type"], error["code"]) == ("error", "INVALID_FIELD")
    assert path in error["message"]


@pytest.mark.parametrize("position", [{"cursor": f"{10**15}-1"}, {"cursor": "0-1", "epoch": 7}])
def test_a_position_of_another_log_is_not_resumed(live, position):
    with Connection(live) as connection:
        fields = {"maker": "0x" + "7" * 40, "resume": position}
        connection.send(type="subscribe", channel="user", extended=True, **fields)
        subscribed, orders = connection.receive(2)
    assert (subscribed["resumed"], orders["type"]) == (False, "orders")


class Traffic(threading.Thread):
    """Random orders and cancels of two makers, while a client resumes."""

    def __init__(self, market, seed):
        super().__init__()
        self.market, self.rng = market, random.Random(seed)
        self.error = None

    def run(self):
        rng, mine = self.rng, []
        try:
            for _ in range(ACTIONS):
                if mine and rng.random() < 0.2:
                    self.cancel(mine.pop(rng.randrange(len(mine))))
                    continue
                maker = rng.choice((MAKER, MAKER, OTHER))
                side, price = rng.randrange(2), rng.randint(48, 52)
                placed = self.market.order(side, price, rng.randint(1, 5), maker=maker)
                if maker == MAKER:
                    mine.append(placed["orderId"])
        except Exception as error:
            self.error = error

    def cancel(self, order_id):
        """Cancel an order, which may be filled."""
        body = {"maker": MAKER}
        url = f"/api/orders/{order_id}"
        response = self.market.live.http.request("DELETE", url, json=body)
        assert response.status_code in (200, 409), response.text

    def end(self):
        self.join()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("history", ["process", "thread"])
def test_resumes_at_random_times_miss_and_repeat_no_fill(tmp_path, history):
    rng, follower = random.Random(len(history)), Follower()
    for turn in range(3):
        live = started(tmp_path, rate_limits=False, history=history)
        try:
            follower.live = live
            follower.catch_up(live)
            market = Market(live, TOKEN)
            for number in range(4):
                traffic = Traffic(market, 10 * turn + number)
                traffic.start()
                with Connection(live) as connection:
                    follower.subscribe(connection)
                    traffic.end()
                    follower.follow(connection, rng.randint(1, 20))
            follower.catch_up(live)
            assert follower.fills == fills_of(live)
            assert follower.orders == open_orders(live)
        finally:
            live.http.close()
            live.kill() if turn % 2 else live.stop()
            live.process.stdout.close()
    assert follower.fills
    assert any(follower.answers)
