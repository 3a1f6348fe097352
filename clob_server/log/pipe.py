"""Frames of a log from the process that owns it to one that follows it, through a pipe.

The frames are not queued. After one or more batches the log thread reads the new rows, which SQLite
still has in its cache, and writes them to the pipe. If it is full the thread stops, and continues
from the same position once there is room. So catching up and keeping up are the same code, and
memory is bounded.

The other process reports on its standard output in 8-byte little-endian numbers: first the command
after which it wants to begin, then how far it is, and :data:`BEAT` as a sign of life.
"""

import logging
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from clob.errors import FrameTruncatedError
from clob.journal import Frame, encode_frame, read_frames
from clob_server.log.sqlite import SqliteLog

NUMBER: Final = struct.Struct("<Q")
"""Encoding of a number that the follower writes."""
READ_BYTES: Final = 65_536
"""Bytes per read from the log and from the pipe: the capacity of a pipe."""
BEAT: Final = 2**64 - 1
"""Number that the follower writes every ``BEAT_S`` seconds as a sign of life."""
BEAT_S: Final = 1.0

_LOG: Final = logging.getLogger("clob_server.log")


class Pipe:
    """Sends frames to one follower.

    Args:
        target: file descriptor of the pipe; closed by this object.
        after: last command that the follower has, the last of its frame.
        on_full: called in the sending thread when the pipe is full.
    """

    def __init__(
        self, log: SqliteLog, target: int, after: int, on_full: Callable[["Pipe"], None]
    ) -> None:
        self._log = log
        self._after = after
        self._on_full = on_full
        self._unsent = memoryview(b"")
        self._lock = threading.Lock()
        self._open = True
        self.is_full: bool = False
        """Whether the pipe was full at the last write and has not become writable since."""
        self.target: Final = target
        """File descriptor of the pipe."""
        os.set_blocking(target, False)

    def send(self, until: int) -> bool:
        """Send new frames; call it only in the thread that owns the log.

        Args:
            until: last command to send, the last of its frame.

        Returns:
            False if the pipe is full.
        """
        with self._lock:
            try:
                while self._open and (self._unsent or self._read(until)):
                    self._unsent = self._unsent[os.write(self.target, self._unsent) :]
            except BlockingIOError:
                self.is_full = True
                self._on_full(self)
                return False
            except BrokenPipeError:
                self._unsent, self._open = memoryview(b""), False
                os.close(self.target)
        return True

    def _read(self, until: int) -> bool:
        """Read the next frames of the log up to a command; return False without any."""
        found = self._log.frames(self._after, READ_BYTES)
        frames = [(first, frame) for first, frame in found if first <= until]
        if frames:
            self._after = frames[-1][0]
            self._unsent = memoryview(b"".join([frame for _, frame in frames]))
        return bool(frames)

    def finish(self, wait_s: float) -> None:
        """Send all frames within a time, then one without commands, and close the pipe."""
        deadline = time.monotonic() + wait_s
        poll = select.poll()
        poll.register(self.target, select.POLLOUT)

        def is_sent() -> bool:
            while not self.send(self._log.tail.seq):
                if (left_s := deadline - time.monotonic()) <= 0:
                    return False
                poll.poll(left_s * 1000)
            return True

        try:
            if is_sent():
                tail = self._log.tail
                self._unsent = memoryview(encode_frame([], tail.seq + 1, tail.chain_hash))
                is_sent()
        finally:
            self.close()

    def close(self) -> None:
        """Close the pipe, which ends the follower."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self.target)


class FrameSplitter:
    """Splits the bytes after a command, with its chain hash, into checked frames."""

    def __init__(self, seq: int, chain_hash: bytes) -> None:
        self._seq = seq
        self._chain_hash = chain_hash
        self._rest = b""

    def split(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with these bytes.

        Raises:
            FrameError: the bytes are not the next frame.
        """
        data = self._rest + data
        self._rest = b""
        try:
            for frame in read_frames(data, self._chain_hash, self._seq + 1):
                self._seq, self._chain_hash = frame.first_seq + frame.count - 1, frame.chain_hash
                yield frame
        except FrameTruncatedError as error:
            self._rest = data[error.offset :]


def has_input(source: int, wait_s: float) -> bool:
    """Return whether input, or its end, is available within a time."""
    return bool(select.select([source], [], [], wait_s)[0])


def beat() -> None:
    """Write signs of life; from a thread, since a snapshot takes long."""
    while True:
        write_number(BEAT)
        time.sleep(BEAT_S)


def write_number(number: int) -> None:
    """Write a number to the server, if it still runs."""
    try:
        os.write(sys.stdout.fileno(), NUMBER.pack(number))
    except BrokenPipeError:
        _LOG.debug("the server has ended")
