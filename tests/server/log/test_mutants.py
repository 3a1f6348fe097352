"""Deliberate faults in the log are caught: a story that finds nothing would prove nothing."""

import contextlib
import random  # noqa: TID251 - seeded, and outside the engine
from unittest import mock

import msgspec
import pytest

from clob.journal import encode_frame, frame_hash, read_frames
from clob_server.log import LogFailedError, SqliteLog, Tail, sqlite
from tests.server.log.damage import KILLED, SilentError, any_bit, copied, flip, leave, taken
from tests.server.log.simdisk import FULL, POWER, PROCESS, SYNC, Disk
from tests.server.log.simvfs import SimFiles, SimVfs
from tests.server.log.story import BIG_SECTORS, LYING, TROUBLE, catches

SEEDS = range(60)


class Normal(SqliteLog):
    """It syncs at checkpoints alone."""

    level = "NORMAL"

    def _open(self, accept_tail):
        super()._open(accept_tail)
        self._db.execute(f"PRAGMA synchronous={self.level}").fetchall()


class Off(Normal):
    """It never syncs."""

    level = "OFF"


class Hasty(SqliteLog):
    """It acknowledges a batch, and commits it before the next one."""

    _late = None

    @property
    def tail(self):
        if self._late is None:
            return self._tail
        commands, after, hashes = self._late
        frame = encode_frame(commands, after + 1, self._tail.chain_hash, **hashes)
        return Tail(after + len(commands), frame_hash(frame))

    def append(self, commands, after, **hashes):
        self._catch_up()
        self._late = commands, after, hashes
        return after + len(commands)

    def read(self, after=0):
        self._catch_up()
        return super().read(after)

    def close(self):
        self._catch_up()
        super().close()

    def _catch_up(self):
        late, self._late = self._late, None
        if late:
            commands, after, hashes = late
            super().append(commands, after, **hashes)


class Trusting(SqliteLog):
    """It shows what it finds at open, durable or not."""

    def _checkpoint(self, mode):
        if mode != "TRUNCATE":
            super()._checkpoint(mode)


class Tipless(SqliteLog):
    """It takes the end of the log for its end."""

    def _compare(self, told, found):
        pass


@pytest.mark.parametrize(
    ("make", "weather"),
    [(Normal, {}), (Off, {}), (SqliteLog, {"weather": LYING}), (Hasty, {})],
    ids=["synchronous=NORMAL", "synchronous=OFF", "a sync that lies", "too early"],
)
def test_what_is_acknowledged_before_it_is_durable_is_caught(tmp_path, make, weather):
    assert catches(SEEDS, tmp_path, make=make, **weather)


def test_the_same_seeds_find_nothing_in_the_log_itself(tmp_path):
    assert catches(SEEDS, tmp_path) is None


def test_what_is_shown_before_it_is_durable_is_caught(tmp_path):
    assert catches(range(800), tmp_path, make=Trusting, weather=BIG_SECTORS)


def shown_and_then_there(seed, folder, make):
    """Let a process die while it appends, the next show what it finds, and the power go."""
    disk = Disk(random.Random(seed))
    disk.plan(None, 0)
    seen = []
    for fault in (PROCESS, POWER, None):
        vfs = SimVfs(disk)
        log = None
        with contextlib.suppress(*TROUBLE):
            log = make(folder, vfs=vfs.name, files=SimFiles(disk))
            seen.append(log.tail.seq)
            if fault == PROCESS:
                log.append([b"\x80"], 0)
                disk.plan(PROCESS, 1 + seed % 6)
                log.append([b"\x81"], 1)
        disk.strike(fault or PROCESS)
        with contextlib.suppress(*TROUBLE):
            log and log.close()
        disk.revive()
        vfs.unregister()
    return seen[1:]


def test_what_was_shown_after_a_death_is_there_after_a_loss_of_power(tmp_path):
    """It has the one command or both; but what it has shown it has for good."""
    lives = [shown_and_then_there(seed, tmp_path, SqliteLog) for seed in SEEDS]
    assert {tuple(life) for life in lives} == {(1, 1), (2, 2)}
    lives = [shown_and_then_there(seed, tmp_path, Trusting) for seed in SEEDS]
    assert [2] in lives or [2, 1] in lives


# ----- caught by flipped bits ----------------------------------------------------------------


def trusting(pieces, previous, first_seq):
    """Read frames, and take each for the one that follows, whatever its chain hash."""
    for piece in pieces:
        body = piece[:-32]
        mended = body + sqlite.beside.hash_of(previous + body)
        for frame in read_frames(mended, previous, first_seq):
            yield msgspec.structs.replace(frame, chain_hash=piece[-32:])
            first_seq += frame.count
        previous = piece[-32:]


def silent(left, folder, seeds, name, make=SqliteLog):
    """Give the first seed whose flipped bit in this file is passed over in silence; or None."""
    for seed in seeds:
        path, bit = any_bit(random.Random(seed), copied(left, folder))
        if path.name != name:
            continue
        flip(path, bit)
        try:
            taken(left, folder, make)
        except SilentError:
            return seed
    return None


def test_without_the_tip_a_flipped_bit_drops_the_end_in_silence(tmp_path):
    left = leave(tmp_path / "left", KILLED["all of it in the write-ahead log"])
    folder = tmp_path / "log"
    seeds = range(20)
    assert silent(left, folder, seeds, "log.db-wal", Tipless) is not None
    assert silent(left, folder, seeds, "log.db-wal") is None


def test_without_the_chain_a_flipped_bit_changes_a_command_in_silence(tmp_path):
    left = leave(tmp_path / "left", KILLED["some of it moved on"])
    folder = tmp_path / "log"
    seeds = range(60)
    with mock.patch.object(sqlite, "read_frames", trusting):
        assert silent(left, folder, seeds, "log.db") is not None
    assert silent(left, folder, seeds, "log.db") is None


# ----- after a commit that failed ------------------------------------------------------------


@pytest.fixture
def disk():
    return Disk(random.Random(1))


@pytest.fixture
def log(disk, tmp_path):
    vfs = SimVfs(disk)
    log = SqliteLog(tmp_path, vfs=vfs.name, files=SimFiles(disk))
    log.append([b"\x80", b"\x81"], 0)
    yield log
    log.close()


FAULTS = pytest.mark.parametrize("fault", [SYNC, FULL])
COMMANDS = [b"\x82" * 5_000]
"""Enough for another page, so that the write-ahead log grows."""


@FAULTS
def test_after_a_failed_commit_every_later_one_is_refused(disk, log, fault):
    disk.plan(fault, 0)
    with pytest.raises(LogFailedError, match="commands 3 to 3: "):
        log.append(COMMANDS, 2)
    assert disk.struck == fault
    disk.plan(None, 0)  # the disk is well again, and it is too late
    before = disk.operations
    for _ in range(3):
        with pytest.raises(LogFailedError):
            log.append(COMMANDS, 2)
        with pytest.raises(LogFailedError):
            log.drop(0)
        assert log.tail.seq == 2
    log.tidy()
    assert disk.operations == before


@FAULTS
def test_a_checkpoint_that_failed_ends_it_too(disk, log, fault, monkeypatch):
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 0)
    log.append(COMMANDS, 2)
    disk.plan(fault, 0)
    with pytest.raises(LogFailedError):
        log.tidy()
    disk.plan(None, 0)
    with pytest.raises(LogFailedError):
        log.append(COMMANDS, 3)


def test_a_tip_that_cannot_be_written_ends_it_too(disk, log, monkeypatch):
    def refuse(_name, _data):
        raise OSError("no")

    monkeypatch.setattr(log._files, "overwrite", refuse)
    with pytest.raises(LogFailedError):
        log.append(COMMANDS, 2)
    monkeypatch.undo()
    with pytest.raises(LogFailedError):
        log.append(COMMANDS, 2)
