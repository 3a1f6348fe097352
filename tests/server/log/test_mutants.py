"""Deliberate faults in the log are detected by the simulation and by flipped bits."""

import contextlib
import random  # noqa: TID251 - seeded, and outside the engine
from unittest import mock

import msgspec
import pytest

from clob.journal import encode_frame, frame_hash, read_frames
from clob_server.log import LogFailedError, SqliteLog, Tail, sqlite
from tests.server.log.damage import (
    KILLED,
    SilentError,
    any_bit,
    copy_folder,
    flip,
    reaction,
    run_writer,
)
from tests.server.log.simdisk import FULL, POWER, PROCESS, SYNC, Disk
from tests.server.log.simulation import BIG_SECTORS, LYING, TROUBLE, first_failure
from tests.server.log.simvfs import SimFiles, SimVfs

SEEDS = range(60)


class NormalSync(SqliteLog):
    """Syncs at checkpoints only."""

    level = "NORMAL"

    def _open(self, accept_tail):
        super()._open(accept_tail)
        self._db.execute(f"PRAGMA synchronous={self.level}").fetchall()


class NoSync(NormalSync):
    """Never syncs."""

    level = "OFF"


class EarlyAcknowledgement(SqliteLog):
    """Acknowledges a batch, and commits it before the next one."""

    _late = None

    @property
    def tail(self):
        if self._late is None:
            return self.tail
        commands, after, hashes = self._late
        frame = encode_frame(commands, after + 1, self.tail.chain_hash, **hashes)
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


class NoCheckpointAtOpen(SqliteLog):
    """Returns the frames found at open, durable or not."""

    def _checkpoint(self, mode):
        if mode != "TRUNCATE":
            super()._checkpoint(mode)


class NoTip(SqliteLog):
    """Ignores the tip."""

    def _check_tip(self, tip, found):
        pass


@pytest.mark.parametrize(
    ("make", "weather"),
    [(NormalSync, {}), (NoSync, {}), (SqliteLog, {"weather": LYING}), (EarlyAcknowledgement, {})],
    ids=["synchronous=NORMAL", "synchronous=OFF", "a sync that lies", "too early"],
)
def test_acknowledgement_before_durability_is_detected(tmp_path, make, weather):
    assert first_failure(SEEDS, tmp_path, make=make, **weather)


def test_same_seeds_pass_with_the_real_log(tmp_path):
    assert first_failure(SEEDS, tmp_path) is None


def test_read_before_durability_is_detected(tmp_path):
    assert first_failure(range(800), tmp_path, make=NoCheckpointAtOpen, weather=BIG_SECTORS)


def frames_before_and_after_power_loss(seed, folder, make):
    """Kill a process while it appends, read the log in the next one, then lose power."""
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


def test_frames_read_after_a_kill_survive_a_power_loss(tmp_path):
    """The interrupted frame may be there or not, but it must not disappear after a read."""
    lives = [frames_before_and_after_power_loss(seed, tmp_path, SqliteLog) for seed in SEEDS]
    assert {tuple(life) for life in lives} == {(1, 1), (2, 2)}
    lives = [
        frames_before_and_after_power_loss(seed, tmp_path, NoCheckpointAtOpen) for seed in SEEDS
    ]
    assert [2] in lives or [2, 1] in lives


# ----- detected by flipped bits --------------------------------------------------------------


def without_chain_check(pieces, previous, first_seq):
    """Read frames without checking the chain hash."""
    for piece in pieces:
        body = piece[:-32]
        mended = body + sqlite.files.hash_of(previous + body)
        for frame in read_frames(mended, previous, first_seq):
            yield msgspec.structs.replace(frame, chain_hash=piece[-32:])
            first_seq += frame.count
        previous = piece[-32:]


def first_undetected(left, folder, seeds, name, make=SqliteLog):
    """Return the first seed whose flipped bit in a file is not detected; None if all are."""
    for seed in seeds:
        path, bit = any_bit(random.Random(seed), copy_folder(left, folder))
        if path.name != name:
            continue
        flip(path, bit)
        try:
            reaction(left, folder, make)
        except SilentError:
            return seed
    return None


def test_without_the_tip_a_flipped_bit_drops_frames_undetected(tmp_path):
    left = run_writer(tmp_path / "left", KILLED["all in the write-ahead log"])
    folder = tmp_path / "log"
    seeds = range(20)
    assert first_undetected(left, folder, seeds, "log.db-wal", NoTip) is not None
    assert first_undetected(left, folder, seeds, "log.db-wal") is None


def test_without_the_chain_a_flipped_bit_changes_a_command_undetected(tmp_path):
    left = run_writer(tmp_path / "left", KILLED["some after a checkpoint"])
    folder = tmp_path / "log"
    seeds = range(60)
    with mock.patch.object(sqlite, "read_frames", without_chain_check):
        assert first_undetected(left, folder, seeds, "log.db") is not None
    assert first_undetected(left, folder, seeds, "log.db") is None


# ----- after a failed commit -----------------------------------------------------------------


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
"""Larger than a page, so that the write-ahead log grows."""


@FAULTS
def test_appends_after_a_failed_commit_are_rejected(disk, log, fault):
    disk.plan(fault, 0)
    with pytest.raises(LogFailedError, match="commands 3 to 3: "):
        log.append(COMMANDS, 2)
    assert disk.struck == fault
    disk.plan(None, 0)  # the disk works again
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
def test_appends_after_a_failed_checkpoint_are_rejected(disk, log, fault, monkeypatch):
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 0)
    log.append(COMMANDS, 2)
    disk.plan(fault, 0)
    with pytest.raises(LogFailedError):
        log.tidy()
    disk.plan(None, 0)
    with pytest.raises(LogFailedError):
        log.append(COMMANDS, 3)


def test_appends_after_a_failed_tip_write_are_rejected(disk, log, monkeypatch):
    def fail(_name, _data):
        raise OSError("no")

    monkeypatch.setattr(log._files, "overwrite", fail)
    with pytest.raises(LogFailedError):
        log.append(COMMANDS, 2)
    monkeypatch.undo()
    with pytest.raises(LogFailedError):
        log.append(COMMANDS, 2)
