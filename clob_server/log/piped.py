"""A log that another process of this machine owns, received through a pipe.

The folder is that of the owner, which alone has the log open: here only its snapshots are read.
"""

from collections.abc import Callable, Iterator
from os import read as read_bytes
from pathlib import Path
from typing import Final, NoReturn

from clob.journal import Frame
from clob_server.log.base import (
    Damage,
    FencedError,
    Log,
    LogDamagedError,
    LogFailedError,
    Snapshot,
    Tail,
)
from clob_server.log.files import Folder, read_snapshot, snapshot_names
from clob_server.log.pipe import READ_BYTES, FrameSplitter, has_input, write_number

WAIT_S: Final = 60.0
"""Seconds that opening waits for the next frames."""


class PipedLog(Log):
    """The log of another process, from the newest usable snapshot on.

    Opening reports where it begins, and receives the frames up to the end that the log had when
    this process was started. The following ones come with :meth:`pull`. They are not stored.

    Args:
        folder: folder of the log.
        source: file descriptor of the pipe.
        origin: last command dropped from the log; 0 if none was.
        end: end of the log when this process was started.
        report: sends the start position to the owner.

    Raises:
        LogDamagedError: no usable snapshot covers the dropped commands.
        LogFailedError: the owner has ended, or sends nothing.
        FrameError: a frame is damaged, or does not follow.
    """

    def __init__(
        self,
        folder: Path,
        source: int,
        origin: int,
        end: Tail,
        report: Callable[[int], None] = write_number,
    ) -> None:
        super().__init__()
        self._source = source
        self._snapshot = newest_usable(folder)
        if self._snapshot is not None:
            self.origin: Tail = Tail(self._snapshot.seq, self._snapshot.chain_hash)
        if self.origin.seq < origin:
            raise LogDamagedError(f"no usable snapshot covers the dropped commands up to {origin}")
        self.tail: Tail = self.origin
        self._splitter = FrameSplitter(self.tail.seq, self.tail.chain_hash)
        self._received: list[Frame] = []
        report(self.tail.seq)
        while self.tail.seq < end.seq:
            if not has_input(source, WAIT_S):
                raise LogFailedError(f"the owner of the log sent nothing for {WAIT_S:g} s")
            self._received += self._receive()

    def pull(self, timeout_s: float) -> list[Frame]:
        """Return the frames that the owner has appended since the last call; wait for the first.

        Raises:
            LogFailedError: the owner has ended.
            FrameError: a frame is damaged, or does not follow.
        """
        self._received = []  # recovery has read them
        return self._receive() if has_input(self._source, timeout_s) else []

    def _receive(self) -> list[Frame]:
        """Read the pipe once, and return the frames that are complete."""
        data = read_bytes(self._source, READ_BYTES)
        if not data:
            raise LogFailedError("the process that owns the log has ended")
        # The last frame of an owner that stops has no commands.
        frames = [frame for frame in self._splitter.split(data) if frame.count]
        if frames:
            last = frames[-1]
            self.tail = Tail(last.first_seq + last.count - 1, last.chain_hash)
        return frames

    def unchecked_snapshots(self) -> Iterator[tuple[str, Snapshot | str, Damage]]:
        """Yield the snapshot where this log begins, if there is one."""
        if self._snapshot is not None:
            yield "the snapshot", self._snapshot, lambda: None

    def _walk(self, before: Tail) -> Iterator[Frame]:
        return iter([frame for frame in self._received if frame.first_seq > before.seq])

    def _before(self, seq: int) -> Tail:
        return self.origin if seq <= self.origin.seq + 1 else Tail(seq - 1)

    def _store(self, frame: bytes, first: int, tail: Tail) -> NoReturn:
        raise FencedError("another process owns the log")

    def _keep(self, snapshot: Snapshot) -> NoReturn:
        raise FencedError("another process owns the log")

    def _delete(self, last: Tail) -> NoReturn:
        raise FencedError("another process owns the log")


def newest_usable(folder: Path) -> Snapshot | None:
    """Return the newest undamaged snapshot of a folder, or None."""
    files = Folder(folder)
    for name in reversed(snapshot_names(files)):
        found = read_snapshot(files, name)
        if not isinstance(found, str):
            return found
    return None
