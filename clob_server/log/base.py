"""The base class of logs, its errors and values, and a log in memory.

A log is a sequence of frames of numbered commands, with snapshots of the state.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

import msgspec

from clob import ClobError
from clob.journal import ZERO_HASH, Frame, encode_frame, frame_hash, read_frames


class LogError(ClobError, code="LOG_ERROR"):
    """Base class of log errors."""


class LogLockedError(LogError, code="LOG_LOCKED"):
    """Another process has the log open."""


class LogNewerError(LogError, code="LOG_NEWER"):
    """A newer version of this package wrote the log."""


class LogOlderError(LogError, code="LOG_OLDER"):
    """An older version of this package wrote the log."""


class LogDamagedError(LogError, code="LOG_DAMAGED"):
    """The stored data differs from the written data; the message has the place."""


class LogFailedError(LogError, code="LOG_FAILED"):
    """A commit failed and may or may not be durable; the process must end.

    A new process reads the durable part. A retry in the same process would be wrong: after a failed
    sync the system may have dropped the data that it could not write.
    """


class FencedError(LogError, code="LOG_FENCED"):
    """The log does not end with the expected command: another owner has appended to it."""


class FrameTooLargeError(LogError, code="LOG_FRAME_TOO_LARGE"):
    """A frame is larger than the servers of a replicated log accept; nothing was written."""


class ClusterUnsafeError(LogError, code="LOG_CLUSTER_UNSAFE"):
    """The cluster of a replicated log could lose acknowledged commands, for the reason given."""


class ClusterUnreachableError(LogError, code="LOG_CLUSTER_UNREACHABLE"):
    """The cluster of a replicated log, or the majority of its servers, does not answer."""


class ClusterLostError(LogError, code="LOG_CLUSTER_LOST"):
    """The cluster lost commands that it had acknowledged; the local log still has them."""


class LogDivergedError(LogError, code="LOG_DIVERGED"):
    """The local log and the cluster have different commands with the same number."""


class LogBehindError(LogError, code="LOG_BEHIND"):
    """The cluster no longer has the commands that follow those of the local log."""


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
    state: bytes | memoryview
    """The encoded state; a view of its file, where it comes from one."""


Damage = Callable[[], str | None]
"""Waits for the check of the bytes of a snapshot; returns None or a description of the damage."""


class Log(ABC):
    """A log of commands. Frames are durable when :meth:`append` returns.

    Only one owner may append. ``after`` detects a second one: an append that does not continue the
    log is rejected.
    """

    def __init__(self) -> None:
        self.origin: Tail = Tail()
        """End of the dropped frames, where the log begins."""
        self.tail: Tail = Tail()
        """End of the log."""
        self.unchecked_seq: int = 0
        """Last command of the frames that were not checked at open; ``clob-server verify`` does."""
        self.num_bytes: int = 0
        """Size of the frames that were checked at open or appended since, roughly."""

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
        end = self.tail
        if after != end.seq:
            raise FencedError(f"the log ends with command {end.seq}, not {after}")
        if not commands:
            raise ValueError("a frame must have at least one command")
        frame = encode_frame(
            commands, after + 1, end.chain_hash, event_hash=event_hash, state_hash=state_hash
        )
        tail = Tail(after + len(commands), frame_hash(frame))
        self._store(frame, after + 1, tail)
        self.tail = tail
        self.num_bytes += len(frame)
        return tail.seq

    def tidy(self) -> None:  # noqa: B027 - nothing to do by default
        """Do deferred maintenance; call it after the callers got their results. Usually cheap."""

    def read(self, after: int = 0) -> Iterator[Frame]:
        """Yield the checked frames from the one with command ``after + 1`` on.

        Args:
            after: the last command already read; 0 for none.

        Raises:
            LogDamagedError: a frame is damaged or was dropped.
        """
        self._check_readable(after)
        return self._walk(self._before(after + 1))

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Store a snapshot durably, and delete all but it and the one before.

        Raises:
            ValueError: no frame of this log ends with its command and chain hash.
        """
        self._check_readable()
        if not self._has(snapshot):
            raise ValueError(f"no frame ends with command {snapshot.seq} and that chain hash")
        self._keep(snapshot)

    def get_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, checked; None if there are none.

        Raises:
            LogDamagedError: it is damaged.
        """
        for name, found in self.snapshots():
            if isinstance(found, str):
                raise LogDamagedError(f"{name}: {found}")
            return found
        return None

    def snapshots(self) -> Iterator[tuple[str, Snapshot | str]]:
        """Yield the names of the snapshots, newest first, each with its content or its damage."""
        for name, found, damage in self.unchecked_snapshots():
            yield name, damage() or found

    @abstractmethod
    def unchecked_snapshots(self) -> Iterator[tuple[str, Snapshot | str, Damage]]:
        """Yield the same before the bytes are checked, with a function that returns their damage.

        The check runs in another thread, so that the state can be restored meanwhile.
        """

    def set_aside(self, name: str) -> None:  # noqa: B027 - nothing to do by default
        """Rename a snapshot that cannot be used, so that it does not count as a kept one."""

    def drop(self, up_to: int) -> int:
        """Delete the frames that end with or before command ``up_to``.

        Returns:
            The number of deleted frames.

        Raises:
            ValueError: no snapshot covers them.
        """
        snapshot = self.get_snapshot()
        covered = 0 if snapshot is None else snapshot.seq
        if up_to > covered:
            raise ValueError(f"the newest snapshot covers commands up to {covered}, not {up_to}")
        last = self._before(up_to + 1)
        if last.seq <= self.origin.seq:
            return 0
        count = self._delete(last)
        self.origin = last
        return count

    def close(self) -> None:  # noqa: B027 - nothing to do by default
        """Close the log, and release its lock."""

    def _check_readable(self, after: int | None = None) -> None:
        """Raise if the log failed, or the frames after a command were dropped."""
        if after is not None and after < self.origin.seq:
            raise self._dropped(after)

    def _dropped(self, after: int) -> LogDamagedError:
        """Return the error of reading frames that were dropped."""
        dropped = f"commands up to {self.origin.seq} were dropped"
        return LogDamagedError(f"{dropped}; cannot read from command {after + 1}")

    def _has(self, snapshot: Snapshot) -> bool:
        """Return whether a frame of this log ends at the snapshot."""
        return self._before(snapshot.seq + 1) == Tail(snapshot.seq, snapshot.chain_hash)

    @abstractmethod
    def _store(self, frame: bytes, first: int, tail: Tail) -> None:
        """Store the frame that begins with command ``first``, durably."""

    @abstractmethod
    def _before(self, seq: int) -> Tail:
        """Return the end of the frame before the one with a command."""

    @abstractmethod
    def _walk(self, before: Tail) -> Iterator[Frame]:
        """Yield the checked frames after a frame end."""

    @abstractmethod
    def _keep(self, snapshot: Snapshot) -> None:
        """Store a snapshot of this log."""

    @abstractmethod
    def _delete(self, last: Tail) -> int:
        """Delete the frames up to the end of one; return how many."""


class MemoryLog(Log):
    """A log in memory, for tests and for servers that need no durability."""

    def __init__(self) -> None:
        super().__init__()
        self._frames: list[bytes] = []
        self._ends: list[int] = []
        self._snapshot: Snapshot | None = None

    def unchecked_snapshots(self) -> Iterator[tuple[str, Snapshot | str, Damage]]:
        """Yield the newest snapshot, the only one kept."""
        if self._snapshot is not None:
            yield "the snapshot", self._snapshot, lambda: None

    def _store(self, frame: bytes, first: int, tail: Tail) -> None:
        self._frames.append(frame)
        self._ends.append(tail.seq)

    def _before(self, seq: int) -> Tail:
        count = bisect_left(self._ends, seq)
        if not count:
            return self.origin
        return Tail(self._ends[count - 1], frame_hash(self._frames[count - 1]))

    def _walk(self, before: Tail) -> Iterator[Frame]:
        start = bisect_left(self._ends, before.seq + 1)
        return read_frames(self._frames[start:], before.chain_hash, before.seq + 1)

    def _keep(self, snapshot: Snapshot) -> None:
        if self._snapshot is None or self._snapshot.seq <= snapshot.seq:
            self._snapshot = snapshot

    def _delete(self, last: Tail) -> int:
        count = bisect_left(self._ends, last.seq + 1)
        del self._frames[:count], self._ends[:count]
        return count
