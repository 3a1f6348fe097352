"""The outbox of a node follows the log, except while a worker of the node has it."""

import asyncio
import contextlib

import pytest

from clob import RejectedError
from clob_server.chain.tx.outbox import Outbox, OutboxBehindError
from clob_server.cluster.outbox import OutboxReplica
from clob_server.core.commands import RecordOutbox, RecordRestore
from clob_server.core.recovery import recover
from clob_server.core.registry import RESTORE_GAP
from clob_server.core.sequencer import Sequencer
from clob_server.log import SqliteLog
from tests.server.engines import NOW_MS, engine_over


class ThreadWorker:
    """A worker on another thread, which stores its records through the outbox of a node."""

    def __init__(self, folder, replica):
        self._loop = asyncio.get_running_loop()
        self._replica = replica
        self._folder = folder

    async def begin(self, *names):
        """Run a worker that begins operations; the file must be free."""
        await asyncio.to_thread(self._work, names)

    def _work(self, names):
        outbox = Outbox(self._folder, self._store, floor=self._replica.floor)
        for name in names:
            outbox.begin(name, "merge", b"{}", NOW_MS)
            outbox.commit()
        outbox.close()

    def _store(self, number, data):
        stored = self._replica.store(number, data)
        return asyncio.run_coroutine_threadsafe(stored, self._loop).result()


@contextlib.asynccontextmanager
async def node(folder, log, engine=None):
    """Run a node over a log; yield its sequencer, its outbox and its worker."""
    engine = engine or Sequencer(log, recover(log)[0], lambda: NOW_MS)
    replica = OutboxReplica(folder, engine)
    replica.open(log)
    engine.subscribe(replica.on_batch)
    task = asyncio.create_task(engine.run())
    try:
        yield engine, replica, ThreadWorker(folder, replica)
    finally:
        engine.stop()
        await task
        replica.close()


@pytest.fixture
def log(tmp_path):
    with contextlib.closing(SqliteLog(tmp_path / "log")) as log:
        yield log


def begun(folder):
    """Return the ids of the operations in an outbox that no process has open."""
    outbox = Outbox(folder)
    found = [each.id for each in outbox.pending()]
    outbox.close()
    return found


async def test_node_reads_from_the_log_what_its_outbox_lacks(tmp_path, log):
    async with node(tmp_path / "a", log) as (_, replica, worker):
        replica.release()
        await worker.begin("one", "two")
        replica.take_back()
    async with node(tmp_path / "b", log) as (engine, *_):
        assert engine.state.registry.outbox_records == 2
    assert begun(tmp_path / "b") == ["one", "two"]


async def test_node_follows_records_while_no_worker_has_the_file(tmp_path, log):
    engine = engine_over(log)
    other = OutboxReplica(tmp_path / "b", engine)
    other.open(log)
    engine.subscribe(other.on_batch)
    async with node(tmp_path / "a", log, engine) as (_, replica, worker):
        replica.release()
        await worker.begin("one")
        other.release()
        engine.is_owner = False  # as at a node that has just lost the log
        await worker.begin("two", "three")
        other.take_back()
        await worker.begin("four")
        other.close()
        replica.take_back()
    assert begun(tmp_path / "a") == begun(tmp_path / "b") == ["one", "two", "three", "four"]


async def test_worker_that_ended_before_its_commit_finds_the_record_at_the_next_start(
    tmp_path, log
):
    async with node(tmp_path / "a", log) as (_, replica, worker):
        replica.release()
        await worker.begin("one")
        await replica.store(2, record_after(tmp_path / "a", "two"))
        replica.release()
        assert begun(tmp_path / "a") == ["one", "two"]


def record_after(folder, name):
    """Return the next record of an outbox, which is left as it is."""
    found = []

    def keep(number, data):
        found.append(data)
        raise KeyboardInterrupt

    outbox = Outbox(folder, keep)
    outbox.begin(name, "merge", b"{}", NOW_MS)
    with pytest.raises(KeyboardInterrupt):
        outbox.commit()
    outbox.close()
    return found[0]


async def test_second_worker_cannot_store_a_record_of_the_same_number(tmp_path, log):
    async with node(tmp_path / "a", log) as (engine, replica, worker):
        replica.release()
        await worker.begin("one")
        with pytest.raises(RejectedError, match="above 1; got 1"):
            await replica.store(1, b"")
        assert engine.state.registry.outbox_records == 1


async def test_outbox_of_a_restored_log_goes_on_above_the_records_of_the_replaced_one(
    tmp_path, log
):
    async with node(tmp_path / "a", log) as (engine, replica, worker):
        replica.release()
        await worker.begin("one", "two")
        replica.take_back()
        await engine.submit(RecordRestore(replaced_seq=2))
    async with node(tmp_path / "b", log) as (engine, replica, worker):  # its outbox was lost
        replica.release()
        assert begun(tmp_path / "b") == ["one", "two"]
        await worker.begin("three")
        assert engine.state.registry.outbox_records == RESTORE_GAP + 3
    async with node(tmp_path / "a", log):
        pass
    assert begun(tmp_path / "a") == begun(tmp_path / "b") == ["one", "two", "three"]


async def test_outbox_that_lacks_dropped_records_is_rejected(tmp_path, log):
    async with node(tmp_path / "a", log) as (engine, replica, worker):
        replica.release()
        await worker.begin("one")
        replica.take_back()
    state = engine.state
    later = Sequencer(log, state, lambda: NOW_MS)
    state.registry.apply(RecordOutbox(number=2, data=b""))  # as from a snapshot
    replica = OutboxReplica(tmp_path / "b", later)
    with pytest.raises(OutboxBehindError, match="record 1 and the log with 2"):
        replica.open(log)
    replica.close()
