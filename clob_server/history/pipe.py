"""What the follower is sent: the frames of the log, read where they are kept, as far as it takes.

There is no queue. After each batch the thread of the log reads the rows that were just committed,
out of SQLite's cache, and writes them to a pipe; where the pipe is full it stops, and goes on where
it was once there is room. So catching up and keeping up are the same, and memory is bounded.
"""

import os
import select
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

from clob_server.log import SqliteLog

NUMBER: Final = struct.Struct("<Q")
"""How the follower writes a number."""
PIECE_BYTES: Final = 65_536
"""How much goes the way at once: what a pipe holds."""


class Pipe:
    """The way to one follower.

    Args:
        log: whose frames are sent.
        target: the descriptor they are written to; it is closed here.
        after: the command after which the follower begins, the last of its frame.
        full: called, in the thread that pumps, where the pipe takes nothing more for now.
    """

    def __init__(
        self, log: SqliteLog, target: int, after: int, full: Callable[["Pipe"], None]
    ) -> None:
        self._log = log
        self._after = after
        self._full = full
        self._left = memoryview(b"")
        self._lock = threading.Lock()
        self._open = True
        self.is_full: bool = False
        """If it took nothing more, and nobody has seen room since."""
        self.target: Final = target
        """The descriptor."""
        os.set_blocking(target, False)

    def pump(self) -> bool:
        """Send what there is, as far as it is taken; by whoever has the log.

        Returns:
            False where the pipe is full.
        """
        with self._lock:
            try:
                while self._open and (self._left or self._read()):
                    self._left = self._left[os.write(self.target, self._left) :]
            except BlockingIOError:
                self.is_full = True
                self._full(self)
                return False
            except BrokenPipeError:
                self._left, self._open = memoryview(b""), False
                os.close(self.target)
        return True

    def _read(self) -> bool:
        """Read on in the log; False where there is nothing new."""
        found = self._log.frames(self._after, PIECE_BYTES)
        if found:
            self._after = found[-1][0]
            self._left = memoryview(b"".join([frame for _, frame in found]))
        return bool(found)

    def finish(self, wait_s: float) -> None:
        """Send all there is, for so long at most, and close."""
        deadline = time.monotonic() + wait_s
        room = select.poll()
        room.register(self.target, select.POLLOUT)
        try:
            while not self.pump() and (left_s := deadline - time.monotonic()) > 0:
                room.poll(left_s * 1000)
        finally:
            self.close()

    def close(self) -> None:
        """Send nothing more, which ends the follower."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self.target)
