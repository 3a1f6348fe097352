"""Helpers for tests of the sequencer: a slow log, submitting and comparing."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
from msgspec import structs

from clob import AddMarket, Market, Matcher
from clob.journal import verify
from clob_server.cli.verify import audit, journal_of
from clob_server.core.commands import SignatureRecord
from clob_server.core.recovery import commands_of, recover
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.log import SqliteLog
from tests.matchers import market

NOW_MS = 1_700_000_000_000
PATIENCE_S = 30


class SlowLog:
    """A log whose commits wait for a release of `through`."""

    def __init__(self, log):
        self._log = log
        self.begun, self.through = threading.Semaphore(0), threading.Semaphore(0)

    def append(self, *arguments, **named):
        self.begun.release()
        assert self.through.acquire(timeout=PATIENCE_S)
        return self._log.append(*arguments, **named)

    async def begins(self):
        """Wait until the next commit has begun."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE_S)

    def __getattr__(self, name):
        return getattr(self._log, name)


def engine_over(log, **options):
    """Return a sequencer over a new state, with a constant clock."""
    return Sequencer(log, ServerState(), lambda: NOW_MS, **options)


@contextlib.asynccontextmanager
async def working(engine):
    """Run a sequencer with one market; stop it at the end."""
    task = asyncio.create_task(engine.run())
    try:
        await engine.submit(lambda now_ms: AddMarket(market=market(), now_ms=now_ms))
        yield task
    finally:
        engine.stop()
        await task


def write_markets(folder, *names):
    """Write a log with markets of these names, with the tokens 7001, 7002 and so on."""

    async def write():
        with contextlib.closing(SqliteLog(folder)) as log:
            sequencer = engine_over(log)
            task = asyncio.create_task(sequencer.run())
            for number, name in enumerate(names):
                yes = 7_001 + 2 * number
                market = Market(id=name, yes=str(yes), no=str(yes + 1))
                await sequencer.submit(lambda now_ms, m=market: AddMarket(market=m, now_ms=now_ms))
            sequencer.stop()
            await task

    with ThreadPoolExecutor(1) as pool:  # the loop of a browser may run in this thread
        pool.submit(asyncio.run, write()).result()


def record(**fields):
    """Return the signature record of an order."""
    fields = {"signer": "0xA", "salt": "7", "taker": "0x0", "signature_type": 1} | fields
    return SignatureRecord(signature=bytes(65), **fields)


def attachment(**fields):
    """Return the attachment of a signed order."""
    return msgspec.msgpack.encode(record(**fields))


def signed(make, **fields):
    """Return a function that makes an order as ``make`` does, with a signature record."""

    def with_record(*arguments, **options):
        return structs.replace(make(*arguments, **options), attachment=attachment(**fields))

    return with_record


def submit(engine, make, *arguments, **fields):
    """Submit a command in a new task; return the task."""
    return asyncio.create_task(engine.submit(lambda now: make(*arguments, now_ms=now, **fields)))


async def queued(*tasks):
    """Run new tasks until they wait in the queue."""
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def data_of(log):
    """Return the journal of a log, as bytes."""
    return b"".join(journal_of(log, log.origin, log.tail.seq))


def logged(log):
    """Return the commands of a log, frame by frame."""
    return [commands_of(frame) for frame in log.read()]


def assert_as_logged(engine, log):
    """Assert that replay, recovery and audit of the log equal the state of the sequencer."""
    replayed = ServerState()
    replayed.replay(command for frame in logged(log) for command in frame)
    assert replayed.snapshot() == engine.state.snapshot()
    exchange, hashed, count = recover(log)
    assert exchange.snapshot() == engine.state.snapshot()
    assert (hashed, count) == (engine.event_hash, engine.seq)
    audited, matcher = audit(log), Matcher()
    for report in (audited, verify(data_of(log), matcher)):
        assert report.last_seq == report.commands == log.tail.seq == engine.seq
        assert report.event_hash == engine.event_hash
        assert report.state_hash == engine.state.matcher.state_hash()
    assert matcher.snapshot() == engine.state.matcher.snapshot()
