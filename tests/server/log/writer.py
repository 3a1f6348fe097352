"""A process that appends, with acknowledgements over a pipe, until it is killed or kills itself.

What it appends follows from the numbers of the commands alone, so that whoever finds the folder
knows what has to be in it.
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
from tests.server.log.story import COMMANDS, LARGE

ROOT = Path(__file__).parents[3]


class Habits(NamedTuple):
    """How a writer works; each is a number, so that they fit on a command line."""

    frames: int = 0
    """After how many frames it kills itself; 0 is never."""
    checkpoint_pages: int = 500
    snapshot_each: int = 0
    """How many frames there are from one snapshot to the next; 0 is none."""
    drop_each: int = 0
    """How many frames there are from one drop to the next; each drops what is covered."""


def command(seq):
    """Give the command of a number."""
    return LARGE if seq % 61 == 0 else COMMANDS[seq * 7 % len(COMMANDS)]


def batch(first):
    """Give the commands of the frame that begins with this one."""
    return [command(seq) for seq in range(first, first + 1 + first * 31 % 7)]


def history():
    """Give the first number, the commands and the tail of each frame, without end."""
    first, chain_hash = 1, ZERO_HASH
    while True:
        commands = batch(first)
        chain_hash = frame_hash(encode_frame(commands, first, chain_hash))
        tail = Tail(first + len(commands) - 1, chain_hash)
        yield first, tuple(commands), tail
        first = tail.seq + 1


def snapshot_of(tail):
    """Give the snapshot that a writer puts where the log ends so."""
    state = b"state %d" % tail.seq * 30
    return Snapshot(
        seq=tail.seq, chain_hash=tail.chain_hash, event_hash=tail.chain_hash[::-1], state=state
    )


def write(folder, habits):
    """Append as fast as it goes."""
    log = SqliteLog(folder)
    for count in itertools.count(1):
        after = log.tail.seq
        os.write(1, b"%d\n" % log.append(batch(after + 1), after))
        if habits.snapshot_each and count % habits.snapshot_each == 0:
            log.put_snapshot(snapshot_of(log.tail))
        if habits.drop_each and count % habits.drop_each == 0:
            log.drop(log.get_snapshot().seq)
        if count == habits.frames:
            os.kill(os.getpid(), signal.SIGKILL)
        log.tidy()


def start(folder, habits):
    """Start a writer; whoever does ends it."""
    arguments = [sys.executable, "-m", __spec__.name, str(folder), *map(str, habits)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT)


def left_by(folder, habits):
    """Let a writer kill itself; give the number of the last command that it acknowledged."""
    with start(folder, habits) as process:
        try:
            acknowledged, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    return int(acknowledged.split()[-1])


if __name__ == "__main__":
    HABITS = Habits(*map(int, sys.argv[2:]))
    with mock.patch.object(sqlite, "CHECKPOINT_PAGES", HABITS.checkpoint_pages):
        write(sys.argv[1], HABITS)
