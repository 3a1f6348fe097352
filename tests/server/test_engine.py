"""The engine: made durable, then done, then answered; in one sequence, whoever asks."""

import asyncio
import contextlib
import random  # noqa: TID251 - seeded

import pytest
from msgspec import structs

from clob import AddMarket, Cancel, Expire, Matcher, RejectedError
from clob.errors import DuplicateOrderError, UnknownOrderError
from clob.events import OrderRemoved, RemovalReason
from clob.journal import ZERO_HASH, event_hash, verify
from clob_server.core.commands import DeactivateKey
from clob_server.core.sequencer import Committed, QueueFullError, Sequencer
from clob_server.core.state import ServerState
from tests.matchers import buy, market, sell
from tests.server.engines import (
    NOW_MS,
    SlowLog,
    ask,
    asked,
    assert_as_logged,
    data_of,
    engine_over,
    logged,
    signed,
    working,
)

# ----- one who asks --------------------------------------------------------------------------


async def test_what_is_asked_is_done_and_is_in_the_log(log):
    engine = engine_over(log)
    async with working(engine):
        done = await ask(engine, sell, "s", 50, 10)
        again = Matcher()
        again.apply(AddMarket(market=market(), now_ms=NOW_MS))
        command = sell("s", 50, 10, now_ms=NOW_MS)
        assert done == Committed(2, command, again.apply(command), 0)
        assert done.now_ms == NOW_MS
        assert engine.seq == log.tail.seq == 2
    assert logged(log)[1:] == [[sell("s", 50, 10, now_ms=NOW_MS)]]
    assert_as_logged(engine, log)


async def test_a_refusal_is_the_answer_and_is_in_the_log(log):
    engine = engine_over(log)
    async with working(engine):
        await ask(engine, sell, "s", 50, 10)
        with pytest.raises(DuplicateOrderError):
            await ask(engine, sell, "s", 50, 10)
        with pytest.raises(UnknownOrderError):
            await ask(engine, Cancel, order_id="nobody's")
        assert engine.seq == 4
    last = [Cancel(order_id="nobody's", now_ms=NOW_MS)]
    assert logged(log)[-1] == last
    assert_as_logged(engine, log)
    assert verify(data_of(log)).rejected == {"DUPLICATE_ORDER": 1, "UNKNOWN_ORDER": 1}


async def test_nobody_hears_anything_before_it_is_durable(log):
    slow, heard = SlowLog(log), []
    engine = engine_over(slow)
    engine.subscribe(heard.extend)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        heard.clear()
        state, hashed = engine.state.snapshot(), engine.event_hash
        task = ask(engine, sell, "s", 50, 10)
        await slow.begins()
        await asyncio.sleep(0.05)
        assert not task.done()
        assert not heard
        assert engine.seq == 1
        assert (engine.state.snapshot(), engine.event_hash) == (state, hashed)
        slow.through.release()
        await task
        assert [done.seq for done in heard] == [2]
    assert_as_logged(engine, log)


async def test_the_event_hash_is_that_of_the_journal(log):
    engine = engine_over(log)
    outcomes = []
    engine.subscribe(lambda done: outcomes.extend(each.outcome for each in done))
    async with working(engine):
        for order_id, make in (("s", sell), ("b", buy), ("b", buy)):
            with contextlib.suppress(RejectedError):
                await ask(engine, make, order_id, 50, 10)
    hashed = ZERO_HASH
    for frame, outcome in zip(log.read(), outcomes, strict=True):
        assert frame.event_hash == hashed
        hashed = event_hash(hashed, outcome)
    assert engine.event_hash == hashed


# ----- many who ask --------------------------------------------------------------------------


async def test_while_one_batch_is_made_durable_the_next_gathers(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = ask(engine, sell, "first", 50, 1)
        await slow.begins()
        others = [ask(engine, sell, number, 50, 1) for number in range(400)]
        await asked(first, *others)
        assert engine.num_queued == 400
        slow.through.release(2)
        await asyncio.gather(first, *others)
        assert engine.num_queued == 0
    assert [len(commands) for commands in logged(log)] == [1, 1, 400]
    assert [command.order.id for command in logged(log)[2]] == list(range(400))
    assert_as_logged(engine, log)


async def test_listeners_hear_before_those_who_asked_and_in_sequence(log):
    slow, said = SlowLog(log), []
    engine = engine_over(slow)

    async def one(number):
        done = await engine.submit(lambda now: sell(number, 50, 1, now_ms=now))
        said.append(("asker", number, tuple(done.outcome)))

    def hear(who):
        return lambda done: said.extend(
            (who, each.command.order.id, tuple(each.outcome))
            for each in done
            if not isinstance(each.command, AddMarket)
        )

    seqs = []
    engine.subscribe(lambda done: seqs.extend(each.seq for each in done))
    engine.subscribe(hear("one"), hear("two"))
    slow.through.release()
    async with working(engine):
        for start in (0, 5, 10):
            tasks = [asyncio.create_task(one(number)) for number in range(start, start + 5)]
            await asked(*tasks)
            slow.through.release()
            await asyncio.gather(*tasks)
    assert seqs == list(range(1, 17))
    expected = [
        (who, number)
        for start in (0, 5, 10)
        for who in ("one", "two", "asker")
        for number in range(start, start + 5)
    ]
    assert [each[:2] for each in said] == expected
    outcomes = {number: {each[2] for each in said if each[1] == number} for number in range(15)}
    assert all(len(each) == 1 and each != {()} for each in outcomes.values())


async def test_a_batch_has_one_time_and_time_never_goes_back(log):
    clock, read, heard = [NOW_MS], [], []

    def clock_ms():
        read.append(clock[0])
        return clock[0]

    slow = SlowLog(log)
    engine = Sequencer(slow, ServerState(), clock_ms)
    slow.through.release(100)
    async with working(engine):
        for now_ms in (NOW_MS + 5, NOW_MS - 1_000, NOW_MS + 6):
            clock[0] = now_ms
            makes = [lambda now: heard.append(now) or Expire(now_ms=now)] * 3
            tasks = [asyncio.create_task(engine.submit(make)) for make in makes]
            await asyncio.gather(*tasks)
    assert read == [NOW_MS, NOW_MS + 5, NOW_MS - 1_000, NOW_MS + 6]
    assert heard == [NOW_MS + 5] * 6 + [NOW_MS + 6] * 3
    assert engine.state.now_ms == NOW_MS + 6
    assert_as_logged(engine, log)


AN_EVENT = OrderRemoved(1, "m", "m-yes", "s", RemovalReason.CANCELLED, 1)


def fail_to_make(_):
    raise KeyError("the asker's own affair")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (fail_to_make, KeyError),
        (lambda _: next(iter(())), RuntimeError),  # as a coroutine has it for a StopIteration
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
async def test_what_cannot_be_asked_fails_only_its_own_ask(log, make, error):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release(2)
    async with working(engine):
        before = ask(engine, sell, "before", 50, 1)
        bad = asyncio.create_task(engine.submit(make))
        after = ask(engine, sell, "after", 50, 1)
        await asked(before, bad, after)
        with pytest.raises(error):
            await bad
        assert len((await before).outcome) == len((await after).outcome) == 1
        slow.through.release(100)
        with pytest.raises(error):
            await engine.submit(make)
        await ask(engine, sell, "later", 50, 1)
    assert [len(commands) for commands in logged(log)] == [1, 2, 1]
    assert_as_logged(engine, log)


async def test_who_gives_up_waiting_changes_nothing_for_the_others(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        tasks = [ask(engine, sell, number, 50, 1) for number in range(3)]
        await slow.begins()
        waiting = [ask(engine, sell, number, 50, 1) for number in range(3, 6)]
        await asked(*tasks, *waiting)
        tasks[1].cancel()
        waiting[1].cancel()
        await asyncio.sleep(0)
        slow.through.release(2)
        stayed = [task for task in (*tasks, *waiting) if task not in (tasks[1], waiting[1])]
        await asyncio.gather(*stayed)
        assert tasks[1].cancelled()
        assert waiting[1].cancelled()
        found = {engine.state.matcher.order(number).order.id for number in range(6)}
        assert found == set(range(6))
    assert_as_logged(engine, log)


async def test_more_than_may_wait_are_turned_away_at_once(log):
    slow = SlowLog(log)
    engine = engine_over(slow, max_queued=3)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = ask(engine, sell, "first", 50, 1)
        await slow.begins()
        others = [ask(engine, sell, number, 50, 1) for number in range(3)]
        await asked(first, *others)
        with pytest.raises(QueueFullError, match="queue full: 3 commands are waiting"):
            await engine.submit(lambda now: sell("x", 50, 1, now_ms=now))
        slow.through.release(3)
        await asyncio.gather(first, *others)
        await ask(engine, sell, "last", 50, 1)
    assert engine.seq == 6
    assert_as_logged(engine, log)


# ----- many at random ------------------------------------------------------------------------


async def wander(engine, rng, name, num_asks):
    """Ask for things, most of them sensible, and give up waiting now and then."""
    for number in range(num_asks):
        make = rng.choice((buy, sell, signed(buy), signed(sell)))
        own = rng.choice((f"{name}-{number}", f"{name}-{rng.randrange(num_asks)}"))
        price, size = rng.randint(45, 55), rng.randint(1, 100)
        if rng.random() < 0.2:
            task = ask(engine, Cancel, order_id=own)
        else:
            task = ask(engine, make, own, price, size, maker=name)
        for _ in range(rng.choice((0, 1, 2, 5))):
            await asyncio.sleep(0)
        if rng.random() < 0.1:
            task.cancel()
        with contextlib.suppress(RejectedError, asyncio.CancelledError):
            await task


@pytest.mark.parametrize("seed", range(6))
async def test_whoever_asks_when_the_log_leads_to_the_same_state(log, seed):
    rng = random.Random(seed)
    engine, seqs = engine_over(log), []
    engine.subscribe(lambda done: seqs.extend(each.seq for each in done))
    async with working(engine):
        names = [f"asker {number}" for number in range(rng.choice((1, 5, 40)))]
        askers = [
            wander(engine, random.Random(f"{seed} {name}"), name, rng.randint(5, 30))
            for name in names
        ]
        await asyncio.gather(*askers)
    assert seqs == list(range(1, log.tail.seq + 1))
    assert_as_logged(engine, log)
