"""The process that follows the log of a server: frames come in, history and snapshots come out.

It never opens the log, which is its server's alone. What it reads are the frames themselves, one
after the other, each durable before it was sent. What it writes are numbers of 8 bytes, little
endian: the command after which it wants to begin, and then, each time, the last command that is in
history.

The end of the input is the end of the server, however that came: what was read is written, and no
more snapshots are taken, since another server may be reading them.
"""

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import apsw

from clob import ClobError
from clob.errors import FrameTruncatedError, ReplayDiffersError
from clob.journal import ZERO_HASH, Frame, event_hash, read_frames
from clob_server.core.commands import ENGINE, EndTrades
from clob_server.core.recovery import commands_of
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.rows import HistoryRows
from clob_server.history.store import Applied, ForeignHistoryError, HistoryStore, put_aside
from clob_server.history.supervisor import NUMBER, PIECE_BYTES
from clob_server.log import Folder, Log, LogDamagedError, Snapshot, Tail
from clob_server.log.files import (
    decode_snapshot,
    keep_snapshot,
    newest_seq,
    snapshot_names,
    snapshot_seq,
)

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
        store: HistoryStore,
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
        self._exchange = ServerState() if start is None else ServerState.restore(start.state)
        self._rows = HistoryRows(self._exchange)
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


def open_store(folder: Path, days: int, tail: Tail) -> HistoryStore:
    """Open history, and put one aside that does not end in the log.

    Args:
        folder: the folder of the log.
        days: how many days history stays; 0 is for ever.
        tail: where the log ends.
    """
    try:
        store = HistoryStore(folder, days)
        if store.applied.seq < tail.seq or same_end(store.applied, tail):
            return store
        store.close()
    except ForeignHistoryError:
        pass
    put_aside(folder)
    return HistoryStore(folder, days)


def catch_up(store: HistoryStore, folder: Path, log: Log) -> None:
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


TOGETHER: Final = 2_000
"""After how many commands they are written, even if more have come."""
QUIET_S: Final = 0.005
"""How often the server is told at most, unless nothing comes: each time costs its loop a little."""

_LOG: Final = logging.getLogger("clob_server.history")


class Frames:
    """Cuts what comes in into frames, each checked.

    Args:
        seq: the last command of the frame before.
        chain_hash: the chain hash of that frame.
    """

    def __init__(self, seq: int, chain_hash: bytes) -> None:
        self._seq = seq
        self._chain_hash = chain_hash
        self._rest = b""

    def cut(self, data: bytes) -> Iterator[Frame]:
        """Give the frames that are whole with these bytes.

        Raises:
            FrameError: the bytes are no frame, or not the one that follows.
        """
        data = self._rest + data
        self._rest = b""
        try:
            for frame in read_frames(data, self._chain_hash, self._seq + 1):
                self._seq, self._chain_hash = frame.first_seq + frame.count - 1, frame.chain_hash
                yield frame
        except FrameTruncatedError as error:
            self._rest = data[error.offset :]


def follow(replica: Replica, source: int, tell: Callable[[int], None]) -> None:
    """Follow until the input ends.

    Whatever has come is taken together, and written together.

    Args:
        replica: what follows.
        source: the descriptor of the input.
        tell: told of each number.
    """
    frames = Frames(replica.at.seq, replica.at.chain_hash)
    written, told = replica.at.seq, 0.0
    while data := os.read(source, PIECE_BYTES):
        for frame in frames.cut(data):
            replica.take(frame)
        if replica.at.seq - written < TOGETHER and comes(source, 0):
            continue
        replica.write()
        written = replica.at.seq
        if time.monotonic() - told > QUIET_S or not comes(source, QUIET_S):
            tell(replica.written)
            told = time.monotonic()
        if replica.snapshot_due:
            replica.snapshot()
    replica.write()


def comes(source: int, wait_s: float) -> bool:
    """Say whether there is more to read, or the end of it, within a time."""
    return bool(select.select([source], [], [], wait_s)[0])


def main(arguments: Sequence[str]) -> int:
    """Follow the log of a server.

    Args:
        arguments: the folder, the last command that was dropped from the log, the last it has, the
            chain hash there, the commands between snapshots, and the days of history.

    Returns:
        0 after the end of the input, 1 where what came in is not what it must be.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server is told, and the input ends with it
    folder, origin, tail_seq, chain_hash, snapshot_commands, days = arguments
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s")
    tail = Tail(int(tail_seq), bytes.fromhex(chain_hash))
    path = Path(folder)
    store = open_store(path, int(days), tail)
    try:
        replica = Replica(
            path, store, origin=int(origin), tail=tail, snapshot_commands=int(snapshot_commands)
        )
        tell(replica.at.seq)
        tell(replica.written)
        follow(replica, sys.stdin.fileno(), tell)
    except ForeignHistoryError as error:
        _LOG.error("history is put aside, to be made again: %s", error)
        store.close()
        put_aside(path)
        return 1
    except (ClobError, OSError, apsw.Error) as error:
        _LOG.critical("history stops: %s: %s", type(error).__name__, error)
        store.close()
        return 1
    store.close()
    return 0


def tell(number: int) -> None:
    """Write a number; a server that is gone does not hear it."""
    try:
        os.write(sys.stdout.fileno(), NUMBER.pack(number))
    except BrokenPipeError:
        _LOG.debug("the server is gone")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# MERGED clob_server.history.follower: A second exchange that follows a log: it writes history, and takes snapshots on the way.
#
# It is given frames of the log, each durable already, and does them again. What each frame states of
# the events before it is compared with what came of them here.
