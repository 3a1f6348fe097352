"""History written by a thread: shared transactions, and early writes for queries."""

import asyncio
from contextlib import asynccontextmanager, closing

from clob_server.history import thread_writer
from clob_server.history.store import HistoryStore
from clob_server.history.thread_writer import ThreadWriter
from clob_server.log import SqliteLog
from tests.matchers import buy, sell
from tests.server.engines import NOW_MS, PATIENCE_S, engine_over, working
from tests.server.history.logs import dump, follow_log
from tests.server.history.test_settlements import running_service, settled

SIZE = 10**16
NEVER_S = 3_600


@asynccontextmanager
async def running(folder):
    """Yield a writer over a running engine, a function that trades, and the written positions."""
    written = []
    with closing(SqliteLog(folder)) as log:
        engine = engine_over(log)
        writer = ThreadWriter(
            HistoryStore(folder),
            log,
            engine,
            snapshot_commands=0,
            on_written=written.append,
        )
        engine.subscribe(writer.on_batch)

        async def trade(*numbers):
            for number in numbers:
                for side, name in ((sell, "s"), (buy, "b")):
                    order = side(f"{name}{number}", 60, SIZE, now_ms=NOW_MS)
                    await engine.submit(lambda now_ms, order=order: order)

        async with working(engine):
            yield writer, trade, written
        writer.flush()
        await asyncio.to_thread(writer.close)


async def test_batches_share_a_transaction_and_no_row_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(thread_writer, "WRITE_AFTER_S", NEVER_S)
    async with running(tmp_path) as (writer, trade, written):
        await trade(1, 2, 3)
        assert not written
        writer.flush()
        writer.flush()  # no rows left
        await trade(4)
    assert written == [7, 9]
    rows = dump(tmp_path)
    assert len(rows["trades"]) == 4
    (tmp_path / "history.db").unlink()
    follow_log(tmp_path)
    assert dump(tmp_path) == rows


async def test_rows_are_written_after_a_short_time(tmp_path):
    async with running(tmp_path) as (_, trade, written), asyncio.timeout(PATIENCE_S):
        await trade(1)
        while written[-1:] != [3]:  # a busy machine may write the first order alone
            await asyncio.sleep(thread_writer.WRITE_AFTER_S / 10)


async def test_query_does_not_wait_for_further_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(thread_writer, "WRITE_AFTER_S", NEVER_S)
    async with running_service(tmp_path) as server:
        await server.trade()
        await server.settle(1)
        server.clear_statuses()
        assert await server.statuses() == [settled(1)]
