"""Sequencer with server commands, charges and calls on the log thread."""

import asyncio
import threading
import time

import pytest

from clob import AddMarket, Cancel, Expire
from clob.errors import DuplicateOrderError
from clob.journal import ZERO_HASH, event_hash
from clob_server.core import sequencer
from clob_server.core.commands import Budgets, OrderCharge, SetBudgets, SetDelegate
from clob_server.core.rejections import DelegateNonceError
from clob_server.core.sequencer import Committed, Sequencer
from clob_server.core.state import ServerState
from tests.matchers import buy, market, sell
from tests.server.engines import (
    NOW_MS,
    PATIENCE_S,
    SlowLog,
    assert_as_logged,
    engine_over,
    logged,
    queued,
    record,
    signed,
    submit,
    working,
)


def delegate(nonce, now_ms):
    return SetDelegate(maker="M", delegate="D", allowed=True, nonce=nonce, now_ms=now_ms)


async def test_server_command_is_applied_and_logged(log):
    engine, budgets = engine_over(log), Budgets(orders_per_minute=1)
    async with working(engine):
        done = await submit(engine, SetBudgets, budgets=budgets)
        assert done == Committed(2, SetBudgets(budgets=budgets, now_ms=NOW_MS), (), 0)
        assert engine.state.registry.budgets == budgets
    assert logged(log)[1] == [done.command]
    assert_as_logged(engine, log)


async def test_rejected_server_command_is_raised_and_logged(log):
    engine = engine_over(log)
    async with working(engine):
        await engine.submit(lambda now: delegate("7", now))
        with pytest.raises(DelegateNonceError, match="at least 8 for maker M; got 7"):
            await engine.submit(lambda now: delegate("7", now))
    assert [len(frame) for frame in logged(log)] == [1, 1, 1]
    assert_as_logged(engine, log)


async def test_queued_signed_orders_keep_their_sequence_and_signature_records(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = submit(engine, Expire)
        await slow.begins()
        tasks = [submit(engine, signed(sell), f"{number}", 50, 1) for number in range(20)]
        await queued(first, *tasks)
        slow.through.release(2)
        done = await asyncio.gather(*tasks)
    assert [each.command.order.id for each in done] == [f"{number}" for number in range(20)]
    assert [each.seq for each in done] == list(range(3, 23))
    for number in range(20):
        assert engine.state.signature(f"{number}") == record()
    assert_as_logged(engine, log)


async def test_only_the_rejection_of_the_last_command_is_raised(log):
    engine = engine_over(log)
    async with working(engine):
        done = await engine.submit(
            lambda now: (
                AddMarket(market=market(), now_ms=now),  # rejected: it exists
                signed(sell)("s", 50, 1, now_ms=now),
            )
        )
        assert (done.seq, len(done.outcome)) == (3, 1)
        with pytest.raises(DuplicateOrderError):
            await engine.submit(lambda now: signed(sell, salt="8")("s", 50, 1, now_ms=now))
        assert engine.state.signature("s") == record()
    assert_as_logged(engine, log)


async def test_charges_are_logged_first_in_each_batch_and_published(log):
    published, owed = [], [(b"payer", 3)]

    def also(now_ms, payers):
        return [OrderCharge(now_ms=now_ms, charges=(owed.pop(),))] if owed else []

    engine = engine_over(log, charges=also)
    engine.subscribe(published.extend)
    async with working(engine):
        owed.append((b"other", 1))
        done = await submit(engine, sell, "s", 50, 1)
    assert [type(each.command).__name__ for each in published] == [
        "OrderCharge",
        "AddMarket",
        "OrderCharge",
        "Submit",
    ]
    assert [each.seq for each in published] == [1, 2, 3, 4]
    assert done == published[3]
    charged = [(each.payer, each.count) for each in engine.state.charges]
    assert charged == [(b"payer", 3), (b"other", 1)]
    assert_as_logged(engine, log)


async def test_result_has_the_number_of_earlier_trades(log):
    engine, published = engine_over(log), []
    engine.subscribe(published.extend)
    async with working(engine):
        for number in range(3):
            await submit(engine, signed(sell), f"s{number}", 50, 1)
        two = await submit(engine, signed(buy), "b", 50, 2)
        one = await submit(engine, signed(buy), "c", 50, 1)
        none = await submit(engine, buy, "d", 50, 1)
    assert [done.num_trades for done in (two, one, none)] == [0, 2, 3]
    assert engine.state.num_trades == 3
    assert_as_logged(engine, log)


async def test_event_hash_covers_engine_commands_only(log):
    engine, published = engine_over(log), []
    engine.subscribe(published.extend)
    async with working(engine):
        await engine.submit(lambda now: delegate("1", now))
        await submit(engine, signed(sell), "s", 50, 1)
    hashed = ZERO_HASH
    for place in (0, 2):
        hashed = event_hash(hashed, published[place].outcome)
    assert engine.event_hash == hashed
    assert_as_logged(engine, log)


async def test_time_does_not_decrease_after_a_server_command(log):
    clock = [NOW_MS]
    engine = Sequencer(log, ServerState(), lambda: clock[0])
    async with working(engine):
        clock[0] = NOW_MS + 5
        await engine.submit(lambda now: delegate("1", now))
        clock[0] = NOW_MS
        done = await submit(engine, sell, "s", 50, 1)
    assert done.now_ms == engine.state.now_ms == NOW_MS + 5
    assert_as_logged(engine, log)


async def test_a_finished_order_keeps_its_signature_record(log):
    engine = engine_over(log)
    async with working(engine):
        await submit(engine, signed(sell), "s", 50, 1)
        await submit(engine, Cancel, order_id="s")
        assert list(engine.state._attachments) == ["s"]
    assert_as_logged(engine, log)


# ----- other calls on the log thread ---------------------------------------------------------


async def test_after_commit_callbacks_run_on_the_log_thread_after_each_batch(log):
    done, loop = [], threading.get_ident()
    engine = engine_over(log)

    def note(name):
        return lambda: done.append((name, log.tail.seq, threading.get_ident() != loop))

    engine.after_commit += [note("one"), note("two")]
    async with working(engine):
        await submit(engine, sell, "s", 50, 1)
    # At the beginning, after the market and after the order, each before the next batch.
    expected = [(name, seq, True) for seq in (0, 1, 2) for name in ("one", "two")]
    assert done == expected
    assert_as_logged(engine, log)


async def test_failing_after_commit_callback_does_not_stop_the_sequencer(log):
    engine, done = engine_over(log), []
    engine.after_commit.insert(0, lambda: 1 / 0)
    engine.after_commit.append(lambda: done.append(1))
    async with working(engine):
        await submit(engine, sell, "s", 50, 1)
    assert len(done) == 3
    assert_as_logged(engine, log)


async def test_upkeep_runs_on_the_log_thread_once_for_several_batches(log, monkeypatch):
    monkeypatch.setattr(sequencer, "UPKEEP_S", 3600)
    done, loop = [], threading.get_ident()
    engine = engine_over(log)
    engine.upkeep += [lambda: 1 / 0, lambda: done.append((log.tail.seq, threading.get_ident()))]
    async with working(engine):
        for name in "abcde":
            await submit(engine, sell, name, 50, 1)
        assert not done
    ((seq, thread),) = done  # when the sequencer stopped
    assert seq == log.tail.seq == 6
    assert thread != loop
    assert_as_logged(engine, log)


async def test_batch_that_is_written_and_not_applied_is_not_complete(log):
    seen = []
    engine = engine_over(log, on_commit=lambda _: seen.append((log.tail.seq, engine.complete_seq)))
    async with working(engine):
        await submit(engine, sell, "s", 50, 1)
        await submit(engine, sell, "t", 50, 1)
    assert seen == [(1, 0), (2, 1), (3, 2)]
    assert engine.complete_seq == 3
    assert_as_logged(engine, log)


async def test_upkeep_follows_a_batch_within_its_time(log):
    engine, is_done = engine_over(log), threading.Event()
    async with working(engine):
        await submit(engine, sell, "s", 50, 1)
        engine.upkeep.append(is_done.set)
        await submit(engine, sell, "t", 50, 1)
        assert await asyncio.to_thread(is_done.wait, PATIENCE_S)
    assert_as_logged(engine, log)


async def test_submit_does_not_wait_for_after_commit_callbacks(log):
    engine, through, begun = engine_over(log), threading.Event(), threading.Event()
    async with working(engine):
        engine.run_on_log_thread(begun.set)  # waits for the calls made at startup
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        engine.after_commit.append(lambda: through.wait(PATIENCE_S))
        await submit(engine, sell, "s", 50, 1)
        later = submit(engine, sell, "t", 50, 1)
        await queued(later)
        through.set()
        await later
    assert_as_logged(engine, log)


async def test_run_on_log_thread_runs_between_two_batches(log):
    slow, seen = SlowLog(log), []
    engine = engine_over(slow)
    engine.run_on_log_thread(lambda: seen.append("before run"))
    slow.through.release()
    async with working(engine):
        await slow.begins()
        first = submit(engine, sell, "s", 50, 1)
        await slow.begins()
        engine.run_on_log_thread(lambda: seen.append(log.tail.seq))
        later = submit(engine, sell, "t", 50, 1)
        await queued(first, later)
        assert not seen
        slow.through.release(2)
        await asyncio.gather(first, later)
    engine.run_on_log_thread(lambda: seen.append("after stop"))
    assert seen == [2]
    assert_as_logged(engine, log)


async def test_on_commit_receives_the_duration_of_each_batch(log):
    slow, took = SlowLog(log), []
    engine = engine_over(slow, on_commit=took.append)
    slow.through.release()
    async with working(engine):
        await slow.begins()
        task, begin = submit(engine, sell, "s", 50, 1), time.perf_counter()
        await slow.begins()
        begun = time.perf_counter()
        await asyncio.sleep(0.02)
        least = time.perf_counter() - begun
        assert len(took) == 1
        slow.through.release()
        await task
        assert least <= took[1] <= time.perf_counter() - begin
    assert len(took) == 2
