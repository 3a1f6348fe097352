"""Sequencer shutdown: it drains when stopped, and every pending submit ends when it fails."""

import asyncio
import contextlib
import errno

import pytest

from clob import AddMarket, Expire
from clob.events import OrderAdded
from clob_server.core.sequencer import (
    Committed,
    CommitUnknownError,
    Sequencer,
    SequencerStoppedError,
)
from clob_server.core.state import ServerState
from clob_server.log import FencedError, Folder, LogFailedError, SqliteLog
from tests.matchers import market, sell
from tests.server.engines import (
    NOW_MS,
    SlowLog,
    assert_as_logged,
    engine_over,
    logged,
    queued,
    submit,
    working,
)

# ----- the end -------------------------------------------------------------------------------


async def test_stop_drains_the_queue_and_rejects_new_commands(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    slow.through.release()
    async with working(engine) as run:
        await slow.begins()
        first = submit(engine, sell, "first", 50, 1)
        await slow.begins()
        others = [submit(engine, sell, number, 50, 1) for number in range(3)]
        await queued(first, *others)
        engine.stop()
        with pytest.raises(SequencerStoppedError, match="accepts no new commands"):
            await engine.submit(lambda now: sell("x", 50, 1, now_ms=now))
        assert not run.done()
        slow.through.release(2)
        await asyncio.gather(first, *others)
        await run
    assert engine.seq == 5
    assert_as_logged(engine, log)


async def test_idle_sequencer_stops(log):
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


async def test_commands_submitted_before_run_are_applied(log):
    engine = engine_over(log)
    tasks = [submit(engine, AddMarket, market=market()), submit(engine, sell, "s", 50, 1)]
    await queued(*tasks)
    engine.stop()
    await engine.run()
    assert [type(event) for event in (await tasks[1]).outcome] == [OrderAdded]


# ----- failing -------------------------------------------------------------------------------


class FullFolder(Folder):
    """A folder on a disk that is full once `full` is set."""

    full = False

    def overwrite(self, name, data):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().overwrite(name, data)


async def outcomes(*tasks):
    """Return the result or the error of each task, all within 5 seconds."""
    async with asyncio.timeout(5):
        return await asyncio.gather(*tasks, return_exceptions=True)


def kinds(found):
    return [type(each) for each in found]


async def test_log_failure_fails_all_pending_submits(tmp_path):
    files = FullFolder(tmp_path)
    log = SqliteLog(tmp_path, files=files)
    slow, published = SlowLog(log), []
    engine = engine_over(slow)
    run = asyncio.create_task(engine.run())
    slow.through.release()
    await submit(engine, AddMarket, market=market())
    await slow.begins()
    engine.subscribe(published.extend)
    batch = [submit(engine, sell, number, 50, 1) for number in range(3)]
    await slow.begins()
    waiting = [submit(engine, sell, number, 50, 1) for number in range(3, 6)]
    await queued(*batch, *waiting)
    batch[1].cancel()
    files.full = True
    state = engine.state.snapshot()
    slow.through.release()
    found = kinds(await outcomes(*batch, *waiting, run))
    # Whether the batch is durable is unknown; the queued commands were never logged.
    assert found[:3] == [LogFailedError, asyncio.CancelledError, LogFailedError]
    assert found[3:] == [SequencerStoppedError] * 3 + [LogFailedError]
    with pytest.raises(SequencerStoppedError):
        await engine.submit(lambda now: sell("x", 50, 1, now_ms=now))
    assert engine.state.snapshot() == state
    assert not published
    log.close()


async def test_log_failure_while_draining_fails_all_pending_submits(tmp_path):
    files = FullFolder(tmp_path)
    log = SqliteLog(tmp_path, files=files)
    engine = engine_over(log)
    tasks = [submit(engine, Expire) for _ in range(3)]
    await queued(*tasks)
    engine.stop()
    files.full = True
    found = kinds(await outcomes(*tasks, engine.run()))
    assert found == [LogFailedError] * 4
    log.close()


async def test_log_is_readable_after_a_failure(tmp_path):
    files = FullFolder(tmp_path)
    log = SqliteLog(tmp_path, files=files)
    engine = engine_over(log)
    run = asyncio.create_task(engine.run())
    await submit(engine, AddMarket, market=market())
    files.full = True
    await outcomes(submit(engine, sell, "s", 50, 1), run)
    log.close()
    again = SqliteLog(tmp_path)
    # The failed command may be durable or not; the acknowledged one must be.
    assert logged(again)[0] == [AddMarket(market=market(), now_ms=NOW_MS)]
    assert again.tail.seq in (1, 2)
    again.close()


async def test_append_by_another_writer_stops_the_sequencer(log):
    engine = engine_over(log)
    run = asyncio.create_task(engine.run())
    await submit(engine, AddMarket, market=market())
    log.append([b"\x80"], log.tail.seq)  # by another writer
    found = kinds(await outcomes(submit(engine, sell, "s", 50, 1), run))
    assert found == [FencedError] * 2
    assert log.tail.seq == 2


async def test_failing_clock_fails_all_pending_submits(log):
    def clock_ms():
        raise OSError("no clock")

    engine = Sequencer(log, ServerState(), clock_ms)
    run = asyncio.create_task(engine.run())
    tasks = [submit(engine, Expire) for _ in range(2)]
    found = kinds(await outcomes(*tasks, run))
    assert found == [OSError] * 3
    assert log.tail.seq == 0


async def test_cancelled_error_from_make_fails_all_pending_submits(log):
    def make(_):
        raise asyncio.CancelledError

    engine = engine_over(log)
    run = asyncio.create_task(engine.run())
    before = submit(engine, Expire)
    failing = asyncio.create_task(engine.submit(make))
    tasks = [before, failing, submit(engine, Expire)]
    await queued(*tasks)
    await asyncio.wait(tasks, timeout=5)
    engine.stop()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    assert all(task.done() for task in tasks)


async def test_failing_subscriber_fails_submits_that_were_not_applied(log):
    slow = SlowLog(log)
    engine = engine_over(slow)

    def subscriber(_):
        raise KeyError("subscriber failed")

    engine.subscribe(subscriber)
    run = asyncio.create_task(engine.run())
    first = submit(engine, Expire)
    await slow.begins()
    later = submit(engine, Expire)
    await queued(first, later)
    slow.through.release()
    found = kinds(await outcomes(first, later, run))
    assert found == [Committed, SequencerStoppedError, KeyError]


async def test_cancelled_sequencer_fails_all_pending_submits(log):
    slow = SlowLog(log)
    engine = engine_over(slow)
    run = asyncio.create_task(engine.run())
    first = submit(engine, Expire)
    await slow.begins()
    later = submit(engine, Expire)
    await queued(first, later)
    slow.through.release()
    run.cancel()
    found = await outcomes(first, later, run)
    expected = [CommitUnknownError, SequencerStoppedError, asyncio.CancelledError]
    assert kinds(found) == expected
    # The commit was in progress, and the log thread ends before the sequencer does.
    assert log.tail.seq == 1
