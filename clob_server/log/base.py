"""The interface of logs, its errors and values, and a log in memory.

A log is a sequence of frames of numbered commands, with snapshots of the state.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from clob import ClobError
from clob.journal import ZERO_HASH, Frame, encode_frame, frame_hash, read_frames


class LogError(ClobError):
    """Base class of log errors."""

    code = "LOG_ERROR"


class LogLockedError(LogError):
    """Another process has the log open."""

    code = "LOG_LOCKED"


class LogNewerError(LogError):
    """A newer version of this package wrote the log."""

    code = "LOG_NEWER"


class LogOlderError(LogError):
    """An older version of this package wrote the log."""

    code = "LOG_OLDER"


class LogDamagedError(LogError):
    """The stored data differs from the written data; the message says where."""

    code = "LOG_DAMAGED"


class LogFailedError(LogError):
    """A commit failed and may or may not be durable; the process must end.

    A new process reads the durable part. A retry in the same process would be wrong: after a failed
    sync the system may have dropped the data that it could not write.
    """

    code = "LOG_FAILED"


class FencedError(LogError):
    """The log does not end with the expected command: another owner has appended to it."""

    code = "LOG_FENCED"


class Tail(msgspec.Struct, frozen=True):
    """The end of a log."""

    seq: int = 0
    """Number of the last command; 0 for an empty log."""
    chain_hash: bytes = ZERO_HASH
    """Chain hash of the last frame."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state after a command, from which recovery starts."""

    seq: int
    """Number of the command, the last of its frame."""
    chain_hash: bytes
    """Chain hash of that frame."""
    event_hash: bytes
    """Event hash after the command."""
    state: bytes
    """The encoded state."""


class Log(Protocol):
    """A log of commands. Frames are durable when :meth:`append` returns.

    Only one owner may append. ``after`` detects a second one: an append that does not continue the
    log is rejected.
    """

    @property
    def origin(self) -> Tail:
        """End of the dropped frames, where the log begins."""

    @property
    def tail(self) -> Tail:
        """End of the log."""

    def append(
        self,
        commands: Sequence[bytes],
        after: int,
        *,
        event_hash: bytes | None = None,
        state_hash: bytes | None = None,
    ) -> int:
        """Append a frame, and return when it is durable.

        Args:
            commands: at least one command in canonical bytes, as from ``clob.codec.encode`` or of
                the embedder's own kinds.
            after: number of the last command in the log.
            event_hash: event hash before the first command, stored in the frame.
            state_hash: state hash before the first command, stored in the frame.

        Returns:
            The number of the frame's last command.

        Raises:
            FencedError: the log does not end with ``after``.
            LogFailedError: the commit failed; the log accepts no more frames.
            ValueError: no commands, or a command or hash is invalid.
        """

    def tidy(self) -> None:
        """Do deferred maintenance; call it after the callers got their results. Usually cheap."""

    def read(self, after: int = 0) -> Iterator[Frame]:
        """Yield the checked frames from the one with command ``after + 1`` on.

        Args:
            after: the last command already read; 0 for none.

        Raises:
            LogDamagedError: a frame is damaged or was dropped.
        """

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot durably, and delete all but it and the one before.

        Raises:
            ValueError: no frame of this log ends with its command and chain hash.
        """

    def get_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, checked; None if there are none.

        Raises:
            LogDamagedError: it is damaged.
        """

    def drop(self, up_to: int) -> int:
        """Delete the frames that end with or before command ``up_to``.

        Returns:
            The number of deleted frames.

        Raises:
            ValueError: no snapshot covers them.
        """

    def close(self) -> None:
        """Close the log, and release its lock."""


def check_append(commands: Sequence[bytes], after: int, tail: Tail) -> None:
    """Raise if commands cannot be appended to a log.

    Raises:
        FencedError: the log does not end with ``after``.
        ValueError: there are no commands.
    """
    if after != tail.seq:
        raise FencedError(f"the log ends with command {tail.seq}, not {after}")
    if not commands:
        raise ValueError("a frame must have at least one command")


def check_read(after: int, origin: Tail) -> None:
    """Raise if the frames after a command were dropped."""
    if after < origin.seq:
        raise LogDamagedError(
            f"commands up to {origin.seq} were dropped; cannot read from command {after + 1}"
        )


def check_drop(up_to: int, snapshot: Snapshot | None) -> None:
    """Raise if the newest snapshot does not cover a command."""
    covered = 0 if snapshot is None else snapshot.seq
    if up_to > covered:
        raise ValueError(f"the newest snapshot covers commands up to {covered}, not {up_to}")


class MemoryLog:
    """A log in memory, for tests and for servers that need no durability."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._ends: list[int] = []
        self._origin = self._tail = Tail()
        self._snapshot: Snapshot | None = None

    @property
    def origin(self) -> Tail:
        """End of the dropped frames, where the log begins."""
        return self._origin

    @property
    def tail(self) -> Tail:
        """End of the log."""
        return self._tail

    def append(
        self,
        commands: Sequence[bytes],
        after: int,
        *,
        event_hash: bytes | None = None,
        state_hash: bytes | None = None,
    ) -> int:
        """Append a frame; see :meth:`Log.append`."""
        check_append(commands, after, self._tail)
        frame = encode_frame(
            commands,
            after + 1,
            self._tail.chain_hash,
            event_hash=event_hash,
            state_hash=state_hash,
        )
        self._tail = Tail(after + len(commands), frame_hash(frame))
        self._frames.append(frame)
        self._ends.append(self._tail.seq)
        return self._tail.seq

    def tidy(self) -> None:
        """Do nothing."""

    def read(self, after: int = 0) -> Iterator[Frame]:
        """Yield the frames from the one with command ``after + 1`` on."""
        check_read(after, self._origin)
        start = bisect_left(self._ends, after + 1)
        before = self._origin
        if start:
            before = Tail(self._ends[start - 1], frame_hash(self._frames[start - 1]))
        return read_frames(self._frames[start:], before.chain_hash, before.seq + 1)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot, unless there is a newer one."""
        index = bisect_left(self._ends, snapshot.seq)
        end = self._origin
        if snapshot.seq != end.seq and index < len(self._ends):
            end = Tail(self._ends[index], frame_hash(self._frames[index]))
        if end != Tail(snapshot.seq, snapshot.chain_hash):
            raise ValueError(f"no frame ends with command {snapshot.seq} and that chain hash")
        if self._snapshot is None or self._snapshot.seq <= snapshot.seq:
            self._snapshot = snapshot

    def get_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot; None if there are none."""
        return self._snapshot

    def drop(self, up_to: int) -> int:
        """Delete the frames that end with or before ``up_to``."""
        check_drop(up_to, self._snapshot)
        count = bisect_left(self._ends, up_to + 1)
        if count:
            self._origin = Tail(self._ends[count - 1], frame_hash(self._frames[count - 1]))
            del self._frames[:count], self._ends[:count]
        return count

    def close(self) -> None:
        """Do nothing."""
