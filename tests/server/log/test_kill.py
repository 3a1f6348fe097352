"""A process that appends as fast as it can is killed, again and again: all it said is there."""

import contextlib
import random  # noqa: TID251 - seeded, and outside the engine
import shutil
from itertools import takewhile

import pytest

from clob_server.log import LogLockedError, SqliteLog
from tests.server.log.writer import Habits, batch, history, snapshot_of, start

HABITS = Habits(checkpoint_pages=40, snapshot_each=50, drop_each=150)
CYCLES, CYCLES_LONG = 20, 200


def killed(folder, lines, meanwhile=lambda: None):
    """Let a writer append until it has acknowledged so often, and kill it; give what was heard."""
    with start(folder, HABITS) as process:
        try:
            heard = [process.stdout.readline() for _ in range(lines)]
            meanwhile()
            process.kill()
            heard += process.stdout.readlines()
        finally:
            process.kill()
    # A line that was cut was not heard.
    return [int(line) for line in heard if line.endswith(b"\n")]


def find(folder, copy, last):
    """Find all frames up to the last that was acknowledged; at most one more may be there.

    It is a copy that is opened: the next writer has to find what the dead one left.
    """
    shutil.rmtree(copy, ignore_errors=True)
    log = SqliteLog(shutil.copytree(folder, copy))
    try:
        assert log.tail.seq in (last, last + len(batch(last + 1)))
        snapshot = log.get_snapshot()
        after = snapshot.seq if snapshot else 0
        written = list(takewhile(lambda frame: frame[2].seq <= log.tail.seq, history()))
        assert written[-1][2] == log.tail
        expected = [(first, commands) for first, commands, _ in written if first > after]
        assert [(frame.first_seq, frame.raw) for frame in log.read(after)] == expected
        if snapshot:
            assert snapshot in [snapshot_of(tail) for *_, tail in written if tail.seq == after]
    finally:
        log.close()


def kill_again_and_again(tmp_path, cycles, seed):
    """Kill writers on one folder; give how much they acknowledged."""
    rng, total, last = random.Random(seed), 0, 0
    for cycle in range(cycles):
        heard = killed(tmp_path / "log", rng.randrange(1, 60))
        assert heard, f"seed {seed}, cycle {cycle}: the writer ended by itself"
        assert heard[0] > last, f"seed {seed}, cycle {cycle}: it began with {heard[0]}"
        total, last = total + len(heard), heard[-1]
        find(tmp_path / "log", tmp_path / "copy", last)
    return total


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path):
    assert kill_again_and_again(tmp_path, CYCLES, 1) > CYCLES * 10


@pytest.mark.long
def test_what_was_acknowledged_is_there_after_very_many_kills(tmp_path):
    kill_again_and_again(tmp_path, CYCLES_LONG, 2)


def test_while_one_process_has_it_nobody_else_gets_it(tmp_path):
    def refused():
        with pytest.raises(LogLockedError):
            SqliteLog(tmp_path / "log")

    assert killed(tmp_path / "log", 3, refused)
    SqliteLog(tmp_path / "log").close()


def test_what_a_death_left_aside_is_removed(tmp_path):
    """As one does in the middle of putting a snapshot: it is written aside, and not renamed yet."""
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        log.append([b"\x80"], 0)
    aside = tmp_path / "snapshot-00000000000000000001.bin.new"
    aside.write_bytes(b"CLOBSNAP")
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        assert log.get_snapshot() is None
        assert log.tail.seq == 1
    assert not aside.exists()
