"""Sequencer: commands are logged durably, then applied, then acknowledged, in one sequence."""

import asyncio
import contextlib
import random  # noqa: TID251 - seeded

import pytest
from msgspec import structs

from clob import AddMarket, Cancel, Expire, Matcher, Reduce, RejectedError
from clob.errors import DuplicateOrderError, UnknownOrderError
from clob.events import OrderRemoved, RemovalReason
from clob.journal import ZERO_HASH, event_hash, verify
from clob_server.core.commands import DeactivateKey
from clob_server.core.sequencer import Committed, GuardedWork, QueueFullError, Sequencer
from clob_server.core.state import ServerState
from tests.matchers import buy, market, sell
from tests.server.engines import (
    NOW_MS,
    SlowLog,
    assert_as_logged,
    data_of,
    engine_over,
    logged,
    queued,
    signed,
    submit,
    working,
)

# ----- one client ----------------------------------------------------------------------------


async def test_command_is_applied_and_logged(log):
    engine = engine_over(log)
    async with working(engine):
        done = await submit(engine, sell, "s", 50, 10)
        again = Matcher()
        again.apply(AddMarket(market=market(), now_ms=NOW_MS))
        command = sell("s", 50, 10, now_ms=NOW_MS)
        assert done == Committed(2, command, again.apply(command), 0)
        assert done.now_ms == NOW_MS
        assert engine.seq == log.tail.seq == 2
    assert logged(log)[1:] == [[sell("s", 50, 10, now_ms=NOW_MS)]]
    assert_as_logged(engine, log)


async def test_rejection_is_raised_and_logged(log):
    engine = engine_over(log)
    async with working(engine):
        await submit(engine, sell, "s", 50, 10)
        with pytest.raises(DuplicateOrderError):
            await submit(engine, sell, "s", 50, 10)
        with pytest.raises(UnknownOrderError):
            await submit(engine, Cancel, order_id="unknown")
        assert engine.seq == 4
    last = [Cancel(order_id="unknown", now_ms=NOW_MS)]
    assert logged(log)[-1] == last
    assert_as_logged(engine, log)
    assert verify(data_of(log)).rejected == {"DUPLICATE_ORDER": 1, "UNKNOWN_ORDER": 1}


async def test_guard_reads_the_state_after_all_commands_before_it(log):
    engine = engine_over(log)
    read = []

    def check(seen):
        remaining = engine.state.matcher.order("s").remaining
        read.append(remaining)
        if remaining != seen:
            raise UnknownOrderError("changed")

    async with working(engine):
        await submit(engine, sell, "s", 50, 10)
        seq = engine.seq
        work = [
            buy("b", 50, 3),
            GuardedWork(Reduce(order_id="s", size=5), lambda: check(10)),
            GuardedWork(Reduce(order_id="s", size=4), lambda: check(7)),
            buy("c", 50, 1),
            GuardedWork(Reduce(order_id="s", size=2), lambda: check(3)),
        ]
        done = await asyncio.gather(*map(engine.try_submit, work), return_exceptions=True)
        assert [type(each) for each in done] == [
            Committed, UnknownOrderError, Committed, Committed, Committed
        ]  # fmt: skip
        assert (read, engine.state.matcher.order("s").remaining) == ([7, 7, 3], 2)
        assert engine.seq == seq + 4
    assert_as_logged(engine, log)


async def test_nothing_is_published_before_the_commit_is_durable(log):
    slow, published = SlowLog(log), []
    engine = engine_over(slow)
    engine.subscribe(published.extend)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        published.clear()
        state, hashed = engine.state.snapshot(), engine.event_hash
        task = submit(engine, sell, "s", 50, 10)
        await slow.begins()
        await asyncio.sleep(0.05)
        assert not task.done()
        assert not published
        assert engine.seq == 1
        assert (engine.state.snapshot(), engine.event_hash) == (state, hashed)
        slow.through.release()
        await task
        assert [done.seq for done in published] == [2]
    assert_as_logged(engine, log)


async def test_event_hash_equals_that_of_the_journal(log):
    engine = engine_over(log)
    outcomes = []
    engine.subscribe(lambda done: outcomes.extend(each.outcome for each in done))
    async with working(engine):
        for order_id, make in (("s", sell), ("b", buy), ("b", buy)):
            with contextlib.suppress(RejectedError):
                await submit(engine, make, order_id, 50, 10)
    hashed = ZERO_HASH
    for frame, outcome in zip(log.read(), outcomes, strict=True):
        assert frame.event_hash == hashed
        hashed = event_hash(hashed, outcome)
    assert engine.event_hash == hashed


# ----- many clients --------------------------------------------------------------------------


async def test_commands_queue_while_a_batch_commits(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = submit(engine, sell, "first", 50, 1)
        await slow.begins()
        others = [submit(engine, sell, number, 50, 1) for number in range(400)]
        await queued(first, *others)
        assert engine.num_queued == 400
        slow.through.release(2)
        await asyncio.gather(first, *others)
        assert engine.num_queued == 0
    assert [len(commands) for commands in logged(log)] == [1, 1, 400]
    assert [command.order.id for command in logged(log)[2]] == list(range(400))
    assert_as_logged(engine, log)


async def test_subscribers_are_called_in_order_before_submit_returns(log):
    slow, calls = SlowLog(log), []
    engine = engine_over(slow)

    async def one(number):
        done = await engine.submit(lambda now: sell(number, 50, 1, now_ms=now))
        calls.append(("client", number, tuple(done.outcome)))

    def subscriber(who):
        return lambda done: calls.extend(
            (who, each.command.order.id, tuple(each.outcome))
            for each in done
            if not isinstance(each.command, AddMarket)
        )

    seqs = []
    engine.subscribe(lambda done: seqs.extend(each.seq for each in done))
    engine.subscribe(subscriber("one"), subscriber("two"))
    slow.through.release()
    async with working(engine):
        for start in (0, 5, 10):
            tasks = [asyncio.create_task(one(number)) for number in range(start, start + 5)]
            await queued(*tasks)
            slow.through.release()
            await asyncio.gather(*tasks)
    assert seqs == list(range(1, 17))
    expected = [
        (who, number)
        for start in (0, 5, 10)
        for who in ("one", "two", "client")
        for number in range(start, start + 5)
    ]
    assert [each[:2] for each in calls] == expected
    outcomes = {number: {each[2] for each in calls if each[1] == number} for number in range(15)}
    assert all(len(each) == 1 and each != {()} for each in outcomes.values())


async def test_batch_has_one_timestamp_and_time_never_decreases(log):
    clock, read, published = [NOW_MS], [], []

    def clock_ms():
        read.append(clock[0])
        return clock[0]

    slow = SlowLog(log)
    engine = Sequencer(slow, ServerState(), clock_ms)
    slow.through.release(100)
    async with working(engine):
        for now_ms in (NOW_MS + 5, NOW_MS - 1_000, NOW_MS + 6):
            clock[0] = now_ms
            makes = [lambda now: published.append(now) or Expire(now_ms=now)] * 3
            tasks = [asyncio.create_task(engine.submit(make)) for make in makes]
            await asyncio.gather(*tasks)
    assert read == [NOW_MS, NOW_MS + 5, NOW_MS - 1_000, NOW_MS + 6]
    assert published == [NOW_MS + 5] * 6 + [NOW_MS + 6] * 3
    assert engine.state.now_ms == NOW_MS + 6
    assert_as_logged(engine, log)


AN_EVENT = OrderRemoved(1, "m", "m-yes", "s", RemovalReason.CANCELLED, 1)


def fail_to_make(_):
    raise KeyError("make failed")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (fail_to_make, KeyError),
        (lambda _: next(iter(())), RuntimeError),  # a StopIteration in a coroutine
        (lambda _: None, TypeError),
        (lambda now: sell("x", 50.0, 1, now_ms=now), TypeError),
        (lambda _: Expire(now_ms=-1), ValueError),
        (lambda _: AN_EVENT, (TypeError, ValueError)),
        (lambda _: (), TypeError),
        (lambda now: (sell("x", 50, 1, now_ms=now), None), TypeError),
        (lambda now: DeactivateKey(key_id=7, now_ms=now), TypeError),
        (lambda now: DeactivateKey(key_id="x", now_ms=2**64), (TypeError, OverflowError)),
        (lambda now: DeactivateKey(key_id="\ud800", now_ms=now), ValueError),
        (lambda now: structs.replace(sell("x", 50, 1, now_ms=now), attachment="x"), TypeError),
    ],
)
async def test_invalid_command_fails_only_its_own_submit(log, make, error):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release(2)
    async with working(engine):
        before = submit(engine, sell, "before", 50, 1)
        bad = asyncio.create_task(engine.submit(make))
        after = submit(engine, sell, "after", 50, 1)
        await queued(before, bad, after)
        with pytest.raises(error):
            await bad
        assert len((await before).outcome) == len((await after).outcome) == 1
        slow.through.release(100)
        with pytest.raises(error):
            await engine.submit(make)
        await submit(engine, sell, "later", 50, 1)
    assert [len(commands) for commands in logged(log)] == [1, 2, 1]
    assert_as_logged(engine, log)


async def test_cancelled_submit_does_not_affect_others(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        tasks = [submit(engine, sell, number, 50, 1) for number in range(3)]
        await slow.begins()
        waiting = [submit(engine, sell, number, 50, 1) for number in range(3, 6)]
        await queued(*tasks, *waiting)
        tasks[1].cancel()
        waiting[1].cancel()
        await asyncio.sleep(0)
        slow.through.release(2)
        remaining = [task for task in (*tasks, *waiting) if task not in (tasks[1], waiting[1])]
        await asyncio.gather(*remaining)
        assert tasks[1].cancelled()
        assert waiting[1].cancelled()
        found = {engine.state.matcher.order(number).order.id for number in range(6)}
        assert found == set(range(6))
    assert_as_logged(engine, log)


async def test_submit_raises_when_the_queue_is_full(log):
    slow = SlowLog(log)
    engine = engine_over(slow, max_queued=3)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = submit(engine, sell, "first", 50, 1)
        await slow.begins()
        others = [submit(engine, sell, number, 50, 1) for number in range(3)]
        await queued(first, *others)
        with pytest.raises(QueueFullError, match="queue full: 3 commands are waiting"):
            await engine.submit(lambda now: sell("x", 50, 1, now_ms=now))
        slow.through.release(3)
        await asyncio.gather(first, *others)
        await submit(engine, sell, "last", 50, 1)
    assert engine.seq == 6
    assert_as_logged(engine, log)


# ----- random clients ------------------------------------------------------------------------


async def wander(engine, rng, name, num_commands):
    """Submit random commands, most of them valid, and cancel some of the waits."""
    for number in range(num_commands):
        make = rng.choice((buy, sell, signed(buy), signed(sell)))
        own = rng.choice((f"{name}-{number}", f"{name}-{rng.randrange(num_commands)}"))
        price, size = rng.randint(45, 55), rng.randint(1, 100)
        if rng.random() < 0.2:
            task = submit(engine, Cancel, order_id=own)
        else:
            task = submit(engine, make, own, price, size, maker=name)
        for _ in range(rng.choice((0, 1, 2, 5))):
            await asyncio.sleep(0)
        if rng.random() < 0.1:
            task.cancel()
        with contextlib.suppress(RejectedError, asyncio.CancelledError):
            await task


@pytest.mark.parametrize("seed", range(6))
async def test_log_replays_to_the_same_state_after_concurrent_submits(log, seed):
    rng = random.Random(seed)
    engine, seqs = engine_over(log), []
    engine.subscribe(lambda done: seqs.extend(each.seq for each in done))
    async with working(engine):
        names = [f"client {number}" for number in range(rng.choice((1, 5, 40)))]
        clients = [
            wander(engine, random.Random(f"{seed} {name}"), name, rng.randint(5, 30))
            for name in names
        ]
        await asyncio.gather(*clients)
    assert seqs == list(range(1, log.tail.seq + 1))
    assert_as_logged(engine, log)
