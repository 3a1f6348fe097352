"""A log that is kept in memory, for tests and for those who need no more."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from clob.journal import Frame, frame_hash, read_frames
from clob_server.log.base import Snapshot, Tail, check_drop, check_read, next_frame


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
