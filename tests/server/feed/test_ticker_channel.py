"""The ticker channel: the newest state, a few times a second, and only if it changed."""

import asyncio

import pytest

from clob import AddMarket, Mode, RemoveMarket, SetMode
from clob_server.api.problems import ApiError
from tests.matchers import buy, market, sell
from tests.server.api.makers import good
from tests.server.feed.connection import BUY, MAKER, OTHER, SELL, Connection, Market
from tests.server.feed.harness import FeedHarness

PATIENCE_S = 60
TICKER = {"type": "subscribe", "channel": "ticker", "extended": True}


def ticker_of(live, market):
    """Request the ticker of a market, without its time."""
    body = good(live.http.get(f"/api/markets/{market.id}/ticker"))
    return {**body, "timestamp": 0}


def receive_ticker(connection):
    """Return the next ticker without its time."""
    message = connection.receive_until("ticker")[-1]
    assert (message["channel"], message["marketId"]) == ("ticker", message["data"]["marketId"])
    for name in ("seq", "timestamp"):
        assert message[name] == message["data"][name]
    return {**message["data"], "timestamp": 0}


def test_ticker_follows_the_subscription_and_each_change(live):
    traded = Market(live, 10**16)
    traded.order(SELL, 60, 5)
    with Connection(live) as connection:
        connection.send(**TICKER, marketId=traded.id, id=1)
        first = connection.receive()
        assert (first["type"], first["channel"], first["seq"]) == ("subscribed", "ticker", 1)
        assert receive_ticker(connection) == ticker_of(live, traded)
        for price, size in ((50, 1), (55, 2), (60, 3), (61, 9)):
            traded.order(BUY, price, size, maker=OTHER)
            assert receive_ticker(connection) == ticker_of(live, traded)
        connection.send(**TICKER | {"type": "unsubscribe"}, marketId=traded.id, id=2)
        assert connection.receive_until("unsubscribed")[-1]["id"] == 2


def test_newest_state_arrives_after_many_changes(live):
    traded = Market(live, 10**16)
    traded.order(SELL, 90, 500)
    with Connection(live) as connection:
        connection.send(**TICKER, marketId=traded.id)
        receive_ticker(connection)
        for number in range(40):
            traded.order(BUY, 10 + number, 1)
        wanted, seqs = ticker_of(live, traded), [0]
        while (found := receive_ticker(connection)) != wanted:
            seqs.append(found["seq"])
        assert sorted({*seqs, found["seq"]}) == [*seqs, found["seq"]]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"marketId": "none"}, "UNKNOWN_MARKET"),
        ({}, "INVALID_FIELD"),
        ({"marketId": "m", "maker": MAKER}, "INVALID_FIELD"),
        ({"marketId": "m", "tokenId": "1"}, "INVALID_FIELD"),
        ({"marketId": "m", "resume": {"seq": 1}}, "INVALID_FIELD"),
        ({"marketId": "m", "cancelOnDisconnect": True}, "INVALID_FIELD"),
    ],
)
def test_wrong_subscription_is_rejected(live, fields, code):
    with Connection(live) as connection:
        connection.send(**TICKER, **fields, id=7)
        error = connection.receive()
        assert (error["type"], error["code"], error["id"]) == ("error", code, 7)


# ----- without sockets -------------------------------------------------------------------------


def tickers(client):
    """Return the best bids of the tickers that arrived."""
    found = [each["data"]["yes"] for each in client.received() if each["type"] == "ticker"]
    return [each["bestBid"] and each["bestBid"]["price"] for each in found]


class Channel:
    """A harness whose task is stopped, so that the test decides when tickers are due."""

    def __init__(self, harness):
        self.harness, self.paced = harness, harness.feed.channels.paced

    async def subscribed(self, **options):
        """Connect a client that is subscribed to ``m``."""
        client = await self.harness.client(**options)
        await client.send(**TICKER, marketId="m")
        self.paced.close()
        self.paced.on_changes(["m"])
        return client

    @property
    def topic(self):
        """The ticker of ``m``."""
        return self.paced.topics["ticker", "m", ""]

    async def look(self):
        """Send what is due."""
        await self.paced.look()


@pytest.fixture
async def channel():
    async with asyncio.timeout(PATIENCE_S), FeedHarness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        yield Channel(harness)


async def test_only_a_changed_ticker_is_sent_and_only_the_newest(channel):
    client = await channel.subscribed()
    await channel.look()
    assert set(tickers(client)) == {None}
    for number in range(3):
        await channel.harness.apply(buy(f"b{number}", 50 + number, 5, now_ms=2))
    await channel.look()
    await channel.look()
    assert tickers(client) == [52]
    await channel.harness.apply(buy("deep", 40, 5, now_ms=2), sell("far", 90, 5, now_ms=2))
    await channel.look()
    assert tickers(client) == [52]  # the ask is new
    await channel.harness.apply(buy("deeper", 39, 5, now_ms=2))
    channel.harness.now_ms += 60_000
    await channel.look()
    assert tickers(client) == []


async def test_ticker_is_computed_for_events_and_for_each_minute(channel):
    await channel.subscribed()
    await channel.look()
    asked, ticker = [], channel.topic._ticker

    async def counted(name):
        asked.append(name)
        return await ticker(name)

    channel.topic._ticker = counted
    for now_ms, count in ((0, 0), (60_000, 1), (0, 1)):
        channel.harness.now_ms += now_ms
        await channel.look()
        assert len(asked) == count
    await channel.harness.apply(AddMarket(market=market("n"), now_ms=2))
    await channel.look()
    assert len(asked) == 1


async def test_slow_client_gets_the_newest_ticker_after_it_has_read(channel):
    client, other = await channel.subscribed(), await channel.subscribed()
    await channel.look()
    assert tickers(client), tickers(other)
    (member, _) = channel.topic.members.values()
    sink = member.subscriber.sink
    buffered, sink.buffered = sink.buffered, lambda: 10**9
    for price in (50, 51):
        await channel.harness.apply(buy(f"b{price}", price, 5, now_ms=2))
        await channel.look()
    sink.buffered = buffered
    await channel.look()
    await channel.look()
    assert tickers(client) == [51]
    assert tickers(other)[-2:] == [50, 51]


async def test_ticker_waits_for_history(channel):
    client = await channel.subscribed()
    await channel.look()
    tickers(client)
    ticker = channel.topic._ticker

    async def behind(name):
        raise ApiError("RECOVERING", "history is not complete")

    channel.topic._ticker = behind
    await channel.harness.apply(buy("b", 50, 5, now_ms=2))
    await channel.look()
    assert tickers(client) == []
    channel.topic._ticker = ticker
    await channel.look()
    assert tickers(client) == [50]


async def test_subscription_ends_with_the_market_or_the_connection(channel):
    client, other = await channel.subscribed(), await channel.subscribed()
    other.disconnect()
    await other.task
    assert len(channel.topic.members) == 1
    halt, remove = (
        SetMode(market="m", mode=Mode.RESOLVED, now_ms=3),
        RemoveMarket(market="m", now_ms=3),
    )
    await channel.harness.apply(halt, remove)
    last = client.received()[-1]
    assert (last["type"], last["channel"]) == ("unsubscribed", "ticker")
    assert last["reason"] == "market_removed"
    assert channel.paced.topics == {}


async def test_plain_client_is_closed(channel):
    client = await channel.harness.client()
    await client.send(**{**TICKER, "extended": False}, marketId="m")
    await client.task
    assert client.closed == 1008
