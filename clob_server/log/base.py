"""What a log is: frames of numbered commands, appended where the last one ended, and snapshots."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from clob import ClobError
from clob.journal import ZERO_HASH, Frame, encode_frame, frame_hash, read_frames


class LogError(ClobError):
    """What every error of a log derives from."""

    code = "LOG_ERROR"


class LogLockedError(LogError):
    """Another process has the log open; one at a time."""

    code = "LOG_LOCKED"


class LogNewerError(LogError):
    """A newer version of this package wrote the log."""

    code = "LOG_NEWER"


class LogDamagedError(LogError):
    """What is stored is not what was written; it says where."""

    code = "LOG_DAMAGED"


class LogFailedError(LogError):
    """A commit failed, so that nobody knows what of it is durable: the process has to end.

    A new one reads what is there. To try again in the same process is wrong: after a failed sync
    the system may have thrown away what it could not write.
    """

    code = "LOG_FAILED"


class FencedError(LogError):
    """Somebody else has appended since; whoever appends here now is not the owner any more."""

    code = "LOG_FENCED"


class Tail(msgspec.Struct, frozen=True):
    """Where a log ends."""

    seq: int = 0
    """The number of the last command, 0 where there is none."""
    chain_hash: bytes = ZERO_HASH
    """The chain hash of the last frame."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state after a command: what is before it need not be read again."""

    seq: int
    """The number of that command, the last of its frame."""
    chain_hash: bytes
    """The chain hash of that frame."""
    event_hash: bytes
    """The event hash after that command."""
    state: bytes
    """The state, in the bytes of whoever made it."""


class Log(Protocol):
    """Commands in sequence. What :meth:`append` has returned from is there for good.

    One owner appends. ``after`` is the whole of its fencing: who does not know where the log ends
    may not go on with it.
    """

    @property
    def origin(self) -> Tail:
        """The end of what was dropped, where it begins."""

    @property
    def tail(self) -> Tail:
        """Where it ends."""

    def append(
        self,
        commands: Sequence[bytes],
        after: int,
        *,
        event_hash: bytes | None = None,
        state_hash: bytes | None = None,
    ) -> int:
        """Add a frame, and return once it is durable.

        Args:
            commands: the canonical bytes of each, as ``clob.codec.encode`` writes them, or of
                the embedder's own kinds; at least one.
            after: the number of the command that it follows, which must be the last one.
            event_hash: the event hash before the first command, to be stated in the frame.
            state_hash: the state hash before the first command, to be stated in the frame.

        Returns:
            The number of its last command.

        Raises:
            FencedError: the log does not end with ``after``.
            LogFailedError: it cannot be said to be durable; nothing may be appended any more.
            ValueError: there is no command, or what is given is no command or no hash.
        """

    def tidy(self) -> None:
        """Do what can wait until the acknowledgements are out; cheap where there is nothing."""

    def read(self, after: int = 0) -> Iterator[Frame]:
        """Give the frames from the one with command ``after + 1`` on, each checked.

        Args:
            after: the last command that one has; 0 is none.

        Raises:
            LogDamagedError: a frame is not what was written, or was dropped.
        """

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, durably, and let go of all but it and the one before.

        Raises:
            ValueError: it is of a command that the log has not, or of another history.
        """

    def get_snapshot(self) -> Snapshot | None:
        """Give the newest snapshot, checked; None where there is none.

        Raises:
            LogDamagedError: it is not what was written.
        """

    def drop(self, up_to: int) -> int:
        """Let go of the frames whose commands end with or before ``up_to``.

        Returns:
            How many frames were let go.

        Raises:
            ValueError: no snapshot covers them.
        """

    def close(self) -> None:
        """Let it go; another may open it."""


def next_frame(
    tail: Tail,
    commands: Sequence[bytes],
    after: int,
    event_hash: bytes | None,
    state_hash: bytes | None,
) -> tuple[bytes, Tail]:
    """Write the frame that follows where a log ends, and say where it ends then.

    Raises:
        FencedError: it does not end with ``after``.
        ValueError: there is no command, or what is given is no command or no hash.
    """
    if after != tail.seq:
        raise FencedError(f"the log ends with command {tail.seq}, not with {after}")
    if not commands:
        raise ValueError("a frame of a log has at least one command")
    frame = encode_frame(
        commands, after + 1, tail.chain_hash, event_hash=event_hash, state_hash=state_hash
    )
    return frame, Tail(after + len(commands), frame_hash(frame))


def check_read(after: int, origin: Tail) -> None:
    """Refuse to begin where the frames were dropped."""
    if after < origin.seq:
        raise LogDamagedError(
            f"the commands up to {origin.seq} were dropped, so that there is none after {after}"
        )


def check_drop(up_to: int, snapshot: Snapshot | None) -> None:
    """Refuse to let go of what no snapshot covers."""
    covered = 0 if snapshot is None else snapshot.seq
    if up_to > covered:
        raise ValueError(f"the newest snapshot covers the commands up to {covered}, not {up_to}")


class MemoryLog:
    """A log that goes with its process. It does all that a durable one does but last."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._ends: list[int] = []
        self._origin = self._tail = Tail()
        self._snapshot: Snapshot | None = None

    @property
    def origin(self) -> Tail:
        """The end of what was dropped, where it begins."""
        return self._origin

    @property
    def tail(self) -> Tail:
        """Where it ends."""
        return self._tail

    def append(
        self,
        commands: Sequence[bytes],
        after: int,
        *,
        event_hash: bytes | None = None,
        state_hash: bytes | None = None,
    ) -> int:
        """Add a frame; see :meth:`Log.append`."""
        frame, self._tail = next_frame(self._tail, commands, after, event_hash, state_hash)
        self._frames.append(frame)
        self._ends.append(self._tail.seq)
        return self._tail.seq

    def tidy(self) -> None:
        """Do nothing."""

    def read(self, after: int = 0) -> Iterator[Frame]:
        """Give the frames from the one with command ``after + 1`` on."""
        check_read(after, self._origin)
        start = bisect_left(self._ends, after + 1)
        before = self._origin
        if start:
            before = Tail(self._ends[start - 1], frame_hash(self._frames[start - 1]))
        return read_frames(self._frames[start:], before.chain_hash, before.seq + 1)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, unless there is a newer one."""
        index = bisect_left(self._ends, snapshot.seq)
        here = self._origin
        if snapshot.seq != here.seq and index < len(self._ends):
            here = Tail(self._ends[index], frame_hash(self._frames[index]))
        if here != Tail(snapshot.seq, snapshot.chain_hash):
            raise ValueError(f"no frame ends with command {snapshot.seq} and that chain hash")
        if self._snapshot is None or self._snapshot.seq <= snapshot.seq:
            self._snapshot = snapshot

    def get_snapshot(self) -> Snapshot | None:
        """Give the newest snapshot; None where there is none."""
        return self._snapshot

    def drop(self, up_to: int) -> int:
        """Let go of the frames that end with or before ``up_to``."""
        check_drop(up_to, self._snapshot)
        count = bisect_left(self._ends, up_to + 1)
        if count:
            self._origin = Tail(self._ends[count - 1], frame_hash(self._frames[count - 1]))
            del self._frames[:count], self._ends[:count]
        return count

    def close(self) -> None:
        """Do nothing."""


# MERGED clob_server.log.base: What can go wrong with a log.

# MERGED clob_server.log.base: A log that is kept in memory, for tests and for those who need no more.
