"""A client who does not read has events left out, is told afresh, or is dropped; nobody waits."""

import asyncio
from types import SimpleNamespace

from clob import AddMarket
from clob_server.feed import broadcast
from tests.matchers import buy, market, sell
from tests.server.feed.readers import BookReader, book_of
from tests.server.feed.stage import Stage, played, turns, until

ASK = {"maker": "0x" + "1" * 40}
SOFT, HARD = 4_000, 20_000


def slow_stage(**settings):
    return Stage(**({"ws_soft_bytes": SOFT, "ws_hard_bytes": HARD} | settings))


async def trade_on(stage, count, first=0):
    """Have orders come in, some of which trade."""
    for number in range(first, first + count):
        make = buy if number % 3 == 0 else sell
        await stage.do(make(f"o{number}", 50 + number % 2, 5 + number, **ASK, now_ms=2))


def assert_current(stage, reader):
    for token in ("m-yes", "m-no"):
        assert reader.book(token) == book_of(stage.exchange.matcher.depth("m", token))
    assert reader.seq == stage.exchange.matcher.seq("m")


def test_a_client_who_stalls_gets_a_fresh_snapshot_when_he_reads_again():
    async def story():
        async with slow_stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            slow, fast = await stage.client(reads=False, high=SOFT), await stage.client()
            for client in (slow, fast):
                await client.subscribe(extended=True)
            await trade_on(stage, 100)
            assert slow.buffered() < SOFT + 2_000
            assert stage.feed.num_stale == 1
            assert stage.feed.buffered_bytes == slow.buffered()
            reader, whole = BookReader(gapless=False), BookReader()
            slow.read_all()
            told = slow.taken()
            reader.take(told)
            assert [each["type"] for each in told[-2:]] == ["orderbook", "orderbook"]
            assert reader.seq == stage.exchange.matcher.seq("m")
            assert_current(stage, reader)
            whole.take(fast.taken())
            assert_current(stage, whole)
            assert stage.feed.num_stale == 0
            await trade_on(stage, 3, first=100)  # and from there he is told everything again
            slow.read_all()
            told = slow.taken()
            assert "orderbook" not in {each["type"] for each in told}
            reader.take(told)
            assert_current(stage, reader)

    played(story())


def test_a_client_who_went_a_moment_ago_is_in_nobodys_way():
    async def story():
        async with slow_stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            gone, other = await stage.client(), await stage.client()

            def tell(frame):
                raise RuntimeError("the handler is closed")

            gone.tell = tell
            for client in (gone, other):
                await client.subscribe(extended=True)
            gone.taken()
            await trade_on(stage, 20)
            assert gone.taken() == []
            reader = BookReader()
            reader.take(other.taken())
            assert_current(stage, reader)

    played(story())


def test_room_that_nobody_tells_of_is_found_out():
    async def story():
        async with slow_stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            client = await stage.client(reads=False, high=1 << 30)  # it never tells that it drained
            await client.subscribe()
            await trade_on(stage, 100)
            client.read_all()
            reader = BookReader(gapless=False)

            def is_current():
                client.read_all()
                reader.take(client.taken())
                return reader.seq == stage.exchange.matcher.seq("m")

            await until(is_current)
            assert_current(stage, reader)

    played(story())


def test_many_subscriptions_of_a_slow_client_are_served_as_he_reads():
    async def story():
        async with slow_stage() as stage:
            names = [f"m{n}" for n in range(60)]
            await stage.do(*(AddMarket(market=market(name), now_ms=1) for name in names))
            client = await stage.client(reads=False, high=SOFT)
            for name in names:
                await client.subscribe(name)
            assert client.buffered() < SOFT + 1_000
            client.read_all()
            told = client.taken("orderbook")
            assert [each["marketId"] for each in told] == [n for n in names for _ in range(2)]

    played(story())


def test_a_resume_that_is_long_is_served_as_the_client_reads():
    async def story():
        async with slow_stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            await trade_on(stage, 400)
            client = await stage.client(reads=False, high=SOFT)
            await client.subscribe(extended=True, resume={"seq": 0})
            assert client.buffered() < SOFT + broadcast.EVENTS_MAX * 600
            reader = BookReader()
            reader.seq = 0
            while client.buffered():
                client.read(3_000)
                await trade_on(stage, 1, first=400 + len(client.got))
            reader.take(client.taken()[1:])
            assert_current(stage, reader)

    played(story())


def test_a_client_who_reads_nothing_for_long_is_dropped():
    async def story():
        async with slow_stage(ws_stall_timeout_s=1) as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            slow, fast = await stage.client(reads=False, high=SOFT), await stage.client()
            for client in (slow, fast):
                await client.subscribe()
            await trade_on(stage, 60)
            await until(lambda: slow.aborted)  # even the close he did not read
            assert (slow.closed, fast.closed) == (None, None)
            await until(lambda: stage.feed.num_subscribers == 1)
            assert stage.feed.num_stale == 0

    played(story())


def test_of_the_user_channel_nothing_is_left_out_and_who_has_too_much_waiting_is_dropped():
    async def story():
        async with slow_stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            slow = await stage.client(reads=False, high=1 << 30)
            await slow.say(type="subscribe", channel="user", **ASK)
            await trade_on(stage, 10)
            slow.read_all()
            told = [m["data"]["id"] for m in slow.taken("order")]
            assert set(told) == {f"o{n}" for n in range(10)}
            await trade_on(stage, 60, first=10)
            assert slow.buffered() < HARD + 5_000
            assert slow.closed == 1008
            assert slow.reason.startswith("too slow")
            assert not stage.feed.users

    played(story())


def test_while_many_are_told_others_get_their_turn(monkeypatch):
    monkeypatch.setattr(broadcast, "WRITES_MAX", 1)

    async def story():
        async with Stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            clients = [await stage.client() for _ in range(150)]
            for client in clients:
                await client.subscribe()
                client.messages.clear()
            late = await stage.client()
            await stage.do(sell("a", 60, 5, now_ms=2), num_turns=0)
            told = [len(client.messages) for client in clients]
            assert 0 < sum(told) < len(clients)
            await late.subscribe()  # while the others are still being told
            assert clients[-1].messages == []
            await stage.do(sell("b", 61, 5, now_ms=2), num_turns=0)
            await stage.do(sell("c", 61, 5, now_ms=2))
            await turns(700)
            for client in clients:
                assert [each["seq"] for each in client.messages] == [1, 2, 3]
            reader = BookReader()
            reader.take(late.taken())
            assert_current(stage, reader)

    played(story())


def test_a_heartbeat_comes_after_all_that_it_counts(monkeypatch):
    monkeypatch.setattr(broadcast, "WRITES_MAX", 1)

    async def story():
        async with Stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            clients = [await stage.client() for _ in range(50)]
            for client in clients:
                await client.subscribe(extended=True)
            for number in range(3):
                await stage.do(sell(f"a{number}", 60, 5, now_ms=2), num_turns=0)
                stage.feed._beat(stage.feed.time() + 1_000 * (number + 1))
            await turns(500)
            for client in clients:
                reader = BookReader()  # which looks at the number of each
                reader.take(client.taken())
                assert (reader.seq, reader.counts["heartbeat"]) == (3, 3)

    played(story())


def test_what_is_put_in_line_while_many_are_told_goes_out_in_one_write(monkeypatch):
    async def story():
        gate = asyncio.Event()
        slow = SimpleNamespace(
            sleep=lambda _: gate.wait(), get_running_loop=asyncio.get_running_loop
        )
        monkeypatch.setattr(broadcast, "WRITES_MAX", 1)
        monkeypatch.setattr(broadcast, "asyncio", slow)
        async with Stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            clients = [await stage.client() for _ in range(50)]
            for client in clients:
                await client.subscribe()
                client.got.clear()
            for number in range(20):
                await stage.do(sell(f"a{number}", 60, 5, now_ms=2))
            assert [len(client.got) for client in clients] == [1] + [0] * 49
            gate.set()
            await turns(200)
            assert {len(client.got) for client in clients} == {2}
            for client in clients:
                assert [m["seq"] for m in client.taken("order_added")] == list(range(1, 21))

    played(story())


def test_one_who_stalls_among_two_hundred_delays_nobody():
    async def story():
        async with slow_stage() as stage:
            await stage.do(AddMarket(market=market(), now_ms=1))
            stalled = await stage.client(reads=False, high=SOFT)
            clients = [await stage.client() for _ in range(200)]
            for client in (stalled, *clients):
                await client.subscribe()
            await trade_on(stage, 100)
            for client in clients:
                reader = BookReader()
                reader.take(client.taken())
                assert_current(stage, reader)
            assert stalled.buffered() < SOFT + 2_000

    played(story())
