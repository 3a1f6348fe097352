"""A log in a folder whose authority is a stream in a cluster of NATS servers.

The folder is a copy: history, snapshots, ``clob-server verify`` and ``clob-server backup`` use it
like any log in a folder. A frame is durable once a majority of the servers has it; only then is it
stored in the folder. So the folder is always a prefix of the stream, and a node that starts with
more than the stream has found a loss of the cluster.
"""

import time
from pathlib import Path
from typing import Final

from clob.errors import ChainBrokenError, FrameError, FrameNewerError
from clob.journal import Frame, read_frames
from clob_server.log.base import (
    ClusterLostError,
    ClusterUnreachableError,
    LogBehindError,
    LogDamagedError,
    LogDivergedError,
    LogFailedError,
    LogNewerError,
    Tail,
)
from clob_server.log.files import Folder
from clob_server.log.jetstream import FrameStream, StoredFrame
from clob_server.log.sqlite import SqliteLog

CHECK_S: Final = 5.0
"""Seconds after which the stream is compared with the end of the local log again."""
PAUSE_S: Final = 0.5
"""Seconds between two reads of a stream that seems to lack the local log."""
_PAGE_BYTES: Final = 4 << 20
_RESTORE: Final = (
    "`clob-server restore` puts the commands of a local log back into the cluster, or installs a "
    "backup"
)


class ReplicatedLog(SqliteLog):
    """A log of which a majority of NATS servers and a local folder have every command.

    Opening checks that the local log is a prefix of the stream; :meth:`pull` then catches up. An
    append by a log that has not caught up is rejected with ``FencedError``. Every ``CHECK_S``
    seconds an append or empty pull checks that the stream has the last frame of the local log.

    Args:
        folder: folder of the local log; created if it does not exist.
        stream: the stream; it is closed with the log, and also if opening fails.
        vfs: see :class:`SqliteLog`.
        files: see :class:`SqliteLog`.
        accept_tail: see :class:`SqliteLog`.

    Raises:
        ClusterLostError: the local log has commands that the cluster lost.
        LogDivergedError: they have different commands with the same number.
        LogBehindError: the stream no longer has the commands that follow those of the local log.
        ClusterUnreachableError: the cluster does not answer.
        LogError: see :class:`SqliteLog`.
    """

    def __init__(
        self,
        folder: str | Path,
        stream: FrameStream,
        *,
        vfs: str | None = None,
        files: Folder | None = None,
        accept_tail: bool = False,
    ) -> None:
        self.stream: Final = stream
        """The stream in the cluster."""
        self._is_uncertain = False
        self._next_check = 0.0
        try:
            super().__init__(folder, vfs=vfs, files=files, accept_tail=accept_tail)
        except BaseException:
            stream.close()
            raise
        try:
            self._place = place_of(self, stream)
        except BaseException:
            self.close()
            raise

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to a server of the cluster."""
        return self.stream.is_connected

    def pull(self, timeout_s: float) -> list[Frame]:
        """Store the frames that other nodes have appended, and return them.

        They are durable in the local folder and their chain hashes were checked. This waits for the
        first of them and then returns all that are there, up to a limit; call it again for more.

        Args:
            timeout_s: longest wait; 0 to return present frames only.

        Returns:
            The frames, in order; none if none was appended in time or no server can be reached.

        Raises:
            LogDivergedError: a frame does not follow the local log.
            LogNewerError: a newer version of this package wrote a frame.
            LogBehindError: the stream no longer has the next frame.
            ClusterLostError: the stream ends before the local log.
            LogDamagedError: a message of the stream is not a frame, or frames were removed.
            ClusterUnreachableError: the connection ended for good, such as without permission.
            LogFailedError: the frames cannot be stored; the process must end.
        """
        self._check_failed()
        stored = self.stream.wait(self._place, timeout_s)
        if not stored:
            if time.monotonic() >= self._next_check and self.is_connected:
                self._check_end()
                self._check_length()
            return []
        if stored[0].place != self._place + 1:
            self._place = place_of(self, self.stream)
            return []
        try:
            frames = self.extend([each.frame for each in stored])
        except FrameNewerError as error:
            raise LogNewerError(f"stream {self.stream.name}: {error}") from error
        except FrameError as error:
            raise LogDivergedError(
                f"the frame after command {self.tail.seq} in stream {self.stream.name} does not "
                f"follow the local log: {error}"
            ) from error
        self._place = stored[-1].place
        return frames

    def _store(self, frame: bytes, first: int, tail: Tail) -> None:
        """Append a frame to the stream, then to the local log."""
        self._check_failed()
        if self._is_uncertain:
            raise LogFailedError("an append failed before; restart the process to read its result")
        self._check_end()
        try:
            place = self.stream.append(frame, first, tail.seq, self._place)
        except LogFailedError:
            self._is_uncertain = True
            raise
        super()._store(frame, first, tail)
        self._place = place

    def _check_end(self) -> None:
        """Raise if the stream has another frame in place of the last local one; look now and then.

        The servers compare only the length of the stream at an append. After a loss, another node
        may have made it as long as before.
        """
        now = time.monotonic()
        if now < self._next_check or not self.is_connected:
            return
        self._next_check = now + CHECK_S
        found = self.stream.read(self._place - 1, 1) if self._place else ()
        if found and found[0].place == self._place and found[0].tail != self.tail:
            self._place = place_of(self, self.stream)

    def _check_length(self) -> None:
        """Raise if the stream ends before the local log; leave a server that is cut off."""
        try:
            _, last = self.stream.extent(0)
            if last < self._place:
                place_of(self, self.stream)
            is_cut_off = last > self._place and not self.stream.read(self._place, 1)
        except ClusterUnreachableError:
            is_cut_off = True
        except LogDamagedError:
            self._place, is_cut_off = place_of(self, self.stream), False
        if is_cut_off:
            self.stream.switch_server()

    def _delete(self, last: Tail) -> int:
        """Drop frames from the stream, then from the local log."""
        first_place, last_place = self.stream.extent()
        stored = _frame_with(self.stream, last.seq, first_place, last_place) if last_place else None
        if stored is not None:
            self.stream.drop(stored.place if stored.last == last.seq else stored.place - 1)
        return super()._delete(last)

    def close(self) -> None:
        """Close the log and the stream."""
        super().close()
        self.stream.close()


def put_back(local: SqliteLog, stream: FrameStream) -> int:
    """Append the frames that a local log has and a stream lacks, to fill it or to undo a loss.

    Returns:
        The number of appended commands.

    Raises:
        LogDivergedError: the stream is not a prefix of the local log.
        LogBehindError: the local log has dropped the commands that follow the stream.
        FencedError: another writer appends to the stream.
        FrameTooLargeError: a server does not accept a frame.
        LogFailedError: an append failed; calling this again continues.
        ClusterUnreachableError: the cluster does not answer.
    """
    _, place = stream.extent()
    end = stream.get(place).tail if place else local.origin
    if end.seq < local.origin.seq:
        raise LogBehindError(
            f"the cluster ends with command {end.seq}, and the local log has dropped the commands "
            f"up to {local.origin.seq}; {_RESTORE}"
        )
    if not local.has_end(end):
        raise _diverged(local, stream)
    before = end.seq
    # One after the other: a frame sent before the answer to the last one could follow the frame of
    # another writer, since the stream compares only its length.
    while rows := local.frames(end.seq, _PAGE_BYTES):
        for first, frame in rows:
            (checked,) = read_frames(frame, end.chain_hash, first)
            end = Tail(first + checked.count - 1, checked.chain_hash)
            place = stream.append(frame, first, end.seq, place)
    return end.seq - before


def place_of(log: SqliteLog, stream: FrameStream) -> int:
    """Return the place of the last frame of a local log in a stream; 0 for an empty log.

    A stream that seems to lack the log is read again for a while, at other servers: one that has
    lost its majority may answer until it notices.

    Raises:
        ClusterLostError, LogDivergedError, LogBehindError: the log is not a prefix of the stream.
        LogDamagedError: the stream lacks frames between its first and its last one.
        ClusterUnreachableError: the cluster does not answer.
    """
    end = time.monotonic() + stream.timeout_s
    while True:
        try:
            return _place_now(log, stream)
        except (ClusterLostError, LogDivergedError, LogBehindError, LogDamagedError):
            if time.monotonic() > end:
                raise
        stream.switch_server()
        time.sleep(PAUSE_S)


def _place_now(log: SqliteLog, stream: FrameStream) -> int:
    """Return the place of the last frame of a local log by one look at a stream."""
    first, last = stream.extent()
    newest = stream.get(last) if last else None
    if (newest.last if newest else 0) < log.tail.seq:
        raise _lost(log, stream, newest)
    if newest is None:
        return 0
    oldest = stream.get(first)
    if log.tail.seq < oldest.first - 1:
        raise _behind(log.tail, oldest)
    if log.tail.seq == oldest.first - 1:
        if not _follows(log.tail, oldest):
            raise _diverged(log, stream)
        return first - 1
    found = _frame_with(stream, log.tail.seq, first, last)
    if found is None or found.tail != log.tail:
        raise _diverged(log, stream)
    return found.place


def _follows(end: Tail, stored: StoredFrame) -> bool:
    """Return whether a frame is undamaged and follows the end of a log."""
    try:
        return len(list(read_frames(stored.frame, end.chain_hash, end.seq + 1))) == 1
    except ChainBrokenError:
        return False


def _frame_with(stream: FrameStream, seq: int, first: int, last: int) -> StoredFrame | None:
    """Return the frame with a command between two places of a stream, or None."""
    while first < last:
        middle = (first + last + 1) // 2
        if stream.get(middle).first <= seq:
            first = middle
        else:
            last = middle - 1
    found = stream.get(first)
    return found if found.first <= seq <= found.last else None


def _lost(log: SqliteLog, stream: FrameStream, newest: StoredFrame | None) -> Exception:
    """Return the error of a stream that ends before the local log."""
    if newest is not None and not log.has_end(newest.tail):
        return _diverged(log, stream)
    last = 0 if newest is None else newest.last
    count = log.tail.seq - max(last, log.origin.seq)
    have = f"ends with command {last}" if last else "has no commands"
    return ClusterLostError(
        f"the cluster lost {count} acknowledged commands: stream {stream.name} {have}, and the "
        f"local log ends with command {log.tail.seq}; {_RESTORE}"
    )


def _behind(end: Tail, oldest: StoredFrame) -> LogBehindError:
    """Return the error of a stream without the next frame."""
    have = f"ends with command {end.seq}" if end.seq else "is empty"
    return LogBehindError(
        f"the local log {have}, and the cluster has dropped the commands up to {oldest.first - 1}; "
        "install a backup of another node with `clob-server backup` and `clob-server restore`"
    )


def _diverged(log: SqliteLog, stream: FrameStream) -> LogDivergedError:
    """Return the error of a stream that is not the same log, with the last common command."""
    first, last = stream.extent()
    common = 0
    while first <= last:  # all frames before the first different one are equal
        middle = (first + last) // 2
        stored = stream.get(middle)
        if log.has_end(stored.tail):
            common, first = stored.last, middle + 1
        else:
            last = middle - 1
    return LogDivergedError(
        f"the local log and stream {stream.name} part after command {common}: each has other "
        f"commands from there, the local log up to {log.tail.seq}; {_RESTORE}"
    )
