"""SqliteLog: reopening, locks, versions, permissions and checkpoints."""

import os
import stat
import subprocess
import sys

import apsw
import pytest

from clob import Expire
from clob.codec import encode
from clob_server.log import (
    LogDamagedError,
    LogError,
    LogFailedError,
    LogLockedError,
    LogNewerError,
    LogOlderError,
    Snapshot,
    SqliteLog,
)


@pytest.fixture
def folder(tmp_path):
    """The path of a log that does not exist yet."""
    return tmp_path / "some" / "log"


def filled(log, *sizes):
    """Append frames with these numbers of commands."""
    for size in sizes:
        first = log.tail.seq + 1
        commands = [encode(Expire(now_ms=now_ms)) for now_ms in range(first, first + size)]
        log.append(commands, log.tail.seq)
    return log


def seqs(log, after=0):
    """Return the first number and the length of each frame."""
    return [(frame.first_seq, frame.count) for frame in log.read(after)]


def snapshot_of(log):
    """Return a snapshot after the last command."""
    tail = log.tail
    return Snapshot(
        seq=tail.seq, chain_hash=tail.chain_hash, event_hash=b"\1" * 32, state=b"a state"
    )


@pytest.mark.parametrize("dropped", [0, 4, 6])
def test_reopened_log_is_unchanged(folder, dropped):
    log = SqliteLog(folder)
    filled(log, 3, 1, 2)
    log.put_snapshot(snapshot_of(log))
    log.drop(dropped)
    before = log.tail, list(log.read(dropped)), log.get_snapshot()
    log.close()
    for _ in range(2):
        again = SqliteLog(folder)
        assert (again.tail, list(again.read(dropped)), again.get_snapshot()) == before
        again.close()
    again = SqliteLog(folder)
    if dropped:
        with pytest.raises(LogDamagedError, match=f"up to {dropped} were dropped"):
            again.read()
    assert filled(again, 1).tail.seq == 7
    again.close()


def test_two_snapshots_are_kept(folder):
    log = SqliteLog(folder)
    for _ in range(4):
        filled(log, 5)
        log.put_snapshot(snapshot_of(log))
    log.close()
    kept = sorted(path.name for path in folder.glob("snapshot-*"))
    assert kept == [f"snapshot-{seq:020d}.bin" for seq in (15, 20)]


def test_second_open_is_rejected_without_effect(folder):
    log = filled(SqliteLog(folder), 2)
    for options in ({}, {"accept_tail": True}):
        with pytest.raises(LogLockedError, match="another process has the log"):
            SqliteLog(folder, **options)
    filled(log, 2)
    log.close()
    again = SqliteLog(folder)
    assert seqs(again) == [(1, 2), (3, 2)]
    again.close()


OWNER = """
import sys
from clob import Expire
from clob.codec import encode
from clob_server.log import LogLockedError, SqliteLog
try:
    log = SqliteLog(sys.argv[1])
except LogLockedError:
    sys.exit("is locked out")
log.append([encode(Expire(now_ms=1))], log.tail.seq)
print("has it", flush=True)
sys.stdin.read()  # ends with the parent
"""


def owner(folder):
    """Start a process that opens the log, and keeps it open until it is killed."""
    command = [sys.executable, "-c", OWNER, str(folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


def test_log_is_locked_until_the_other_process_is_killed(folder):
    with owner(folder) as other:
        try:
            assert other.stdout.readline() == b"has it\n"
            with pytest.raises(LogLockedError):
                SqliteLog(folder)
        finally:
            other.kill()
    log = SqliteLog(folder)
    assert seqs(log) == [(1, 1)]
    log.close()


@pytest.mark.parametrize("tries", [0, 1])
def test_failed_opens_in_this_process_keep_its_lock(folder, tries):
    # POSIX releases all locks of a process on a file when the process closes any descriptor of it
    log = filled(SqliteLog(folder), 1)
    for _ in range(tries):
        with pytest.raises(LogLockedError):
            SqliteLog(folder)
    with owner(folder) as other:
        try:
            other.stdin.close()
            assert other.stderr.read() == b"is locked out\n"
            assert other.wait() == 1
        finally:
            other.kill()
    log.close()
    again = SqliteLog(folder)
    assert seqs(again) == [(1, 1)]
    again.close()


@pytest.mark.parametrize(
    ("version", "error", "words"),
    [
        (4, LogNewerError, "has format 4; this version reads formats 2 to 3$"),
        (
            1,
            LogOlderError,
            r"has format 1; this version reads formats 2 to 3 "
            r"\(nothing was released with format 1: "
            r"start with an empty folder\)$",
        ),
    ],
)
def test_log_of_another_format_is_rejected_and_unchanged(folder, version, error, words):
    filled(SqliteLog(folder), 1).close()
    set_version(folder, version)
    held = (folder / "log.db").read_bytes()
    with pytest.raises(error, match=words):
        SqliteLog(folder)
    assert (folder / "log.db").read_bytes() == held
    set_version(folder, 2)
    log = SqliteLog(folder)
    assert seqs(log) == [(1, 1)]
    log.close()
    assert version_of(folder) == 2, "a log that was only read stays as it was"
    log = SqliteLog(folder)
    log.append([b"\1"], log.tail.seq)
    log.close()
    assert version_of(folder) == 3, "older servers must reject commands that they do not know"


def version_of(folder):
    db = apsw.Connection(str(folder / "log.db"))
    (number,) = next(db.execute("PRAGMA user_version"))
    db.close()
    return number


def set_version(folder, number):
    db = apsw.Connection(str(folder / "log.db"))
    db.execute(f"PRAGMA user_version={number}")
    db.close()


def test_invalid_folder_is_rejected(tmp_path):
    (tmp_path / "file").write_bytes(b"in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "log"):
        with pytest.raises(LogError, match=r"file cannot be|log cannot be"):
            SqliteLog(folder)
    (tmp_path / "log.db").mkdir()
    with pytest.raises(LogError, match="cannot be opened"):
        SqliteLog(tmp_path)


def test_files_are_readable_by_the_owner_only(folder):
    before = os.umask(0)
    try:
        log = filled(SqliteLog(folder), 1)
        log.put_snapshot(snapshot_of(log))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        log.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"log.db", "log.db-wal", "tip"} < set(modes)
    assert set(modes.values()) == {0o600}


def test_closed_log_rejects_appends(folder):
    log = filled(SqliteLog(folder), 1)
    log.close()
    log.close()
    with pytest.raises(LogFailedError):
        filled(log, 1)
    again = SqliteLog(folder)
    assert seqs(again) == [(1, 1)]
    again.close()


@pytest.mark.parametrize(("tidies", "least", "most"), [(True, 0, 8), (False, 9, 10**6)])
def test_tidy_keeps_the_write_ahead_log_short(folder, tidies, least, most):
    log = SqliteLog(folder)
    largest = 0
    for seq in range(5_000):
        log.append([encode(Expire(now_ms=seq))], seq)
        if tidies:
            log.tidy()
        if seq % 50 == 0:
            largest = max(largest, (folder / "log.db-wal").stat().st_size)
    log.close()
    assert least * 10**6 <= largest <= most * 10**6


@pytest.mark.parametrize("names", [["log.db"], ["log.db-wal"], ["log.db", "log.db-wal"]])
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_log_whose_files_lose_their_names_is_saved_and_stops(folder, names, how):
    log = filled(SqliteLog(folder), 3, 2)
    for name in names:
        path = folder / name
        if how == "moved":
            path.rename(folder / f"{name}.moved")
        else:
            path.unlink()
        if how == "replaced":
            path.write_bytes(b"x" * 5_000)
    with pytest.raises(LogFailedError, match=f"{names[0]}.* was deleted, moved or replaced"):
        filled(log, 1)
    with pytest.raises(LogFailedError):
        filled(log, 1)
    log.close()
    if how == "replaced" and "log.db" in names:
        with pytest.raises(LogDamagedError):
            SqliteLog(folder)
        (folder / "log.db-wal").unlink(missing_ok=True)
        (folder / "log.db.rescued").rename(folder / "log.db")
    again = SqliteLog(folder)
    assert seqs(again) == [(1, 3), (4, 2), (6, 1)]
    again.close()


def test_tip_that_is_deleted_under_a_running_server_is_written_again(folder):
    log = filled(SqliteLog(folder), 3)
    (folder / "tip").unlink()
    filled(log, 1)
    log.tidy()
    filled(log, 2)
    log.close()
    again = SqliteLog(folder)
    assert seqs(again) == [(1, 3), (4, 1), (5, 2)]
    again.close()


def test_log_goes_on_after_a_checkpoint(folder):
    log = SqliteLog(folder)
    for _ in range(400):
        filled(log, 3)
        log.tidy()
    assert log.tail.seq == 1_200
    log.close()
