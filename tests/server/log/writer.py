"""A process that appends frames until it is killed, and writes acknowledgements to a pipe.

The frames depend only on the command numbers, so a test can compute the expected content of the
folder.
"""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from clob.journal import ZERO_HASH, encode_frame, frame_hash
from clob_server.log import Snapshot, SqliteLog, Tail, sqlite
from tests.server.log.simulation import COMMANDS, LARGE

ROOT = Path(__file__).parents[3]


class Settings(NamedTuple):
    """Settings of a writer; all are numbers, for the command line."""

    frames: int = 0
    """Frames until the writer kills itself; 0 for never."""
    checkpoint_pages: int = 500
    snapshot_each: int = 0
    """Frames between snapshots; 0 for none."""
    drop_each: int = 0
    """Frames between drops of the frames that the snapshot covers; 0 for none."""


def command(seq):
    """Return the command with a number."""
    return LARGE if seq % 61 == 0 else COMMANDS[seq * 7 % len(COMMANDS)]


def batch(first):
    """Return the commands of the frame that starts with a number."""
    return [command(seq) for seq in range(first, first + 1 + first * 31 % 7)]


def all_frames():
    """Yield the first number, the commands and the tail of each frame, endlessly."""
    first, chain_hash = 1, ZERO_HASH
    while True:
        commands = batch(first)
        chain_hash = frame_hash(encode_frame(commands, first, chain_hash))
        tail = Tail(first + len(commands) - 1, chain_hash)
        yield first, tuple(commands), tail
        first = tail.seq + 1


def snapshot_of(tail):
    """Return the snapshot that a writer stores at this end of the log."""
    state = b"state %d" % tail.seq * 30
    return Snapshot(
        seq=tail.seq, chain_hash=tail.chain_hash, event_hash=tail.chain_hash[::-1], state=state
    )


def write(folder, settings):
    """Append frames as fast as possible."""
    log = SqliteLog(folder)
    for count in itertools.count(1):
        after = log.tail.seq
        os.write(1, b"%d\n" % log.append(batch(after + 1), after))
        if settings.snapshot_each and count % settings.snapshot_each == 0:
            log.put_snapshot(snapshot_of(log.tail))
        if settings.drop_each and count % settings.drop_each == 0:
            log.drop(log.get_snapshot().seq)
        if count == settings.frames:
            os.kill(os.getpid(), signal.SIGKILL)
        log.tidy()


def start(folder, settings):
    """Start a writer; the caller must kill it."""
    arguments = [sys.executable, "-m", __spec__.name, str(folder), *map(str, settings)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT)


def left_by(folder, settings):
    """Run a writer until it kills itself; return the last acknowledged command."""
    with start(folder, settings) as process:
        try:
            acknowledged, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    return int(acknowledged.split()[-1])


if __name__ == "__main__":
    SETTINGS = Settings(*map(int, sys.argv[2:]))
    with mock.patch.object(sqlite, "CHECKPOINT_PAGES", SETTINGS.checkpoint_pages):
        write(sys.argv[1], SETTINGS)
