"""Commands with many events: sent in parts, or as a snapshot above a thousand events."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from clob import AddMarket, CancelAll, CancelSome, Limits, SetLimits, SetNonce
from clob_server.feed.broadcast import EVENTS_MAX
from clob_server.feed.event_messages import EventEncoder
from clob_server.feed.market_stream import EVENTS_MAX as SENT_MAX
from clob_server.feed.subscriber import CATCH_UPS_MAX, BookSubscription
from clob_server.feed.user_channel import CHANGES_MAX, UserChannel
from tests.matchers import buy, market, sell
from tests.server.feed.book_reader import BookReader, book_of
from tests.server.feed.harness import FeedHarness, run_loop, until

ALICE, BOB = "0x" + "1" * 40, "0x" + "2" * 40
LARGE = 1_500


class Turns:
    """Counts the calls of a method in each iteration of the event loop."""

    def __init__(self, monkeypatch, owner, name):
        self.counts, method = [0], getattr(owner, name)

        def counted(*args, **fields):
            self.counts[-1] += 1
            return method(*args, **fields)

        monkeypatch.setattr(owner, name, counted)

    async def __aenter__(self):
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *error):
        self._task.cancel()

    async def _watch(self):
        while True:
            self.counts.append(0)
            await asyncio.sleep(0)


@asynccontextmanager
async def book_of_orders(count, **settings):
    """Run a feed with a market in which ALICE has ``count`` sell orders."""
    async with FeedHarness(**settings) as harness:
        limits = Limits(orders_max=10_000)
        await harness.apply(
            SetLimits(limits=limits, now_ms=1), AddMarket(market=market(), now_ms=1)
        )
        orders = (sell(f"a{n}", 60 + n % 9, 5, maker=ALICE, now_ms=2) for n in range(count))
        await harness.apply(*orders, num_iterations=200)
        yield harness


def assert_current(harness, reader):
    for token in ("m-yes", "m-no"):
        assert reader.book(token) == book_of(harness.exchange.matcher.depth("m", token))
    assert reader.seq == harness.exchange.matcher.seq("m")


async def test_command_with_more_than_a_thousand_events_is_sent_as_a_snapshot():
    async with book_of_orders(LARGE) as harness:
        plain, extended, resuming = [await harness.client() for _ in range(3)]
        await plain.subscribe()
        await extended.subscribe(extended=True)
        plain.received()
        extended.received()
        await harness.apply(CancelAll(maker=ALICE, now_ms=3), num_iterations=50)
        seq = harness.exchange.matcher.seq("m")
        for client in (plain, extended):
            messages = client.received()
            assert [(m["type"], m["tokenId"], m["seq"]) for m in messages] == [
                ("orderbook", token, seq) for token in ("m-yes", "m-no")
            ]
            reader = BookReader(gapless=False)
            reader.apply(messages)
            assert reader.book("m-yes") == book_of(harness.exchange.matcher.depth("m", "m-yes"))
        await resuming.subscribe(extended=True, resume={"seq": seq - 1})
        assert resuming.received("subscribed")[0]["resumed"] is False
        # Later events follow one by one.
        await harness.apply(sell("last", 50, 5, maker=BOB, now_ms=4))
        for client in (plain, extended):
            [added] = client.received()
            assert (added["type"], added["seq"]) == ("order_added", seq + 1)
        await resuming.subscribe(extended=True, resume={"seq": seq})
        assert resuming.received("subscribed")[0]["resumed"] is True
        assert [m["seq"] for m in resuming.received("order_added")] == []


async def test_command_with_a_thousand_events_is_sent_event_by_event(monkeypatch):
    async with book_of_orders(SENT_MAX) as harness:
        clients = [await harness.client() for _ in range(3)]
        for client in clients:
            await client.subscribe()
            client.received()
        seq = harness.exchange.matcher.seq("m")
        turns = Turns(monkeypatch, EventEncoder, "encode")
        async with turns:
            await harness.apply(CancelAll(maker=ALICE, now_ms=3), num_iterations=50)
        for client in clients:
            removed = client.received()
            assert [m["seq"] for m in removed] == list(range(seq + 1, seq + SENT_MAX + 1))
            assert {m["type"] for m in removed} == {"order_removed"}
        assert sum(turns.counts) == SENT_MAX
        assert max(turns.counts) == EVENTS_MAX


async def test_client_that_joins_between_two_parts_misses_and_repeats_nothing():
    async with book_of_orders(500) as harness:
        first, late, idle = [await harness.client() for _ in range(3)]
        await first.subscribe(extended=True)
        await idle.subscribe(extended=True)
        readers = {first: BookReader(), late: BookReader(), idle: BookReader()}
        done = asyncio.create_task(harness.engine.submit(CancelAll(maker=ALICE, now_ms=3)))
        first.messages.clear()
        await until(lambda: first.messages, pause_s=0)
        assert not done.done()
        late._in.put_nowait(
            {
                "type": "websocket.receive",
                "text": '{"type":"subscribe","channel":"orderbook","marketId":"m","extended":true}',
            }
        )
        after = asyncio.create_task(harness.engine.submit(sell("last", 50, 5, maker=BOB)))
        await asyncio.gather(done, after)
        await run_loop(50)
        messages = late.received()
        kinds = [m["type"] for m in messages]
        assert kinds == ["subscribed", "orderbook", "orderbook", "order_added"]
        readers[late].apply(messages)
        readers[idle].apply(idle.received())
        for reader in (readers[late], readers[idle]):
            assert_current(harness, reader)


@pytest.mark.parametrize(
    "command",
    [SetNonce(maker=ALICE, nonce=1, now_ms=3), CancelSome(maker=ALICE, now_ms=3)],
    ids=["nonce", "all"],
)
async def test_a_makers_changes_are_encoded_in_parts_and_none_is_skipped(monkeypatch, command):
    async with book_of_orders(LARGE) as harness:
        client = await harness.client()
        await client.send(type="subscribe", channel="user", maker=ALICE)
        client.received()
        turns = Turns(monkeypatch, UserChannel, "_order")
        async with turns:
            await harness.apply(command, num_iterations=100)
        orders = client.received()
        assert [m["data"]["id"] for m in orders] == [f"a{n}" for n in range(LARGE)]
        assert {m["data"]["status"] for m in orders} == {"cancelled"}
        assert sum(turns.counts) == LARGE
        assert max(turns.counts) <= CHANGES_MAX


async def test_fills_of_a_sweep_are_complete_for_both_makers():
    async with book_of_orders(400) as harness:
        clients = {ALICE: await harness.client(), BOB: await harness.client()}
        for maker, client in clients.items():
            await client.send(type="subscribe", channel="user", maker=maker)
            client.received()
        await harness.apply(buy("b", 99, 2_000, maker=BOB, now_ms=3), num_iterations=100)
        for maker, client in clients.items():
            messages = client.received()
            fills = [m for m in messages if m["type"] == "fill"]
            assert len(fills) == 400, maker
            assert len({m["data"]["id"] for m in fills}) == 400
            last = {m["data"]["id"]: m["data"]["status"] for m in messages if m["type"] == "order"}
            assert set(last.values()) == {"filled"}
            assert len(last) == (400 if maker == ALICE else 1)


async def test_maker_that_unsubscribes_between_two_parts_gets_nothing_more():
    async with book_of_orders(500) as harness:
        client = await harness.client()
        await client.send(type="subscribe", channel="user", maker=ALICE)
        client.received()
        done = asyncio.create_task(harness.engine.submit(SetNonce(maker=ALICE, nonce=1)))
        await until(lambda: not len(harness.exchange.matcher), pause_s=0)
        assert not done.done()
        await client.send(type="unsubscribe", channel="user", maker=ALICE)
        await done
        await run_loop(50)
        assert client.received() == []
        assert not harness.feed.channels.users


@pytest.mark.parametrize("num_clients", [1, 40])
async def test_resuming_clients_are_sent_a_part_of_the_events_in_each_turn(
    monkeypatch, num_clients
):
    num_events = 2_000
    async with book_of_orders(num_events, ws_hard_bytes=1 << 30) as harness:
        clients = [await harness.client() for _ in range(num_clients)]
        request = (
            '{"type":"subscribe","channel":"orderbook","marketId":"m","extended":true,'
            '"resume":{"seq":0}}'
        )
        turns = Turns(monkeypatch, BookSubscription, "catch_up")
        async with turns:
            for client in clients:
                client._in.put_nowait({"type": "websocket.receive", "text": request})
            await run_loop(num_clients * 10 + 50)
        for client in clients:
            assert [m["seq"] for m in client.received("order_added")] == [*range(1, num_events + 1)]
        # Requests that arrive in the same iteration begin at most one further part.
        assert max(turns.counts) <= 2 * CATCH_UPS_MAX
        assert sum(turns.counts) >= num_clients * num_events // EVENTS_MAX


async def test_snapshots_after_a_large_command_are_sent_to_some_clients_in_each_turn(monkeypatch):
    async with book_of_orders(LARGE) as harness:
        clients = [await harness.client() for _ in range(100)]
        for client in clients:
            await client.subscribe()
            client.received()
        turns = Turns(monkeypatch, BookSubscription, "catch_up")
        async with turns:
            await harness.apply(CancelAll(maker=ALICE, now_ms=3), num_iterations=100)
        assert sum(turns.counts) == len(clients)
        assert max(turns.counts) <= CATCH_UPS_MAX
        assert {len(client.received("orderbook")) for client in clients} == {2}
        assert harness.feed.subscribers.num_behind == 0
