"""A writer is killed repeatedly; all frames that it acknowledged are there."""

import contextlib
import random  # noqa: TID251 - seeded, and outside the engine
import shutil
from itertools import takewhile

import pytest

from clob_server.log import LogLockedError, SqliteLog
from tests.server.log.writer import Settings, all_frames, batch, snapshot_of, start

SETTINGS = Settings(checkpoint_pages=40, snapshot_each=50, drop_each=150)
CYCLES, CYCLES_LONG = 20, 100


def killed(folder, lines, meanwhile=lambda: None):
    """Kill a writer after a number of acknowledgements; return the acknowledged numbers."""
    with start(folder, SETTINGS) as process:
        try:
            heard = [process.stdout.readline() for _ in range(lines)]
            meanwhile()
            process.kill()
            heard += process.stdout.readlines()
        finally:
            process.kill()
    # an incomplete line is not an acknowledgement
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
        written = list(takewhile(lambda frame: frame[2].seq <= log.tail.seq, all_frames()))
        assert written[-1][2] == log.tail
        expected = [(first, commands) for first, commands, _ in written if first > after]
        assert [(frame.first_seq, frame.raw) for frame in log.read(after)] == expected
        if snapshot:
            assert snapshot in [snapshot_of(tail) for *_, tail in written if tail.seq == after]
    finally:
        log.close()


def kill_repeatedly(tmp_path, cycles, seed):
    """Kill writers on one folder repeatedly; return the number of acknowledgements."""
    rng, total, last = random.Random(seed), 0, 0
    for cycle in range(cycles):
        heard = killed(tmp_path / "log", rng.randrange(1, 60))
        assert heard, f"seed {seed}, cycle {cycle}: the writer ended by itself"
        assert heard[0] > last, f"seed {seed}, cycle {cycle}: it began with {heard[0]}"
        total, last = total + len(heard), heard[-1]
        find(tmp_path / "log", tmp_path / "copy", last)
    return total


def test_acknowledged_frames_survive_kills(tmp_path):
    assert kill_repeatedly(tmp_path, CYCLES, 1) > CYCLES * 10


@pytest.mark.long
def test_acknowledged_frames_survive_many_kills(tmp_path):
    kill_repeatedly(tmp_path, CYCLES_LONG, 2)


def test_second_process_is_locked_out(tmp_path):
    def try_to_open():
        with pytest.raises(LogLockedError):
            SqliteLog(tmp_path / "log")

    assert killed(tmp_path / "log", 3, try_to_open)
    SqliteLog(tmp_path / "log").close()


def test_unfinished_snapshot_file_is_removed_at_open(tmp_path):
    """A process killed while it stores a snapshot leaves the file before its rename."""
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        log.append([b"\x80"], 0)
    aside = tmp_path / "snapshot-00000000000000000001.bin.new"
    aside.write_bytes(b"CLOBSNAP")
    with contextlib.closing(SqliteLog(tmp_path)) as log:
        assert log.get_snapshot() is None
        assert log.tail.seq == 1
    assert not aside.exists()
