"""History written by a thread of the server itself, for those who want no second process.

Rows are made on the loop, out of the server's own exchange, and snapshots are taken there too, so
that either holds the loop up; the thread only writes. Rows of several batches are written together,
since a transaction costs what the rows of a batch do.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from clob_server.core.recovery import take_snapshot
from clob_server.core.sequencer import Committed, LogThread, Sequencer
from clob_server.history.rows import HistoryRows
from clob_server.history.store import Applied, HistoryStore, Row
from clob_server.log import Folder, SqliteLog
from clob_server.log.files import newest_seq

WRITE_AFTER_S: Final = 0.05
"""How long rows wait for others, unless somebody asks for them."""
PARTS_MAX: Final = 1_000
"""How often rows may have been handed over that are not written; then the loop waits."""

_LOG: Final = logging.getLogger("clob_server.history")


class Scribe:
    """Writes what an engine does.

    Args:
        store: the history, which reaches to the end of the log.
        folder: the folder of the log.
        log: the log.
        engine: what works over it.
        snapshot_commands: after how many commands a snapshot is taken; 0 is never.
        reached: told of the last command in history, each time, in the thread that writes.
    """

    def __init__(
        self,
        store: HistoryStore,
        folder: Path,
        log: SqliteLog,
        engine: Sequencer,
        *,
        snapshot_commands: int,
        reached: Callable[[int], None],
    ) -> None:
        self._store = store
        self._log = log
        self._engine = engine
        self._every = snapshot_commands
        self._reached = reached
        self._snapped = newest_seq(Folder(folder))
        self._rows = HistoryRows(engine.exchange)
        self._place = store.applied
        self._now_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._room = threading.Semaphore(PARTS_MAX)
        self._failed = False
        self._worker = LogThread("history")

    def listen(self, batch: Sequence[Committed]) -> None:
        """Make the rows of a batch, and have them written soon."""
        for done in batch:
            self._rows.take(done.seq, done.command, done.outcome, done.num_trades)
        place = Applied(batch[-1].seq, self._log.tail.chain_hash, self._engine.event_hash)
        self._place, self._now_ms = place, batch[-1].now_ms
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_AFTER_S, self.hand_over)
        if 0 < self._every <= place.seq - self._snapped:
            self.hand_over()
            take_snapshot(self._log, self._engine.exchange, place.event_hash)
            self._snapped = place.seq

    def hand_over(self) -> None:
        """Have what waits written now."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        rows = self._rows
        found = rows.orders, rows.trades, rows.ends
        rows.clear()
        self._room.acquire()
        self._worker.tell(partial(self._write, found, self._place, self._now_ms))

    def _write(
        self, rows: tuple[list[Row], list[Row], list[Row]], place: Applied, now_ms: int
    ) -> None:
        """Write rows; once that has failed nothing more, since there would be a gap."""
        try:
            if not self._failed:
                self._store.write(*rows, place, now_ms)
                self._reached(place.seq)
        except Exception:
            self._failed = True
            _LOG.exception("history stops until the next start")
        finally:
            self._room.release()

    def close(self) -> None:
        """Write what was handed over."""
        self._worker.close()
        self._store.close()
