"""History written by a thread of the server process (``--history thread``).

It needs no second process and no second copy of the state, for machines with little memory. Rows
and snapshots are made on the event loop, which delays requests; the thread only writes. Rows of
several batches share a transaction.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from clob_server.core.recovery import SnapshotCadence, take_snapshot
from clob_server.core.sequencer import Committed, Sequencer, Steps, begin
from clob_server.core.threads import LogThread
from clob_server.history.rows import HistoryRows
from clob_server.history.store import Applied, HistoryStore, Rows
from clob_server.log import Folder, LogError, SqliteLog

WRITE_AFTER_S: Final = 0.05
"""Seconds that rows wait for more, unless a query needs them."""
WRITES_MAX: Final = 1_000
"""Writes that may be queued; beyond it the event loop waits."""

_LOG: Final = logging.getLogger("clob_server.history")


class ThreadWriter:
    """Writes the history of an engine.

    Args:
        store: the history file, which must reach to the end of the log.
        snapshot_commands: fewest commands between snapshots; 0 for no snapshots.
        on_written: called in the thread with the last command in the file, after each write.
    """

    def __init__(
        self,
        store: HistoryStore,
        log: SqliteLog,
        engine: Sequencer,
        *,
        snapshot_commands: int,
        on_written: Callable[[int], object],
    ) -> None:
        self._store = store
        self._log = log
        self._engine = engine
        self._on_written = on_written
        self._cadence = SnapshotCadence(Folder(store.folder), snapshot_commands)
        self._counted = 0
        self._count(store.applied.seq)
        self._rows = HistoryRows(engine.state)
        self._applied = store.applied
        self._now_ms = 0
        self._oldest_unsettled = 0
        self._timer: asyncio.TimerHandle | None = None
        self._slots = threading.Semaphore(WRITES_MAX)
        self.has_failed: bool = False
        """Whether a write failed, after which nothing is written."""
        self._is_whole = True
        self._thread = LogThread("history")

    def on_batch(self, batch: Sequence[Committed]) -> Steps | None:
        """Make the rows of a batch; they are written within ``WRITE_AFTER_S``."""
        return begin(self._add(batch))

    def _add(self, batch: Sequence[Committed]) -> Steps:
        self._is_whole = False
        for done in batch:
            yield from self._rows.adding(done.seq, done.command, done.outcome, done.num_trades)
        if self._engine.seq < self._log.tail.seq:  # the rest of the frame follows
            return
        self._is_whole = True
        applied = Applied(batch[-1].seq, self._log.tail.chain_hash, self._engine.event_hash)
        self._applied, self._now_ms = applied, batch[-1].now_ms
        self._oldest_unsettled = self._rows.oldest_unsettled
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_AFTER_S, self.flush)
        self._count(applied.seq)
        if self._cadence.is_due:
            self.flush()
            self._snapshot()

    def _count(self, seq: int) -> None:
        """Count the frames that the log has read or written since the last call."""
        before, self._counted = self._counted, self._log.num_bytes
        self._cadence.add(seq, self._counted - before)

    def _snapshot(self) -> None:
        """Take a snapshot of the state after the last command of the log."""
        taken = take_snapshot(self._log, self._engine.state, self._engine.event_hash)
        self._cadence.restart(taken.seq, len(taken.state))

    def flush(self) -> None:
        """Pass the waiting rows to the thread now, unless some of a frame are still missing."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        if not self._is_whole:  # the end of the frame starts the timer again
            return
        self._slots.acquire()
        position = self._applied, self._now_ms, self._oldest_unsettled
        self._thread.enqueue(partial(self._write, self._rows.take(), *position))

    def _write(self, rows: Rows, applied: Applied, now_ms: int, oldest: int) -> None:
        """Write rows, unless an earlier write failed: the file must have no gap."""
        try:
            if not self.has_failed:
                self._store.write(rows, applied, now_ms, oldest)
                self._on_written(applied.seq)
        except Exception:
            self.has_failed = True
            _LOG.exception("history stops until the next start")
        finally:
            self._slots.release()

    def close(self) -> None:
        """Write the queued rows, take a snapshot if it pays, and close the file."""
        self._thread.close()
        if self._cadence.pays_at_stop and self._engine.seq == self._log.tail.seq:
            with suppress(LogError, OSError):  # the next start repeats the commands
                self._snapshot()
        self._store.close()
