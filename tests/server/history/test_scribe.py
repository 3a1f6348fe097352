"""History written by a thread: rows of several batches together, and at once where one asks."""

import asyncio
from contextlib import asynccontextmanager, closing

from clob_server.history import thread_writer
from clob_server.history.store import HistoryStore
from clob_server.history.thread_writer import Scribe
from clob_server.log import SqliteLog
from tests.matchers import buy, sell
from tests.server.engines import NOW_MS, PATIENCE_S, engine_over, played, working
from tests.server.history.logs import dump, followed
from tests.server.history.test_settlements import settled, venue

SIZE = 10**16
NEVER_S = 3_600


@asynccontextmanager
async def scribbled(folder):
    """An engine whose history a thread writes, how it trades, and the places that were reached."""
    reached = []
    with closing(SqliteLog(folder)) as log:
        engine = engine_over(log)
        made = Scribe(
            HistoryStore(folder), folder, log, engine, snapshot_commands=0, reached=reached.append
        )
        engine.listeners.append(made.listen)

        async def trade(*numbers):
            for number in numbers:
                for side, name in ((sell, "s"), (buy, "b")):
                    order = side(f"{name}{number}", 60, SIZE, now_ms=NOW_MS)
                    await engine.ask(lambda now_ms, order=order: order)

        async with working(engine):
            yield made, trade, reached
        made.hand_over()
        await asyncio.to_thread(made.close)


def test_batches_are_written_together_and_nothing_of_them_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(thread_writer, "WRITE_AFTER_S", NEVER_S)

    async def story():
        async with scribbled(tmp_path) as (made, trade, reached):
            await trade(1, 2, 3)
            assert not reached
            made.hand_over()
            made.hand_over()  # there is nothing more
            await trade(4)
        assert reached == [7, 9]

    played(story())
    found = dump(tmp_path)
    assert len(found["trades"]) == 4
    (tmp_path / "history.db").unlink()
    followed(tmp_path)
    assert dump(tmp_path) == found


def test_what_nobody_asks_for_is_written_soon(tmp_path):
    async def story():
        async with scribbled(tmp_path) as (_, trade, reached), asyncio.timeout(PATIENCE_S):
            await trade(1)
            while reached != [3]:
                await asyncio.sleep(thread_writer.WRITE_AFTER_S / 10)

    played(story())


def test_who_asks_does_not_wait_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr(thread_writer, "WRITE_AFTER_S", NEVER_S)

    async def story():
        async with venue(tmp_path) as here:
            await here.trade()
            await here.settle(1)
            here.forget()
            assert await here.stands() == [settled(1)]

    played(story())
