"""The candles channel: each changed candle, equal to the trades at the number of its message."""

import asyncio
import random  # noqa: TID251 - seeded
import typing

import pytest

from clob import AddMarket, Mode, RemoveMarket, SetMode
from clob_server.api.problems import ApiError
from clob_server.feed.session import Interval
from clob_server.history.candles import INTERVALS_MS
from tests.matchers import buy, market, sell
from tests.server.api.makers import good
from tests.server.feed.connection import BUY, MAKER, OTHER, SELL, Connection, Market
from tests.server.feed.harness import Client, EchoOperations, run_loop
from tests.server.history.test_candles import candles_from
from tests.server.history.test_ticker import SIZE, Exchange

CANDLES = {"type": "subscribe", "channel": "candles", "extended": True}
PATIENCE_S = 120
X = market("x", complementary=True, lot_wei=100, yes="201", no="202")


def candles_of(live, name, token, interval, **query):
    """Request candles of a token."""
    params = {"tokenId": token, "interval": interval, **query}
    return good(live.http.get(f"/api/markets/{name}/candles", params=params))


def receive_at(connection, seq):
    """Return the candles messages up to the one at a number."""
    messages = [connection.receive()]
    while messages[-1]["seq"] < seq:
        messages.append(connection.receive())
    for each in messages:
        assert (each["type"], each["channel"]) == ("candles", "candles")
        for name in ("marketId", "tokenId"):
            assert each[name] == each["data"][name]
    return messages


def seq_of(live, traded):
    """Return the number of the last event of a market."""
    return good(live.http.get(f"/api/markets/{traded.id}/orderbook"))["seq"]


def test_candles_follow_the_subscription_and_equal_those_over_http(live):
    traded = Market(live, 10**16)
    traded.order(SELL, 60, 50)
    with Connection(live) as connection:
        connection.send(**CANDLES, marketId=traded.id, tokenId=traded.yes, interval="1d", id=1)
        first = connection.receive()
        assert (first["type"], first["channel"], first["seq"]) == ("subscribed", "candles", 1)
        assert (first["interval"], first["tokenId"]) == ("1d", traded.yes)
        (empty,) = receive_at(connection, 1)
        assert empty["data"] == candles_of(live, traded.id, traded.yes, "1d")
        assert empty["data"]["candles"] == []
        for size in (1, 2, 3):
            traded.order(BUY, 60, size, maker=OTHER)
            last = receive_at(connection, seq_of(live, traded))[-1]
            assert last["data"] == candles_of(live, traded.id, traded.yes, "1d", limit=1)
    traded.order(SELL, 60, 50, token=traded.no)
    with Connection(live) as connection:
        connection.send(**CANDLES, marketId=traded.id, interval="1h")
        connection.receive()
        found = {each["tokenId"]: each["data"] for each in connection.receive(2)}
        for token in (traded.yes, traded.no):
            assert found[token] == candles_of(live, traded.id, token, "1h", limit=1)
        traded.order(BUY, 60, 4, maker=OTHER)
        last = receive_at(connection, seq_of(live, traded))[-1]
        assert last["data"] == candles_of(live, traded.id, traded.yes, "1h", limit=1)


def test_subscriptions_of_a_market_differ_by_interval_and_token(live):
    traded = Market(live, 10**16)
    traded.order(SELL, 60, 50)
    with Connection(live) as connection:
        for interval in ("1m", "5m"):
            connection.send(**CANDLES, marketId=traded.id, tokenId=traded.yes, interval=interval)
        connection.receive(4)
        gone = {**CANDLES, "type": "unsubscribe", "marketId": traded.id, "interval": "1m"}
        connection.send(**gone, id=1)  # both tokens: another subscription
        connection.send(**gone, tokenId=traded.yes, id=2)
        for number in (1, 2):
            message = connection.receive_until("unsubscribed")[-1]
            assert (message["id"], message["interval"]) == (number, "1m")
        traded.order(BUY, 60, 4, maker=OTHER)
        messages = receive_at(connection, seq_of(live, traded))
        assert {each["data"]["interval"] for each in messages} == {"5m"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"marketId": "none", "interval": "1m"}, "UNKNOWN_MARKET"),
        ({"interval": "1m"}, "INVALID_FIELD"),
        ({"marketId": "m"}, "INVALID_FIELD"),
        ({"marketId": "m", "interval": "2m"}, "INVALID_FIELD"),
        ({"marketId": "m", "interval": "1m", "maker": MAKER}, "INVALID_FIELD"),
        ({"marketId": "m", "interval": "1m", "resume": {"seq": 1}}, "INVALID_FIELD"),
        ({"marketId": "m", "interval": "1m", "extended": False}, "INVALID_FIELD"),
        ({"marketId": "m", "channel": "ticker", "interval": "1m"}, "INVALID_FIELD"),
    ],
)
def test_wrong_subscription_is_rejected(live, fields, code):
    with Connection(live) as connection:
        connection.send(**CANDLES | {"type": "ping"})
        connection.receive()
        connection.send(**CANDLES | fields, id=7)
        if fields.get("extended", True):
            error = connection.receive()
            assert (error["type"], error["code"], error["id"]) == ("error", code, 7)


def test_token_of_another_market_is_rejected(live):
    traded = Market(live, 10**16)
    traded.order(SELL, 60, 5)
    with Connection(live) as connection:
        connection.send(**CANDLES, marketId=traded.id, interval="1m", tokenId="77")
        assert connection.receive()["code"] == "TOKEN_NOT_IN_MARKET"


def test_intervals_are_those_of_http():
    assert typing.get_args(Interval) == tuple(INTERVALS_MS)


# ----- without sockets -------------------------------------------------------------------------


class Follower:
    """A client of the candles of ``x``, with a task that is stopped: the test decides when to look.

    It checks each message against the trades up to its number.
    """

    def __init__(self, exchange, interval, token=None, **options):
        self.exchange, self.interval, self.token = exchange, interval, token
        headers = [(b"host", b"localhost")]
        feed = exchange.server.service.feed
        feed.operations = EchoOperations()
        self.client = Client(feed, headers=headers, **options)
        self.candles, self.num_messages, self.seqs = {}, 0, []

    @property
    def paced(self):
        return self.exchange.server.service.feed.channels.paced

    async def subscribe(self):
        """Subscribe; stop the task that looks."""
        fields = {} if self.token is None else {"tokenId": self.token}
        await self.client.send(**CANDLES, marketId="x", interval=self.interval, **fields)
        self.paced.close()
        self.paced.on_changes(["x"])

    def check(self):
        """Check the messages that were read."""
        for message in self.client.received("candles"):
            self.num_messages += 1
            self.seqs.append(message["seq"])
            found = message["data"]["candles"]
            expected = self.expected(message["tokenId"], message["seq"])
            assert found == [expected[each["timestamp"]] for each in found]
            for each in found:
                self.candles[message["tokenId"], each["timestamp"]] = each
        assert self.seqs == sorted(self.seqs)

    def expected(self, token, seq):
        """Return the candles of the trades up to a number, by begin."""
        trades = [(trade, now_ms) for trade, now_ms in self.exchange.trades if trade.seq <= seq]
        return {
            each.start_ms: {
                "timestamp": each.start_ms,
                "open": each.open,
                "high": each.high,
                "low": each.low,
                "close": each.close,
                "volume": str(each.volume),
                "numTrades": each.num_trades,
            }
            for each in candles_from(trades, INTERVALS_MS[self.interval], token)
        }

    def check_all(self, begin_ms):
        """Check that no candle from a time on is missing."""
        for token in ("201", "202") if self.token is None else (self.token,):
            expected = self.expected(token, 2**60)
            assert expected
            for start_ms, candle in expected.items():
                if start_ms >= begin_ms:
                    assert self.candles[token, start_ms] == candle


@pytest.fixture(params=["thread", "process"])
def mode(request):
    return request.param


async def test_candles_equal_the_trades_at_each_message_for_quick_and_slow_clients(tmp_path, mode):
    exchange, rng = Exchange(), random.Random(3)
    async with asyncio.timeout(PATIENCE_S):
        for part in range(3):
            async with exchange.running(tmp_path, history=mode) as exchange.server:
                if not part:
                    await exchange.apply(AddMarket(market=X, now_ms=0))
                followers = [
                    Follower(exchange, "1m"),
                    Follower(exchange, "1m", reads=False),
                    Follower(exchange, "1h", "202"),
                    Follower(exchange, "1d", "201", reads=False),
                ]
                await follow(exchange, rng, followers, part)
                for each in followers:
                    each.client.disconnect()
                    await each.client.task


async def follow(exchange, rng, followers, part):
    """Trade, and look at random times, also while commands are executed."""
    begin_ms = exchange.now_ms
    for each in followers:
        await each.subscribe()
    paced = followers[0].paced

    def read(follower):
        follower.client.read_all()
        follower.check()

    await paced.look()
    for number in range(60):
        exchange.now_ms += int(10 ** rng.uniform(0, 6))
        make, price = rng.choice((buy, sell)), rng.randint(45, 55)
        size, token = SIZE + 100 * rng.randint(1, 9), rng.choice((X.yes, X.no))
        order = make(f"o{part}-{number}", price, size, token=token, market="x")
        if rng.random() < 0.3:
            await asyncio.gather(exchange.apply(order), paced.look())
        else:
            await exchange.apply(order)
            if rng.random() < 0.5:
                await paced.look()
        if rng.random() < 0.2:
            read(rng.choice(followers))
    await paced.look()
    while paced.due:  # a client or history is behind
        for each in followers:
            read(each)
        await paced.look()
    for each in followers:
        read(each)
        each.check_all(begin_ms)
        assert each.num_messages > 5


class Channel:
    """A service with the market ``x`` and a client whose looks the test decides."""

    def __init__(self, exchange):
        self.exchange = exchange

    async def subscribed(self, **options):
        """Return a follower."""
        follower = Follower(self.exchange, "1m", "201", **options)
        await follower.subscribe()
        self.topic = follower.paced.topics["candles", "x", "1m 201"]
        return follower

    async def look(self):
        """Send what is due; return whether the candles were read."""
        asked, read = [], self.topic._candles

        async def counted(*arguments):
            asked.append(arguments)
            return await read(*arguments)

        self.topic._candles = counted
        await self.exchange.server.service.feed.channels.paced.look()
        self.topic._candles = read
        return bool(asked)


@pytest.fixture
async def channel(tmp_path):
    exchange = Exchange()
    async with asyncio.timeout(PATIENCE_S), exchange.running(tmp_path) as exchange.server:
        await exchange.apply(AddMarket(market=X, now_ms=0))
        yield Channel(exchange)


async def test_candles_are_read_after_trades_only(channel):
    follower = await channel.subscribed()
    assert [await channel.look(), await channel.look()] == [True, False]
    await channel.exchange.apply(sell("s", 60, SIZE, token="201", market="x"))
    assert not await channel.look()
    await channel.exchange.apply(buy("b", 60, SIZE // 2, token="201", market="x"))
    assert await channel.look()
    follower.check()
    assert follower.num_messages == 2


async def test_slow_client_gets_each_candle_once_after_it_has_read(channel):
    follower, other = await channel.subscribed(), await channel.subscribed()
    await channel.look()
    follower.check()
    (member, _) = channel.topic.members.values()
    sink = member.subscriber.sink
    buffered, sink.buffered = sink.buffered, lambda: 10**9
    for number in range(4):
        channel.exchange.now_ms += 45_000
        await channel.exchange.trade(number, price=50 + number, token="201")
        await channel.look()
    follower.check()
    assert follower.num_messages == 1
    sink.buffered = buffered
    await channel.look()
    assert not await channel.look()
    follower.check()
    other.check()
    assert (follower.num_messages, other.num_messages) == (2, 5)
    assert follower.candles == other.candles
    assert len(follower.candles) > 1


async def test_candles_wait_for_history(channel):
    follower = await channel.subscribed()
    await channel.look()
    read = channel.topic._candles

    async def behind(*arguments):
        raise ApiError("RECOVERING", "history is not complete")

    channel.topic._candles = behind
    await channel.exchange.trade(1, token="201")
    await channel.look()
    follower.check()
    assert follower.num_messages == 1
    channel.topic._candles = read
    await channel.look()
    follower.check()
    assert follower.num_messages == 2


async def test_subscription_ends_with_the_market_or_the_connection(channel):
    follower, other = await channel.subscribed(), await channel.subscribed()
    other.client.disconnect()
    await other.client.task
    assert len(channel.topic.members) == 1
    await channel.exchange.apply(SetMode(market="x", mode=Mode.RESOLVED, now_ms=0))
    await channel.exchange.apply(RemoveMarket(market="x", now_ms=0))
    await run_loop()
    last = follower.client.received()[-1]
    assert (last["type"], last["channel"], last["reason"]) == (
        "unsubscribed", "candles", "market_removed",
    )  # fmt: skip
    assert (last["interval"], last["tokenId"]) == ("1m", "201")
    assert follower.paced.topics == {}
