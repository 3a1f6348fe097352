"""What tests of the engine share: a slow log, and short ways to ask and to compare."""

import asyncio
import contextlib
import threading

from clob import AddMarket, Matcher
from clob.journal import verify
from clob_server.audit import journal_of
from clob_server.engine import Engine
from tests.matchers import market

NOW_MS = 1_700_000_000_000
PATIENCE_S = 30


class SlowLog:
    """A log each of whose commits begins, and then waits until it is let through."""

    def __init__(self, log):
        self._log = log
        self.begun, self.through = threading.Semaphore(0), threading.Semaphore(0)

    def append(self, *arguments, **named):
        self.begun.release()
        assert self.through.acquire(timeout=PATIENCE_S)
        return self._log.append(*arguments, **named)

    async def begins(self):
        """Wait until the next commit is on its way."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE_S)

    def __getattr__(self, name):
        return getattr(self._log, name)


def engine_over(log, **options):
    """An engine over a matcher that has seen nothing yet, with a clock that stands still."""
    return Engine(log, Matcher(), lambda: NOW_MS, **options)


@contextlib.asynccontextmanager
async def working(engine):
    """Let an engine work, with a market to trade in, and have it end."""
    task = asyncio.create_task(engine.run())
    try:
        await engine.ask(lambda now_ms: AddMarket(market=market(), now_ms=now_ms))
        yield task
    finally:
        engine.stop()
        await task


def played(story):
    """Have a story told to its end, which must come."""
    asyncio.run(asyncio.wait_for(story, 2 * PATIENCE_S))


def ask(engine, make, *arguments, **fields):
    """Ask in a task of its own."""
    return asyncio.create_task(engine.ask(lambda now: make(*arguments, now_ms=now, **fields)))


async def asked(*tasks):
    """Let tasks that were just made come to where they wait."""
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def data_of(log):
    """The journal that a log holds, as bytes."""
    return b"".join(journal_of(log, log.origin, log.tail.seq))


def logged(log):
    """The commands in a log, frame by frame."""
    return [frame.commands() for frame in log.read()]


def assert_as_logged(engine, log):
    """A matcher that is given what is in the log ends where the engine's did."""
    again = Matcher()
    found = verify(data_of(log), again)
    assert found.last_seq == log.tail.seq == engine.seq
    assert found.event_hash == engine.event_hash
    assert found.state_hash == engine.state.state_hash()
    assert again.snapshot() == engine.state.snapshot()
