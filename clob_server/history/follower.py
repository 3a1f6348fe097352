"""The follower process: reads frames of the log from a pipe, writes history and snapshots.

The server holds the lock on the log, so the follower never opens it. It receives the frames on
standard input, each after it became durable, applies the commands to a second copy of the state,
which it restores at the first frame, and compares the event hash in each frame with its own. It
reports the command after which it wants to begin, then the last command in history after each
write; :mod:`clob_server.log.pipe` has the format.

The end of the input means that the server has ended. The follower then writes the rows of the
frames it has, but no more snapshots, since the next server may be reading them. If the server stops
in order, it sends a frame without commands at the end and waits: then a snapshot is taken if it
pays.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import apsw

from clob import ClobError
from clob.errors import InvalidSnapshotError, ReplayDiffersError
from clob.journal import ZERO_HASH, Frame, event_hash
from clob_server.core.commands import ENGINE
from clob_server.core.recovery import SnapshotCadence, commands_of
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.rows import SETTLEMENTS, HistoryRows
from clob_server.history.store import (
    DAMAGE,
    Applied,
    ForeignHistoryError,
    HistoryStore,
    move_aside,
)
from clob_server.log import Folder, Log, LogDamagedError, Snapshot, Tail
from clob_server.log.files import (
    DAMAGED_SUFFIX,
    keep_snapshot,
    read_snapshot,
    snapshot_names,
    snapshot_seq,
)
from clob_server.log.pipe import READ_BYTES, FrameSplitter, beat, has_input, write_number

MODULE: Final = "clob_server.history.follower"
"""Module that the process runs."""
ROWS_MAX: Final = 50_000
"""Rows per transaction while history catches up with a log."""
CHECK_S: Final = 0.5
"""Seconds between two looks at the history file while there is no input."""
COMMANDS_MAX: Final = 5_000
"""Commands per transaction while more input is available."""
REPORT_S: Final = 0.002
"""Seconds between reports while there is input; each costs the server's event loop a little."""

_LOG: Final = logging.getLogger("clob_server.history")


class Replica:
    """A second copy of the state, which follows a log and writes history.

    Args:
        origin: last command dropped from the log; 0 if none was.
        tail: end of the log.
        snapshot_commands: fewest commands between snapshots; 0 for no snapshots.

    Raises:
        LogDamagedError: the log's beginning was dropped and no usable snapshot covers it.
        ForeignHistoryError: the history belongs to another log.
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
        self.cadence: Final = SnapshotCadence(self._files, snapshot_commands)
        """Decides when :meth:`snapshot` is called."""
        self._ends_at_tail = ends_at(store.applied, tail)
        self.at: Applied = Applied()
        """Position: the last command applied."""
        start = start_snapshot(self._files, store.applied.seq, origin)
        self._restored = ServerState if start is None else start[1]
        if start is not None:
            self.at = start[0]
            seq = self.at.seq
            if seq > store.applied.seq:  # the commands between them were dropped
                store.skip_to(seq)
            if seq == store.applied.seq:
                self._check_same_log(seq - 1)

    @cached_property
    def _state(self) -> ServerState:
        """The copy of the state, restored before the first command: an idle follower has none."""
        return self._restored()

    def prepare(self) -> None:
        """Restore the state now if commands are missing, while the server restores its own."""
        if not self._ends_at_tail:
            _ = self._state

    @cached_property
    def _rows(self) -> HistoryRows:
        return HistoryRows(self._state)

    @property
    def written(self) -> int:
        """Last command in history; 0 until the history is known to belong to this log."""
        written = self._store.applied.seq
        return written if self._ends_at_tail or self.at.seq >= written else 0

    @property
    def num_rows(self) -> int:
        """Number of rows that are not written yet."""
        return len(self._rows)

    def apply(self, frame: Frame) -> None:
        """Apply the commands of a frame.

        Raises:
            ReplayDiffersError: the event hash in the frame differs from the computed one.
            ForeignHistoryError: the history belongs to another log.
        """
        seq, _, hashed = self.at
        if frame.event_hash != hashed:
            raise ReplayDiffersError(
                frame.first_seq, "event hash", frame.event_hash or ZERO_HASH, hashed
            )
        state, rows, written = self._state, self._rows, self._store.applied.seq
        for command in commands_of(frame):
            seq += 1
            num_trades, orders_before = state.num_trades, rows.orders_before(command)
            outcome = outcome_of(state, command)
            is_engine = type(command) in ENGINE
            if is_engine:
                hashed = event_hash(hashed, outcome)
            if seq > written and (is_engine or type(command) in SETTLEMENTS):
                rows.add(seq, command, outcome, num_trades, orders_before)
        before, self.at = self.at.seq, Applied(seq, frame.chain_hash, hashed)
        self.cadence.add(seq, sum(map(len, frame.raw)))
        self._check_same_log(before)

    def _check_same_log(self, before: int) -> None:
        """Raise if history ends after ``before`` at a position that differs from this log's."""
        end = self._store.applied
        if before < end.seq <= self.at.seq and end != self.at:
            raise ForeignHistoryError(f"history up to command {end.seq} belongs to another log")

    def check_files(self) -> None:
        """Raise ForeignHistoryError if the history file was deleted or replaced."""
        self._store.check_files()

    def write(self) -> None:
        """Write the waiting rows."""
        if self.at.seq > self._store.applied.seq:
            rows = self._rows
            self._store.write(rows.take(), self.at, self._state.now_ms, rows.oldest_unsettled)

    def snapshot(self) -> None:
        """Write the waiting rows, then a snapshot; O(size of the state)."""
        self.write()
        seq, chain_hash, hashed = self.at
        state = self._state.snapshot()
        snapshot = Snapshot(seq=seq, chain_hash=chain_hash, event_hash=hashed, state=state)
        keep_snapshot(self._files, snapshot)
        self.cadence.restart(seq, len(state))


def ends_at(applied: Applied, tail: Tail) -> bool:
    """Return whether history ends where the log ends."""
    return (applied.seq, applied.chain_hash) == (tail.seq, tail.chain_hash)


def start_snapshot(
    files: Folder, written: int, origin: int
) -> tuple[Applied, Callable[[], ServerState]] | None:
    """Return the newest usable snapshot that is not beyond history; None to start from the start.

    If the commands up to ``origin`` were dropped and every usable snapshot is beyond history,
    return the oldest one; history then lacks the commands between.

    Returns:
        The position of the snapshot, and a function that returns its state.

    Raises:
        LogDamagedError: the beginning was dropped and there is no usable snapshot.
    """
    names = [name for name in snapshot_names(files) if (snapshot_seq(name) or 0) >= origin]
    covered = [name for name in names if (snapshot_seq(name) or 0) <= written]
    later = names[len(covered) :] if origin else []
    for name in (*reversed(covered), *later):
        snapshot = read_snapshot(files, name)
        try:
            if not isinstance(snapshot, str):
                at = Applied(snapshot.seq, snapshot.chain_hash, snapshot.event_hash)
                if not ServerState.has_own_version(snapshot.state):
                    ServerState.restore(snapshot.state, inexact=origin > 0)
                return at, partial(restored, files, name, inexact=origin > 0)
            problem = snapshot
        except InvalidSnapshotError as error:
            problem = str(error)
        _LOG.warning("history passes over %s: %s", name, problem)
    if origin:
        raise LogDamagedError(f"commands up to {origin} were dropped and there is no snapshot")
    return None


def restored(files: Folder, name: str, *, inexact: bool) -> ServerState:
    """Return the state of a snapshot whose bytes were checked before.

    Raises:
        LogDamagedError: it cannot be used. It is set aside, so that the next follower starts from
            an older one.
    """
    snapshot = read_snapshot(files, name)
    problem: str | InvalidSnapshotError
    try:
        if not isinstance(snapshot, str):
            return ServerState.restore(snapshot.state, inexact=inexact, check_hash=False)
        problem = snapshot
    except InvalidSnapshotError as error:
        problem = error
    files.rename(name, f"{name}{DAMAGED_SUFFIX}")
    raise LogDamagedError(f"{name}: {problem}")


def open_store(folder: Path, days: int, tail: Tail) -> HistoryStore:
    """Open the history file; move a file that does not end in the log aside and start a new one."""
    try:
        store = HistoryStore(folder, days)
        if store.applied.seq < tail.seq or ends_at(store.applied, tail):
            return store
        store.close()
    except (ForeignHistoryError, apsw.SQLError, *DAMAGE) as error:
        _LOG.warning("history is moved aside and rebuilt: %s", error)
    move_aside(folder)
    return HistoryStore(folder, days)


def catch_up(store: HistoryStore, folder: Path, log: Log) -> None:
    """Bring history up to the end of a log that does not grow meanwhile.

    Raises:
        ForeignHistoryError: the history belongs to another log.
    """
    if ends_at(store.applied, log.tail):
        return
    replica = Replica(folder, store, origin=log.origin.seq, tail=log.tail)
    for frame in log.read(replica.at.seq):
        replica.apply(frame)
        if replica.num_rows > ROWS_MAX:
            replica.write()
    replica.write()


# ----- the process ---------------------------------------------------------------------------


def follow(replica: Replica, source: int, report: Callable[[int], None]) -> None:
    """Apply frames until the input ends, and report the last command in history.

    Frames that are available together share a transaction. A frame without commands means that the
    server stops in order.
    """
    splitter = FrameSplitter(replica.at.seq, replica.at.chain_hash)
    written, reported_at, is_orderly = replica.at.seq, 0.0, False
    while data := read_checked(replica, source):
        for frame in splitter.split(data):
            if frame.count:
                replica.apply(frame)
            else:
                is_orderly = True
        if replica.at.seq - written < COMMANDS_MAX and has_input(source, 0):
            continue
        replica.write()
        written = replica.at.seq
        if time.monotonic() - reported_at > REPORT_S or not has_input(source, REPORT_S):
            report(replica.written)
            reported_at = time.monotonic()
        if replica.cadence.is_due:
            replica.snapshot()
    replica.write()
    if is_orderly and replica.cadence.pays_at_stop:
        replica.snapshot()


def read_checked(replica: Replica, source: int) -> bytes:
    """Wait for input and return it; empty at its end.

    Raises:
        ForeignHistoryError: the history file was deleted or replaced meanwhile.
    """
    while not has_input(source, CHECK_S):
        replica.check_files()
    return os.read(source, READ_BYTES)


def arguments_for(folder: Path, snapshot_commands: int, days: int) -> list[str]:
    """Return the arguments of Python that start this process; its positions follow them.

    Args:
        folder: folder of the log.
        snapshot_commands: fewest commands between snapshots; 0 for no snapshots.
        days: days to keep history; 0 for ever.
    """
    return ["-m", MODULE, str(folder), str(snapshot_commands), str(days)]


def main(arguments: Sequence[str]) -> int:
    """Follow the log of a server.

    Args:
        arguments: as from :func:`arguments_for`, then the last command dropped from the log, the
            last command of the log, and the chain hash there.

    Returns:
        0 after the end of the input, 1 after an error.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server gets it too, and then closes the input
    folder, snapshot_commands, days, origin, tail_seq, chain_hash = arguments
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s")
    threading.Thread(target=beat, daemon=True).start()
    tail = Tail(int(tail_seq), bytes.fromhex(chain_hash))
    path = Path(folder)
    try:
        store = open_store(path, int(days), tail)
    except (OSError, apsw.Error) as error:  # such as a folder that is gone
        return stopped(error)
    try:
        replica = Replica(
            path, store, origin=int(origin), tail=tail, snapshot_commands=int(snapshot_commands)
        )
        write_number(replica.at.seq)
        write_number(replica.written)
        replica.prepare()
        follow(replica, sys.stdin.fileno(), write_number)
    except (ForeignHistoryError, apsw.SQLError, *DAMAGE) as error:
        _LOG.error("history is moved aside and rebuilt: %s: %s", type(error).__name__, error)
        move_aside(path)
        store.close()
        return 1
    except (ClobError, OSError, apsw.Error) as error:
        store.close()
        return stopped(error)
    store.close()
    return 0


def stopped(error: Exception) -> int:
    """Log an error that ends the process, and return the exit code."""
    _LOG.critical("history stops: %s: %s", type(error).__name__, error)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
