"""Any damage to the folder of a killed process is rejected or harmless, never overlooked."""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import pytest

from clob_server.log import LogDamagedError, SqliteLog
from tests.server.log.damage import KILLED, any_bit, copy_folder, flip, reaction, run_writer

FLIPS, FLIPS_LONG = 300, 3_000


@pytest.fixture(scope="module", params=KILLED)
def left(request, tmp_path_factory):
    """The folder of a killed writer."""
    return run_writer(tmp_path_factory.mktemp("killed") / "log", KILLED[request.param])


def flipped(left, folder, seeds):
    """Flip one bit per seed; return the counts of reactions."""
    counts = Counter()
    for seed in seeds:
        path, bit = any_bit(random.Random(seed), copy_folder(left, folder))
        flip(path, bit)
        where = f"seed {seed}: bit {bit % 8} of byte {bit // 8} of {path.name}"
        try:
            counts[reaction(left, folder)] += 1
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error
    return counts


def test_undamaged_folder_is_accepted(left, tmp_path):
    assert reaction(left, copy_folder(left, tmp_path / "log")) == "harmless"


def test_flipped_bit_is_rejected_or_harmless(left, tmp_path):
    counts = flipped(left, tmp_path / "log", range(FLIPS // len(KILLED)))
    assert counts["rejected"] > 10
    assert counts["harmless"] > 0


@pytest.mark.long
def test_many_flipped_bits_are_rejected_or_harmless(left, tmp_path):
    flipped(left, tmp_path / "log", range(10_000, 10_000 + FLIPS_LONG // len(KILLED)))


@pytest.mark.long
@pytest.mark.parametrize("name", ["tip", "log.db"])
def test_every_bit_of_tip_and_database_header(left, tmp_path, name):
    for bit in range(48 * 8 if name == "tip" else 100 * 8):
        folder = copy_folder(left, tmp_path / "log")
        flip(folder / name, bit)
        try:
            found = reaction(left, folder)
        except Exception as error:
            raise AssertionError(f"bit {bit} of {name}: {error!r}") from error
        assert name != "tip" or found == "rejected"


def test_flipped_bit_in_the_newest_snapshot_is_rejected(left, tmp_path):
    if left.snapshot is None:
        pytest.skip("not here: this writer stores no snapshots")
    rng = random.Random(1)
    for _ in range(20):
        folder = copy_folder(left, tmp_path / "log")
        path = max(folder.glob("snapshot-*"))
        flip(path, rng.randrange(path.stat().st_size * 8))
        with pytest.raises(LogDamagedError, match=path.name):
            snapshot_in(folder)


def snapshot_in(folder):
    log = SqliteLog(folder)
    try:
        return log.get_snapshot()
    finally:
        log.close()


# ----- whole files ---------------------------------------------------------------------------


def cut(path, rng):
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def emptied(path, _rng):
    path.write_bytes(b"")


def zeroed(path, rng):
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data)) // 512 * 512
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    path.write_bytes(data)


def deleted(path, _rng):
    path.unlink()


@pytest.mark.parametrize("damage", [cut, emptied, zeroed, deleted])
@pytest.mark.parametrize("name", ["log.db", "log.db-wal", "tip"])
def test_damaged_file_is_rejected_or_harmless(left, tmp_path, name, damage):
    counts = Counter()
    for seed in range(6):
        folder = copy_folder(left, tmp_path / "log")
        damage(folder / name, random.Random(seed))
        counts[reaction(left, folder)] += 1
    if name == "tip" or (name == "log.db-wal" and damage is deleted and not left.snapshot):
        assert counts.keys() == {"rejected"}


@pytest.mark.parametrize("damage", [cut, emptied, zeroed])
def test_damaged_newest_snapshot_is_rejected(left, tmp_path, damage):
    if left.snapshot is None:
        pytest.skip("not here: this writer stores no snapshots")
    folder = copy_folder(left, tmp_path / "log")
    damage(max(folder.glob("snapshot-*")), random.Random(1))
    assert reaction(left, folder) == "rejected"


def test_deleted_snapshots_are_reported(left, tmp_path):
    if not left.floor:
        pytest.skip("not here: this writer drops no frames")
    folder = copy_folder(left, tmp_path / "log")
    for path in folder.glob("snapshot-*"):
        path.unlink()
    with pytest.raises(LogDamagedError, match=str(left.floor)):
        all_in(folder)


def all_in(folder):
    log = SqliteLog(folder)
    try:
        assert log.get_snapshot() is None
        return list(log.read(0))
    finally:
        log.close()


def test_rejection_leaves_the_folder_unchanged(left, tmp_path):
    """After the bit is repaired, all data is there."""
    folder = copy_folder(left, tmp_path / "log")
    wal = folder / "log.db-wal"
    if not wal.exists() or wal.stat().st_size < 9_000:
        pytest.skip("not here: nothing is left in the write-ahead log")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    rejected = 0
    for bit in range(500 * 8, wal.stat().st_size * 8, 9_973 * 8):
        flip(wal, bit)
        if reaction(left, folder) == "rejected":
            rejected += 1
            flip(wal, bit)
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        folder = copy_folder(left, folder)
    assert rejected
    assert reaction(left, folder) == "harmless"


def test_accepted_tail_is_a_prefix_of_the_written_log(tmp_path):
    left = run_writer(tmp_path / "left", KILLED["all in the write-ahead log"])
    written = [frame[:2] for frame in left.frames]
    lengths = set()
    for seed in range(10):
        folder = copy_folder(left, tmp_path / "log")
        size = (folder / "log.db-wal").stat().st_size
        flip(folder / "log.db-wal", random.Random(seed).randrange(size // 2 * 8, size * 8))
        with pytest.raises(LogDamagedError, match="the tip"):
            SqliteLog(folder)
        SqliteLog(folder, accept_tail=True).close()
        log = SqliteLog(folder)
        found = [(frame.first_seq, frame.raw) for frame in log.read()]
        log.close()
        assert found == written[: len(found)]
        lengths.add(len(found))
    assert max(lengths) < len(written)
    assert len(lengths) > 3
