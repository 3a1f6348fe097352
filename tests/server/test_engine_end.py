"""How the engine ends: it drains when it is stopped, and nobody waits for ever when it fails."""

import asyncio
import contextlib
import errno

import pytest

from clob import AddMarket, Expire
from clob.events import OrderAdded
from clob_server.core.sequencer import OutcomeUnknownError, Sequencer, SequencerStoppedError
from clob_server.core.state import ServerState
from clob_server.log import FencedError, Folder, LogFailedError, SqliteLog
from tests.matchers import market, sell
from tests.server.engines import (
    NOW_MS,
    SlowLog,
    ask,
    asked,
    assert_as_logged,
    engine_over,
    logged,
    working,
)

# ----- the end -------------------------------------------------------------------------------


async def test_stopping_does_what_waits_and_takes_nothing_more(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine) as run:
        await slow.begins()
        first = ask(engine, sell, "first", 50, 1)
        await slow.begins()
        others = [ask(engine, sell, number, 50, 1) for number in range(3)]
        await asked(first, *others)
        engine.stop()
        with pytest.raises(SequencerStoppedError, match="accepts no new commands"):
            await engine.submit(lambda now: sell("x", 50, 1, now_ms=now))
        assert not run.done()
        slow.through.release(2)
        await asyncio.gather(first, *others)
        await run
    assert engine.seq == 5
    assert_as_logged(engine, log)


async def test_an_engine_that_was_asked_nothing_stops(log):
    for stops_first in (True, False):
        engine = engine_over(log)
        if stops_first:
            engine.stop()
        run = asyncio.create_task(engine.run())
        await asyncio.sleep(0)
        engine.stop()
        await run
        with pytest.raises(SequencerStoppedError):
            await engine.submit(lambda now: Expire(now_ms=now))
    assert log.tail.seq == 0


async def test_what_was_asked_before_it_began_to_work_is_done(log):
    engine = engine_over(log)
    tasks = [ask(engine, AddMarket, market=market()), ask(engine, sell, "s", 50, 1)]
    await asked(*tasks)
    engine.stop()
    await engine.run()
    assert [type(event) for event in (await tasks[1]).outcome] == [OrderAdded]


# ----- failing -------------------------------------------------------------------------------


class FullFolder(Folder):
    """A folder on a disk that is full from some moment on."""

    full = False

    def overwrite(self, name, data):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().overwrite(name, data)


async def outcomes(*tasks):
    """Wait for all, and give what each raised or returned; nobody may wait for ever."""
    async with asyncio.timeout(5):
        return await asyncio.gather(*tasks, return_exceptions=True)


def kinds(found):
    return [type(each) for each in found]


async def test_a_log_that_fails_fails_all_who_wait(tmp_path):
    files = FullFolder(tmp_path)
    log = SqliteLog(tmp_path, files=files)
    slow, heard = SlowLog(log), []
    engine = engine_over(slow)
    run = asyncio.create_task(engine.run())
    slow.through.release()
    await ask(engine, AddMarket, market=market())
    await slow.begins()
    engine.subscribe(heard.extend)
    batch = [ask(engine, sell, number, 50, 1) for number in range(3)]
    await slow.begins()
    waiting = [ask(engine, sell, number, 50, 1) for number in range(3, 6)]
    await asked(*batch, *waiting)
    batch[1].cancel()
    files.full = True
    state = engine.state.snapshot()
    slow.through.release()
    found = kinds(await outcomes(*batch, *waiting, run))
    # Those of the batch cannot know whether it is durable; those who waited know that they
    # were never asked.
    assert found[:3] == [LogFailedError, asyncio.CancelledError, LogFailedError]
    assert found[3:] == [SequencerStoppedError] * 3 + [LogFailedError]
    with pytest.raises(SequencerStoppedError):
        await engine.submit(lambda now: sell("x", 50, 1, now_ms=now))
    assert engine.state.snapshot() == state
    assert not heard
    log.close()


async def test_a_log_that_fails_while_the_engine_drains_fails_all_who_wait(tmp_path):
    files = FullFolder(tmp_path)
    log = SqliteLog(tmp_path, files=files)
    engine = engine_over(log)
    tasks = [ask(engine, Expire) for _ in range(3)]
    await asked(*tasks)
    engine.stop()
    files.full = True
    found = kinds(await outcomes(*tasks, engine.run()))
    assert found == [LogFailedError] * 4
    log.close()


async def test_after_a_failure_a_new_engine_reads_what_is_durable(tmp_path):
    files = FullFolder(tmp_path)
    log = SqliteLog(tmp_path, files=files)
    engine = engine_over(log)
    run = asyncio.create_task(engine.run())
    await ask(engine, AddMarket, market=market())
    files.full = True
    await outcomes(ask(engine, sell, "s", 50, 1), run)
    log.close()
    again = SqliteLog(tmp_path)
    # Whether the one that failed is there is left open; what was answered is.
    assert logged(again)[0] == [AddMarket(market=market(), now_ms=NOW_MS)]
    assert again.tail.seq in (1, 2)
    again.close()


async def test_an_engine_goes_on_only_with_a_log_that_ends_where_it_does(log):
    engine = engine_over(log)
    run = asyncio.create_task(engine.run())
    await ask(engine, AddMarket, market=market())
    log.append([b"\x80"], log.tail.seq)  # behind the back of the engine
    found = kinds(await outcomes(ask(engine, sell, "s", 50, 1), run))
    assert found == [FencedError] * 2
    assert log.tail.seq == 2


async def test_a_clock_that_fails_leaves_nobody_waiting(log):
    def clock_ms():
        raise OSError("no clock")

    engine = Sequencer(log, ServerState(), clock_ms)
    run = asyncio.create_task(engine.run())
    tasks = [ask(engine, Expire) for _ in range(2)]
    found = kinds(await outcomes(*tasks, run))
    assert found == [OSError] * 3
    assert log.tail.seq == 0


async def test_a_make_that_is_no_ordinary_failure_leaves_nobody_waiting(log):
    def make(_):
        raise asyncio.CancelledError

    engine = engine_over(log)
    run = asyncio.create_task(engine.run())
    tasks = [ask(engine, Expire), asyncio.create_task(engine.submit(make)), ask(engine, Expire)]
    await asked(*tasks)
    await asyncio.wait(tasks, timeout=5)
    engine.stop()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    assert all(task.done() for task in tasks)


async def test_a_listener_that_raises_leaves_nobody_waiting(log):
    slow = SlowLog(log)
    engine = engine_over(slow)

    def hear(_):
        raise KeyError("it must not")

    engine.subscribe(hear)
    run = asyncio.create_task(engine.run())
    first = ask(engine, Expire)
    await slow.begins()
    later = ask(engine, Expire)
    await asked(first, later)
    slow.through.release()
    found = kinds(await outcomes(first, later, run))
    assert found == [KeyError, SequencerStoppedError, KeyError]


async def test_an_engine_that_is_cancelled_leaves_nobody_waiting(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    run = asyncio.create_task(engine.run())
    first = ask(engine, Expire)
    await slow.begins()
    later = ask(engine, Expire)
    await asked(first, later)
    slow.through.release()
    run.cancel()
    found = await outcomes(first, later, run)
    expected = [OutcomeUnknownError, SequencerStoppedError, asyncio.CancelledError]
    assert kinds(found) == expected
    # The commit was on its way, and its thread is over when the engine is.
    assert log.tail.seq == 1
