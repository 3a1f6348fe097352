"""A second exchange that follows a log: it writes history, and takes snapshots on the way.

It is given frames of the log, each durable already, and does them again. What each frame states of
the events before it is compared with what came of them here.
"""

from pathlib import Path
from typing import Final

from clob.errors import ReplayDiffersError
from clob.journal import ZERO_HASH, Frame, event_hash
from clob_server.commands import ENGINE, EndTrades
from clob_server.exchange import Exchange, outcome_of
from clob_server.history.projection import Rows
from clob_server.history.store import Applied, ForeignHistoryError, Store, put_aside
from clob_server.log import Folder, Log, LogDamagedError, Snapshot, Tail
from clob_server.log.beside import (
    decode_snapshot,
    keep_snapshot,
    newest_seq,
    snapshot_names,
    snapshot_seq,
)
from clob_server.recovery import commands_of

ROWS_MAX: Final = 10_000
"""How many rows wait at most before they are written."""


class Replica:
    """An exchange that follows a log, and what it writes.

    Args:
        folder: the folder of the log.
        store: where it writes history.
        origin: the last command that was dropped from the log, 0 where none was.
        tail: where the log ends.
        snapshot_commands: after how many commands a snapshot is due; 0 is never.

    Raises:
        LogDamagedError: a snapshot is not what was written, or there is none to begin with.
        ForeignHistoryError: the history is of another log.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        origin: int,
        tail: Tail,
        snapshot_commands: int = 0,
    ) -> None:
        self._store = store
        self._files = Folder(folder)
        self._every = snapshot_commands
        self._snapped = newest_seq(self._files)
        self._is_ours = same_end(store.applied, tail)
        start = beginning(self._files, store.applied.seq, origin)
        self._exchange = Exchange() if start is None else Exchange.restore(start.state)
        self._rows = Rows(self._exchange)
        self._at = (
            Applied() if start is None else Applied(start.seq, start.chain_hash, start.event_hash)
        )
        if start is not None and start.seq == store.applied.seq:
            self._check_same(start.seq - 1)

    @property
    def at(self) -> Applied:
        """Where it is."""
        return self._at

    @property
    def written(self) -> int:
        """The last command in history; 0 until it is seen that history is of this log."""
        written = self._store.applied.seq
        return written if self._is_ours or self._at.seq >= written else 0

    @property
    def num_rows(self) -> int:
        """How many rows wait to be written."""
        return len(self._rows)

    def take(self, frame: Frame) -> None:
        """Do the commands of a frame again.

        Raises:
            ReplayDiffersError: the frame states another event hash than came out here.
            ForeignHistoryError: the history is of another log.
        """
        seq, _, hashed = self._at
        if frame.event_hash != hashed:
            raise ReplayDiffersError(
                frame.first_seq, "event hash", frame.event_hash or ZERO_HASH, hashed
            )
        exchange, rows, written = self._exchange, self._rows, self._store.applied.seq
        for command in commands_of(frame):
            seq += 1
            num_trades, known = exchange.num_trades, rows.known(command)
            outcome = outcome_of(exchange, command)
            is_own = type(command) in ENGINE
            if is_own:
                hashed = event_hash(hashed, outcome)
            if seq > written and (is_own or type(command) is EndTrades):
                rows.take(seq, command, outcome, num_trades, known)
        before, self._at = self._at.seq, Applied(seq, frame.chain_hash, hashed)
        self._check_same(before)

    def _check_same(self, before: int) -> None:
        """Refuse a history that came to where it ends on another way."""
        end = self._store.applied
        if before < end.seq <= self._at.seq and end != self._at:
            raise ForeignHistoryError(f"history reaches to command {end.seq} of another log")

    def write(self) -> None:
        """Write what waits."""
        if self._at.seq > self._store.applied.seq:
            rows = self._rows
            now_ms = self._exchange.now_ms
            self._store.write(rows.orders, rows.trades, rows.ends, self._at, now_ms)
            rows.clear()

    @property
    def snapshot_due(self) -> bool:
        """If so many commands came since the last snapshot."""
        return 0 < self._every <= self._at.seq - self._snapped

    def snapshot(self) -> None:
        """Write what waits, and then a snapshot. O(everything)."""
        self.write()
        seq, chain_hash, hashed = self._at
        state = self._exchange.snapshot()
        keep_snapshot(
            self._files,
            Snapshot(seq=seq, chain_hash=chain_hash, event_hash=hashed, state=state),
        )
        self._snapped = seq


def same_end(applied: Applied, tail: Tail) -> bool:
    """Say whether history ends where the log does."""
    return (applied.seq, applied.chain_hash) == (tail.seq, tail.chain_hash)


def beginning(files: Folder, written: int, origin: int) -> Snapshot | None:
    """Choose where to begin: the newest snapshot that history reaches to; None is the beginning.

    Where the beginning of the log was dropped and no snapshot is so old, it is the oldest there
    is; what lies between is not in history any more.

    Raises:
        LogDamagedError: it is not what was written, or the beginning was dropped and there is none.
    """
    names = [name for name in snapshot_names(files) if (snapshot_seq(name) or 0) >= origin]
    old = [name for name in names if (snapshot_seq(name) or 0) <= written]
    if not old and not origin:
        return None
    if not names:
        raise LogDamagedError(f"the commands up to {origin} were dropped, and there is no snapshot")
    name = old[-1] if old else names[0]
    found = decode_snapshot(files.read(name) or b"")
    if isinstance(found, str):
        raise LogDamagedError(f"{name}: {found}")
    return found


def open_store(folder: Path, days: int, tail: Tail) -> Store:
    """Open history, and put one aside that does not end in the log.

    Args:
        folder: the folder of the log.
        days: how many days history stays; 0 is for ever.
        tail: where the log ends.
    """
    try:
        store = Store(folder, days)
        if store.applied.seq < tail.seq or same_end(store.applied, tail):
            return store
        store.close()
    except ForeignHistoryError:
        pass
    put_aside(folder)
    return Store(folder, days)


def catch_up(store: Store, folder: Path, log: Log) -> None:
    """Bring history up to the end of a log that nobody appends to.

    Args:
        store: the history.
        folder: the folder of the log.
        log: the log.

    Raises:
        ForeignHistoryError: the history is of another log.
    """
    if same_end(store.applied, log.tail):
        return
    replica = Replica(folder, store, origin=log.origin.seq, tail=log.tail)
    for frame in log.read(replica.at.seq):
        replica.take(frame)
        if replica.num_rows > ROWS_MAX:
            replica.write()
    replica.write()
