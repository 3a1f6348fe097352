"""Slow clients: skipped events, new snapshots and closes, without a delay for others."""

import asyncio
from types import SimpleNamespace

from clob import AddMarket
from clob_server.feed import broadcast
from clob_server.feed.broadcast import loop_time
from tests.matchers import buy, market, sell
from tests.server.feed.book_reader import BookReader, book_of
from tests.server.feed.harness import FeedHarness, run_loop, until

MAKER = {"maker": "0x" + "1" * 40}
SOFT, HARD = 4_000, 20_000


def slow_harness(**settings):
    return FeedHarness(**({"ws_soft_bytes": SOFT, "ws_hard_bytes": HARD} | settings))


async def trade(harness, count, first=0):
    """Place orders, some of which trade."""
    for number in range(first, first + count):
        make = buy if number % 3 == 0 else sell
        await harness.apply(make(f"o{number}", 50 + number % 2, 5 + number, **MAKER, now_ms=2))


def assert_current(harness, reader):
    for token in ("m-yes", "m-no"):
        assert reader.book(token) == book_of(harness.exchange.matcher.depth("m", token))
    assert reader.seq == harness.exchange.matcher.seq("m")


async def test_stalled_client_receives_a_new_snapshot_when_it_reads_again():
    async with slow_harness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        slow, fast = await harness.client(reads=False, high=SOFT), await harness.client()
        for client in (slow, fast):
            await client.subscribe(extended=True)
        await trade(harness, 100)
        assert slow.buffered() < SOFT + 2_000
        assert harness.feed.subscribers.num_behind == 1
        assert harness.feed.subscribers.buffered_bytes == slow.buffered()
        reader, whole = BookReader(gapless=False), BookReader()
        slow.read_all()
        messages = slow.received()
        reader.apply(messages)
        assert [each["type"] for each in messages[-2:]] == ["orderbook", "orderbook"]
        assert reader.seq == harness.exchange.matcher.seq("m")
        assert_current(harness, reader)
        whole.apply(fast.received())
        assert_current(harness, whole)
        assert harness.feed.subscribers.num_behind == 0
        await trade(harness, 3, first=100)  # after that, no event is skipped
        slow.read_all()
        messages = slow.received()
        assert "orderbook" not in {each["type"] for each in messages}
        reader.apply(messages)
        assert_current(harness, reader)


async def test_write_error_of_a_disconnected_client_does_not_affect_others():
    async with slow_harness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        gone, other = await harness.client(), await harness.client()

        def failing_write(frame):
            raise RuntimeError("the handler is closed")

        gone.write_unchecked = failing_write
        for client in (gone, other):
            await client.subscribe(extended=True)
        gone.received()
        await trade(harness, 20)
        assert gone.received() == []
        reader = BookReader()
        reader.apply(other.received())
        assert_current(harness, reader)


async def test_drained_buffer_is_detected_without_a_callback():
    async with slow_harness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        client = await harness.client(reads=False, high=1 << 30)  # never reports a drained buffer
        await client.subscribe()
        await trade(harness, 100)
        client.read_all()
        reader = BookReader(gapless=False)

        def is_current():
            client.read_all()
            reader.apply(client.received())
            return reader.seq == harness.exchange.matcher.seq("m")

        await until(is_current)
        assert_current(harness, reader)


async def test_subscriptions_of_a_slow_client_catch_up_as_it_reads():
    async with slow_harness() as harness:
        names = [f"m{n}" for n in range(60)]
        await harness.apply(*(AddMarket(market=market(name), now_ms=1) for name in names))
        client = await harness.client(reads=False, high=SOFT)
        for name in names:
            await client.subscribe(name)
        assert client.buffered() < SOFT + 1_000
        messages = []
        while client.buffered():
            client.read_all()
            messages += client.received("orderbook")
            await run_loop()
        assert [each["marketId"] for each in messages] == [n for n in names for _ in range(2)]


async def test_long_resume_is_sent_as_the_client_reads():
    async with slow_harness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        await trade(harness, 400)
        client = await harness.client(reads=False, high=SOFT)
        await client.subscribe(extended=True, resume={"seq": 0})
        assert client.buffered() < SOFT + broadcast.EVENTS_MAX * 600
        reader = BookReader()
        reader.seq = 0
        while client.buffered():
            client.read(3_000)
            await trade(harness, 1, first=400 + len(client.writes))
        reader.apply(client.received()[1:])
        assert_current(harness, reader)


async def test_client_that_reads_nothing_for_long_is_aborted():
    async with slow_harness(ws_stall_timeout_s=1) as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        slow, fast = await harness.client(reads=False, high=SOFT), await harness.client()
        for client in (slow, fast):
            await client.subscribe()
        await trade(harness, 60)
        await until(lambda: slow.aborted)  # the close frame was not read either
        assert (slow.closed, fast.closed) == (None, None)
        await until(lambda: len(harness.feed.subscribers) == 1)
        assert harness.feed.subscribers.num_behind == 0


async def test_user_channel_disconnects_slow_clients_instead_of_skipping_messages():
    async with slow_harness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        slow = await harness.client(reads=False, high=1 << 30)
        await slow.send(type="subscribe", channel="user", **MAKER)
        await trade(harness, 10)
        slow.read_all()
        messages = [m["data"]["id"] for m in slow.received("order")]
        assert set(messages) == {f"o{n}" for n in range(10)}
        await trade(harness, 60, first=10)
        assert slow.buffered() < HARD + 5_000
        assert slow.closed == 1008
        assert slow.reason.startswith("too slow")
        assert not harness.feed.channels.users


async def test_broadcast_yields_to_the_event_loop(monkeypatch):
    monkeypatch.setattr(broadcast, "WRITES_MAX", 1)

    async with FeedHarness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        clients = [await harness.client() for _ in range(150)]
        for client in clients:
            await client.subscribe()
            client.messages.clear()
        late = await harness.client()
        await harness.apply(sell("a", 60, 5, now_ms=2), num_iterations=0)
        messages = [len(client.messages) for client in clients]
        assert 0 < sum(messages) < len(clients)
        await late.subscribe()  # while deliveries are queued
        assert clients[-1].messages == []
        await harness.apply(sell("b", 61, 5, now_ms=2), num_iterations=0)
        await harness.apply(sell("c", 61, 5, now_ms=2))
        await run_loop(700)
        for client in clients:
            assert [each["seq"] for each in client.messages] == [1, 2, 3]
        reader = BookReader()
        reader.apply(late.received())
        assert_current(harness, reader)


async def test_heartbeat_follows_the_events_it_counts(monkeypatch):
    monkeypatch.setattr(broadcast, "WRITES_MAX", 1)

    async with FeedHarness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        clients = [await harness.client() for _ in range(50)]
        for client in clients:
            await client.subscribe(extended=True)
        for number in range(3):
            await harness.apply(sell(f"a{number}", 60, 5, now_ms=2), num_iterations=0)
            harness.feed._send_heartbeats(loop_time() + 1_000 * (number + 1))
        await run_loop(500)
        for client in clients:
            reader = BookReader()  # checks the number of each heartbeat
            reader.apply(client.received())
            assert (reader.seq, reader.counts["heartbeat"]) == (3, 3)


async def test_first_heartbeat_of_a_book_waits_its_interval():
    async with FeedHarness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        client = await harness.client()
        await client.subscribe(extended=True)
        harness.feed._send_heartbeats(loop_time())
        await run_loop(10)
        assert client.received("heartbeat") == []
        harness.feed._send_heartbeats(loop_time() + 1_000)
        await run_loop(10)
        assert len(client.received("heartbeat")) == 1


async def test_events_queued_during_a_broadcast_are_sent_in_one_write(monkeypatch):
    gate = asyncio.Event()
    slow = SimpleNamespace(sleep=lambda _: gate.wait(), get_running_loop=asyncio.get_running_loop)
    monkeypatch.setattr(broadcast, "WRITES_MAX", 1)
    monkeypatch.setattr(broadcast, "asyncio", slow)
    async with FeedHarness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        clients = [await harness.client() for _ in range(50)]
        for client in clients:
            await client.subscribe()
            client.writes.clear()
        for number in range(20):
            await harness.apply(sell(f"a{number}", 60, 5, now_ms=2))
        assert [len(client.writes) for client in clients] == [1] + [0] * 49
        gate.set()
        await run_loop(200)
        assert {len(client.writes) for client in clients} == {2}
        for client in clients:
            assert [m["seq"] for m in client.received("order_added")] == list(range(1, 21))


async def test_one_stalled_client_does_not_delay_two_hundred_others():
    async with slow_harness() as harness:
        await harness.apply(AddMarket(market=market(), now_ms=1))
        stalled = await harness.client(reads=False, high=SOFT)
        clients = [await harness.client() for _ in range(200)]
        for client in (stalled, *clients):
            await client.subscribe()
        await trade(harness, 100)
        for client in clients:
            reader = BookReader()
            reader.apply(client.received())
            assert_current(harness, reader)
        assert stalled.buffered() < SOFT + 2_000
