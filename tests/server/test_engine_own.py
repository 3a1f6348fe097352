"""The engine with the server's own commands: they are durable and heard of like any other."""

import asyncio
import threading
import time

import pytest

from clob import AddMarket, Cancel, Expire
from clob.errors import DuplicateOrderError
from clob.journal import ZERO_HASH, event_hash
from clob_server.core.commands import Budgets, OrderCharge, SetBudgets, SetDelegate
from clob_server.core.rejections import DelegateNonceError
from clob_server.core.sequencer import Committed, Sequencer
from clob_server.core.state import ServerState
from tests.matchers import buy, market, sell
from tests.server.engines import (
    NOW_MS,
    PATIENCE_S,
    SlowLog,
    ask,
    asked,
    assert_as_logged,
    engine_over,
    logged,
    record,
    signed,
    working,
)


def delegate(nonce, now_ms):
    return SetDelegate(maker="M", delegate="D", allowed=True, nonce=nonce, now_ms=now_ms)


async def test_a_command_of_the_server_is_done_and_is_in_the_log(log):
    engine, budgets = engine_over(log), Budgets(orders_per_minute=1)
    async with working(engine):
        done = await ask(engine, SetBudgets, budgets=budgets)
        assert done == Committed(2, SetBudgets(budgets=budgets, now_ms=NOW_MS), (), 0)
        assert engine.state.registry.budgets == budgets
    assert logged(log)[1] == [done.command]
    assert_as_logged(engine, log)


async def test_a_refusal_of_the_server_is_the_answer_and_is_in_the_log(log):
    engine = engine_over(log)
    async with working(engine):
        await engine.submit(lambda now: delegate("7", now))
        with pytest.raises(DelegateNonceError, match="at least 8 for maker M, not 7"):
            await engine.submit(lambda now: delegate("7", now))
    assert [len(frame) for frame in logged(log)] == [1, 1, 1]
    assert_as_logged(engine, log)


async def test_of_several_commands_the_last_is_answered_and_nothing_comes_between(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = ask(engine, Expire)
        await slow.begins()
        tasks = [ask(engine, signed(sell), f"{number}", 50, 1) for number in range(20)]
        await asked(first, *tasks)
        slow.through.release(2)
        done = await asyncio.gather(*tasks)
    assert [each.command.order.id for each in done] == [f"{number}" for number in range(20)]
    assert [each.seq for each in done] == list(range(3, 23))
    for number in range(20):
        assert engine.state.signature(f"{number}") == record()
    assert_as_logged(engine, log)


async def test_only_the_refusal_of_the_last_command_is_raised(log):
    engine = engine_over(log)
    async with working(engine):
        done = await engine.submit(
            lambda now: (
                AddMarket(market=market(), now_ms=now),  # refused: it is there
                signed(sell)("s", 50, 1, now_ms=now),
            )
        )
        assert (done.seq, len(done.outcome)) == (3, 1)
        with pytest.raises(DuplicateOrderError):
            await engine.submit(
                lambda now: signed(sell, salt="8")("s", 50, 1, now_ms=now)
            )
        assert engine.state.signature("s") == record()
    assert_as_logged(engine, log)


async def test_what_else_goes_into_each_batch_comes_first_and_is_heard_of(log):
    heard, owed = [], [(b"payer", 3)]

    def also(now_ms):
        return [OrderCharge(now_ms=now_ms, charges=(owed.pop(),))] if owed else []

    engine = engine_over(log, charges=also)
    engine.subscribe(heard.extend)
    async with working(engine):
        owed.append((b"other", 1))
        done = await ask(engine, sell, "s", 50, 1)
    assert [type(each.command).__name__ for each in heard] == [
        "OrderCharge",
        "AddMarket",
        "OrderCharge",
        "Submit",
    ]
    assert [each.seq for each in heard] == [1, 2, 3, 4]
    assert done == heard[3]
    charged = [(each.payer, each.count) for each in engine.state.charges]
    assert charged == [(b"payer", 3), (b"other", 1)]
    assert_as_logged(engine, log)


async def test_an_answer_says_how_many_trades_there_were_before(log):
    engine, heard = engine_over(log), []
    engine.subscribe(heard.extend)
    async with working(engine):
        for number in range(3):
            await ask(engine, signed(sell), f"s{number}", 50, 1)
        two = await ask(engine, signed(buy), "b", 50, 2)
        one = await ask(engine, signed(buy), "c", 50, 1)
        none = await ask(engine, buy, "d", 50, 1)
    assert [done.num_trades for done in (two, one, none)] == [0, 2, 3]
    assert engine.state.num_trades == 3
    assert_as_logged(engine, log)


async def test_the_event_hash_is_of_the_commands_of_the_engine_alone(log):
    engine, heard = engine_over(log), []
    engine.subscribe(heard.extend)
    async with working(engine):
        await engine.submit(lambda now: delegate("1", now))
        await ask(engine, signed(sell), "s", 50, 1)
    hashed = ZERO_HASH
    for place in (0, 2):
        hashed = event_hash(hashed, heard[place].outcome)
    assert engine.event_hash == hashed
    assert_as_logged(engine, log)


async def test_time_does_not_go_back_behind_a_command_of_the_server(log):
    clock = [NOW_MS]
    engine = Sequencer(log, ServerState(), lambda: clock[0])
    async with working(engine):
        clock[0] = NOW_MS + 5
        await engine.submit(lambda now: delegate("1", now))
        clock[0] = NOW_MS
        done = await ask(engine, sell, "s", 50, 1)
    assert done.now_ms == engine.state.now_ms == NOW_MS + 5
    assert_as_logged(engine, log)


async def test_a_finished_order_keeps_its_signature_record(log):
    engine = engine_over(log)
    async with working(engine):
        await ask(engine, signed(sell), "s", 50, 1)
        await ask(engine, Cancel, order_id="s")
        assert engine.state.signed_orders == ["s"]
    assert_as_logged(engine, log)


# ----- what else the thread of the log does --------------------------------------------------


async def test_after_each_batch_the_thread_of_the_log_does_what_can_wait(log):
    done, loop = [], threading.get_ident()
    engine = engine_over(log)

    def note(name):
        return lambda: done.append((name, log.tail.seq, threading.get_ident() != loop))

    engine.after_commit += [note("one"), note("two")]
    async with working(engine):
        await ask(engine, sell, "s", 50, 1)
    # At the beginning, after the market and after the order, each before the next batch.
    expected = [(name, seq, True) for seq in (0, 1, 2) for name in ("one", "two")]
    assert done == expected
    assert_as_logged(engine, log)


async def test_what_can_wait_may_fail_and_the_engine_works_on(log):
    engine, done = engine_over(log), []
    engine.after_commit.insert(0, lambda: 1 / 0)
    engine.after_commit.append(lambda: done.append(1))
    async with working(engine):
        await ask(engine, sell, "s", 50, 1)
    assert len(done) == 3
    assert_as_logged(engine, log)


async def test_acknowledgements_do_not_wait_for_what_can_wait(log):
    engine, through, begun = engine_over(log), threading.Event(), threading.Event()
    async with working(engine):
        engine.run_on_log_thread(begun.set)  # what is done as it begins to work is over then
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        engine.after_commit.append(lambda: through.wait(PATIENCE_S))
        await ask(engine, sell, "s", 50, 1)
        later = ask(engine, sell, "t", 50, 1)
        await asked(later)
        through.set()
        await later
    assert_as_logged(engine, log)


async def test_what_the_thread_of_the_log_is_told_is_done_between_two_batches(log):
    slow, seen = SlowLog(log), []
    engine = engine_over(slow)
    engine.run_on_log_thread(lambda: seen.append("before it works, nobody does it"))
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = ask(engine, sell, "s", 50, 1)
        await slow.begins()
        engine.run_on_log_thread(lambda: seen.append(log.tail.seq))
        later = ask(engine, sell, "t", 50, 1)
        await asked(first, later)
        assert not seen
        slow.through.release(2)
        await asyncio.gather(first, later)
    engine.run_on_log_thread(lambda: seen.append("after its end neither"))
    assert seen == [2]
    assert_as_logged(engine, log)


async def test_it_is_told_how_long_each_batch_took(log):
    slow, took = SlowLog(log), []
    engine = engine_over(slow, on_commit=took.append)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        task, begin = ask(engine, sell, "s", 50, 1), time.perf_counter()
        await slow.begins()
        begun = time.perf_counter()
        await asyncio.sleep(0.02)
        least = time.perf_counter() - begun
        assert len(took) == 1
        slow.through.release()
        await task
        assert least <= took[1] <= time.perf_counter() - begin
    assert len(took) == 2
