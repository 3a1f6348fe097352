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
from clob.errors import FrameTruncatedError
from clob.journal import Frame, read_frames
from clob_server.history.pipe import NUMBER, PIECE_BYTES
from clob_server.history.replica import Replica, open_store
from clob_server.history.store import ForeignHistoryError, put_aside
from clob_server.log import Tail

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
