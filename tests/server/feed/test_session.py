"""Requests of clients, their responses and errors."""

from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from clob import AddMarket, CancelAll, SetMarket
from clob.signing import ZERO_ADDRESS
from clob_server.feed import session
from tests.matchers import buy, market, sell
from tests.server.feed.book_reader import BookReader, checksum_of
from tests.server.feed.harness import FeedHarness, run_loop, until


def numbered(name="m", yes=101, **fields):
    """Return a market whose tokens are numbers, as on a chain."""
    return market(name, **({"yes": f"{yes}", "no": f"{yes + 1}"} | fields))


def kinds(messages):
    return [message["type"] for message in messages]


@asynccontextmanager
async def running_market(**settings):
    """Run a feed with one market for the block."""
    async with FeedHarness(**settings) as harness:
        await harness.apply(AddMarket(market=numbered("m"), now_ms=1))
        yield harness


async def test_plain_subscribe_receives_snapshot_per_token_then_events():
    async with running_market() as harness:
        await harness.apply(sell("a", 60, 5, token="101", now_ms=2))
        client = await harness.client()
        await client.subscribe()
        first, second = client.received()
        assert (first["tokenId"], second["tokenId"]) == ("101", "102")
        assert first["seq"] == second["seq"] == 1
        asks = [{"price": 60, "size": "5", "numOrders": 1, "orders": 1}]
        checksum = checksum_of({(1, 60): 5})
        data = {"bids": [], "asks": asks, "lastUpdate": 2, "checksum": checksum}
        assert first["data"] == data
        await harness.apply(
            buy("b", 60, 2, token="101", now_ms=3), buy("c", 40, 7, token="102", now_ms=3)
        )
        trade, added = client.received()
        assert (trade["type"], trade["seq"], trade["timestamp"]) == ("trade", 2, 3)
        assert trade["data"]["restingRemaining"] == "3"
        assert trade["data"]["incomingRemaining"] == "0"
        assert added == {
            "type": "order_added",
            "channel": "orderbook",
            "marketId": "m",
            "tokenId": "102",
            "seq": 3,
            "timestamp": 3,
            "data": {"orderId": "c", "side": 0, "price": 40, "size": "7"},
        }
        await harness.apply(CancelAll(market="m", now_ms=4))
        gone, _ = client.received("order_removed")
        assert gone["data"] == {
            "orderId": "a",
            "side": 1,
            "price": 60,
            "size": "3",
            "reason": "admin",
        }


async def test_extended_subscribe_is_confirmed_with_its_id():
    async with running_market() as harness:
        client = await harness.client()
        for given in (7, "seven"):
            await client.subscribe(extended=True, id=given)
            messages = client.received()
            assert kinds(messages) == ["subscribed", "orderbook", "orderbook"]
            assert messages[0]["id"] == given
            assert messages[0]["resumed"] is False
        await client.send(type="unsubscribe", channel="orderbook", marketId="m", id=8)
        [over] = client.received()
        assert (over["type"], over["marketId"], over["id"]) == ("unsubscribed", "m", 8)
        await harness.apply(sell("a", 60, 5, token="101", now_ms=2))
        assert client.received() == []


async def test_plain_unsubscribe_has_no_response():
    async with running_market() as harness:
        client = await harness.client()
        await client.subscribe()
        client.received()
        await client.send(type="unsubscribe", channel="orderbook", marketId="m")
        await harness.apply(sell("a", 60, 5, token="101", now_ms=2))
        assert client.received() == []
        assert client.closed is None


@pytest.mark.parametrize("given", ["102", "0x66", 102])
async def test_subscription_to_one_token(given):
    async with running_market() as harness:
        client = await harness.client()
        await client.subscribe(tokenId=given, extended=True)
        assert kinds(client.received()) == ["subscribed", "orderbook"]
        await harness.apply(
            sell("a", 60, 5, token="101", now_ms=2), sell("b", 61, 5, token="102", now_ms=2)
        )
        [added] = client.received()
        assert (added["tokenId"], added["seq"]) == ("102", 2)


async def test_reconnected_client_resumes():
    async with running_market() as harness:
        await harness.apply(*(sell(f"a{n}", 60, 5, token="101", now_ms=2) for n in range(250)))
        client = await harness.client()
        await client.subscribe(extended=True, resume={"seq": 50})
        messages = client.received()
        assert (messages[0]["resumed"], messages[0]["seq"]) == (True, 250)
        assert [message["seq"] for message in messages[1:]] == list(range(51, 251))
        await client.subscribe(extended=True, resume={"seq": 250})
        assert kinds(client.received()) == ["subscribed"]


@pytest.mark.parametrize("seq", [-1, 3, 2**63])
async def test_resume_from_invalid_number_sends_snapshot(seq):
    async with running_market() as harness:
        client = await harness.client()
        await harness.apply(sell("a", 60, 5, token="101", now_ms=2))
        await client.subscribe(extended=True, resume={"seq": seq})
        messages = client.received()
        assert kinds(messages) == ["subscribed", "orderbook", "orderbook"]
        assert messages[0]["resumed"] is False


async def test_node_of_a_cluster_waits_for_the_position_of_a_client():
    async with running_market(log=("nats://a",)) as harness:
        client = await harness.client()
        await client.subscribe(extended=True, resume={"seq": 1})
        assert client.received() == []
        await harness.apply(sell("a", 60, 5, token="101", now_ms=2))
        await until(lambda: client.messages)
        [subscribed] = client.received()
        assert (subscribed["resumed"], subscribed["seq"]) == (True, 1)


async def test_node_of_a_cluster_waits_for_a_position_no_longer_than_its_limit(monkeypatch):
    monkeypatch.setattr(session, "POSITION_S", 0.05)
    async with running_market(log=("nats://a",)) as harness:
        client = await harness.client()
        await client.subscribe(extended=True, resume={"seq": 9})
        await until(lambda: client.messages)
        assert client.received()[0]["resumed"] is False


async def test_resume_from_dropped_event_sends_snapshot():
    async with FeedHarness(ws_resume_events=2) as harness:
        await harness.apply(AddMarket(market=numbered("m"), now_ms=1))
        await harness.apply(*(sell(f"a{n}", 60, 5, token="101", now_ms=2) for n in range(5)))
        for seq, resumed in ((2, False), (3, True)):
            client = await harness.client()
            await client.subscribe(extended=True, resume={"seq": seq})
            assert client.received()[0]["resumed"] is resumed


async def test_quietest_market_loses_its_stored_events_first():
    async with FeedHarness(ws_resume_events=10) as harness:
        names = [f"m{n}" for n in range(22)]
        await harness.apply(
            *(AddMarket(market=numbered(f"m{n}", 1_000 + 2 * n), now_ms=1) for n in range(22))
        )
        for number, name in enumerate(names):
            await harness.apply(
                *(
                    sell(
                        f"{name}-{n}",
                        60,
                        5,
                        market=name,
                        token=f"{1_000 + 2 * number}",
                        now_ms=number + 2,
                    )
                    for n in range(10)
                )
            )
        streams = harness.feed.channels.streams
        assert sum(len(stream.kept) for stream in streams) <= 200
        assert [len(streams.stream(name).kept) for name in names[:4]] == [0, 0, 0, 10]


async def test_plain_client_may_subscribe_before_the_market_opens():
    async with running_market() as harness:
        pending, other = await harness.client(), await harness.client()
        await pending.subscribe("later")
        await other.subscribe("later")
        await other.send(type="unsubscribe", channel="orderbook", marketId="later")
        assert pending.received() == []
        submit = sell("a", 60, 5, market="later", token="201", now_ms=2)
        await harness.apply(AddMarket(market=numbered("later", 201, no=""), now_ms=2), submit)
        empty, added = pending.received()
        assert (empty["type"], empty["seq"], empty["tokenId"]) == ("orderbook", 0, "201")
        assert empty["data"] == {
            "bids": [], "asks": [], "lastUpdate": 0, "checksum": checksum_of({}),
        }  # fmt: skip
        assert (added["type"], added["seq"]) == ("order_added", 1)
        assert other.received() == []


async def test_extended_client_receives_unknown_market_error():
    async with running_market() as harness:
        client = await harness.client()
        await client.subscribe("later", extended=True, id=1)
        [error] = client.received()
        assert (error["type"], error["code"], error["id"]) == ("error", "UNKNOWN_MARKET", 1)
        await harness.apply(AddMarket(market=numbered("later", 201), now_ms=2))
        assert client.received() == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "INVALID_JSON"),
        ("", "INVALID_JSON"),
        ("[" * 9_000, "INVALID_JSON"),
        ("[]", "INVALID_FIELD"),
        ('{"type":"listen"}', "INVALID_FIELD"),
        ('{"channel":"orderbook"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"tape","marketId":"m"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":7}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"a b"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","tokenId":""}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","tokenId":-1}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","resume":4}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"orderbook","marketId":"m","tokenId":"9"}',
         "TOKEN_NOT_IN_MARKET"),
        ('{"type":"subscribe","channel":"settlement"}', "INVALID_FIELD"),
        ('{"type":"unsubscribe","channel":"settlement"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"user"}', "INVALID_FIELD"),
        ('{"type":"subscribe","channel":"user","maker":"me"}', "INVALID_ADDRESS"),
        ('{"type":"unsubscribe","channel":"user"}', "INVALID_FIELD"),
        (None, "INVALID_JSON"),
    ],
)  # fmt: skip
async def test_invalid_request_is_an_error_for_extended_and_a_close_for_plain_clients(text, code):
    async with running_market() as harness:
        plain, extended = await harness.client(), await harness.client()
        await extended.subscribe(extended=True)
        extended.received()
        for client in (plain, extended):
            client._in.put_nowait({"type": "websocket.receive", "text": text})
        await run_loop()
        [error] = extended.received()
        assert (error["type"], error["code"], extended.closed) == ("error", code, None)
        assert (plain.closed, plain.messages) == (1008, [])
        assert plain.reason.startswith(code)
        assert len(plain.reason.encode()) <= 123


async def test_error_of_a_first_request_with_extended_is_sent():
    async with running_market() as harness:
        client = await harness.client()
        await client.send(type="subscribe", channel="tape", extended=True, id="x")
        [error] = client.received()
        assert (error["code"], error["id"]) == ("INVALID_FIELD", "x")


async def test_ping_is_answered_with_pong():
    async with running_market() as harness:
        client = await harness.client()
        await client.send(type="ping")
        await client.send(type="ping", id=3)
        assert client.received() == [{"type": "pong"}, {"type": "pong", "id": 3}]


async def test_subscriptions_per_connection_are_limited():
    async with FeedHarness(ws_subscriptions_max=2) as harness:
        await harness.apply(AddMarket(market=numbered("m"), now_ms=1))
        client, plain = await harness.client(), await harness.client()
        await client.subscribe(extended=True)
        await client.send(type="subscribe", channel="user", maker=ZERO_ADDRESS, extended=True)
        await client.subscribe(extended=True)  # the same again
        client.received()
        await client.send(type="subscribe", channel="user", maker=f"0x{'1' * 40}")
        assert client.received()[0]["code"] == "TOO_MANY_SUBSCRIPTIONS"
        for name in ("a", "b", "c"):
            await plain.subscribe(name)
        assert plain.closed == 1008


async def test_messages_per_minute_are_limited():
    async with FeedHarness(ws_messages_per_minute=3) as harness:
        client = await harness.client()
        for _ in range(3):
            await client.send(type="ping")
        assert client.closed is None
        await client.send(type="ping")
        assert client.closed == 1008
        assert client.reason.startswith("RATE_LIMITED")


async def test_client_without_subscription_is_closed():
    async with FeedHarness(ws_subscribe_timeout_s=1) as harness:
        silent, busy, done = [await harness.client() for _ in range(3)]
        await busy.subscribe("a")
        await done.subscribe("a")
        await done.send(type="unsubscribe", channel="orderbook", marketId="a")
        await until(lambda: silent.closed and done.closed)
        assert (silent.closed, done.closed, busy.closed) == (1008, 1008, None)


async def test_quiet_market_sends_heartbeats_with_its_last_number():
    async with FeedHarness(ws_heartbeat_s=1) as harness:
        await harness.apply(AddMarket(market=numbered("m"), now_ms=1))
        plain, extended = await harness.client(), await harness.client()
        await plain.subscribe()
        await extended.subscribe(extended=True)
        await extended.send(
            type="subscribe", channel="user", maker=ZERO_ADDRESS, extended=True, marketId="m"
        )
        await harness.apply(sell("a", 60, 5, token="101", now_ms=2))
        seen = []

        def has_both():
            seen.extend(extended.received("heartbeat"))
            return {message["channel"] for message in seen} == {"orderbook", "user"}

        await until(has_both)
        assert {(message["marketId"], message["seq"]) for message in seen} == {("m", 1)}
        (book, *_) = [message for message in seen if message["channel"] == "orderbook"]
        assert book["checksums"] == [
            {"tokenId": "101", "checksum": checksum_of({(1, 60): 5})},
            {"tokenId": "102", "checksum": checksum_of({})},
        ]
        assert kinds(plain.messages) == ["orderbook", "orderbook", "order_added"]


async def test_token_added_later_starts_with_an_empty_snapshot():
    async with running_market() as harness:
        await harness.apply(AddMarket(market=numbered("half", 201, no=""), now_ms=2))
        client = await harness.client()
        await client.subscribe("half")
        reader = BookReader()
        reader.apply(client.received())
        assert list(reader.levels) == ["201"]
        naming = harness.exchange.matcher.market("half")
        await harness.apply(
            sell("a", 60, 5, market="half", token="201", now_ms=3),
            named(naming),
            sell("b", 60, 5, market="half", token="202", now_ms=3),
        )
        messages = client.received()
        assert [(each["type"], each["seq"]) for each in messages] == [
            ("order_added", 1), ("orderbook", 1), ("order_added", 2),
        ]  # fmt: skip
        assert (messages[1]["tokenId"], messages[1]["data"]["lastUpdate"]) == ("202", 3)


def named(market_before):
    """Return the command that adds the second token."""
    after = structs.replace(market_before, no="202")
    return SetMarket(market=after, now_ms=3)


async def test_frames_go_through_asgi_without_the_push_extension():
    async with running_market() as harness:
        client = await harness.client(push=False)
        await client.subscribe()
        await harness.apply(*(sell(f"a{n}", 60, 5, token="101", now_ms=2) for n in range(300)))
        reader = BookReader()
        reader.apply(client.received())
        assert (reader.seq, len(reader.orders)) == (300, 300)
        assert harness.feed.subscribers.buffered_bytes == 0
