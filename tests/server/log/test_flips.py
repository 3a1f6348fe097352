"""Any damage to what a killed process left is refused, or does no harm; never is it passed over."""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import pytest

from clob_server.log import LogDamagedError, SqliteLog
from tests.server.log.damage import KILLED, any_bit, copied, flip, leave, taken

FLIPS, FLIPS_LONG = 300, 3_000


@pytest.fixture(scope="module", params=KILLED)
def left(request, tmp_path_factory):
    """A folder that a process left when it was killed."""
    return leave(tmp_path_factory.mktemp("killed") / "log", KILLED[request.param])


def flipped(left, folder, seeds):
    """Flip one bit each; count how it was taken."""
    counts = Counter()
    for seed in seeds:
        path, bit = any_bit(random.Random(seed), copied(left, folder))
        flip(path, bit)
        where = f"seed {seed}: bit {bit % 8} of byte {bit // 8} of {path.name}"
        try:
            counts[taken(left, folder)] += 1
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error
    return counts


def test_what_is_not_damaged_is_taken(left, tmp_path):
    assert taken(left, copied(left, tmp_path / "log")) == "harmless"


def test_a_flipped_bit_is_refused_or_does_no_harm(left, tmp_path):
    counts = flipped(left, tmp_path / "log", range(FLIPS // len(KILLED)))
    assert counts["refused"] > 10
    assert counts["harmless"] > 0


@pytest.mark.long
def test_very_many_flipped_bits_are_refused_or_do_no_harm(left, tmp_path):
    flipped(left, tmp_path / "log", range(10_000, 10_000 + FLIPS_LONG // len(KILLED)))


@pytest.mark.long
@pytest.mark.parametrize("name", ["tip", "log.db"])
def test_every_bit_of_the_tip_and_of_the_head_of_the_database_is_safe(left, tmp_path, name):
    for bit in range(48 * 8 if name == "tip" else 100 * 8):
        folder = copied(left, tmp_path / "log")
        flip(folder / name, bit)
        try:
            found = taken(left, folder)
        except Exception as error:
            raise AssertionError(f"bit {bit} of {name}: {error!r}") from error
        assert name != "tip" or found == "refused"


def test_a_flipped_bit_in_the_newest_snapshot_is_always_refused(left, tmp_path):
    if left.snapshot is None:
        pytest.skip("not here: this writer puts no snapshot")
    rng = random.Random(1)
    for _ in range(20):
        folder = copied(left, tmp_path / "log")
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
def test_damage_to_a_file_is_refused_or_does_no_harm(left, tmp_path, name, damage):
    counts = Counter()
    for seed in range(6):
        folder = copied(left, tmp_path / "log")
        damage(folder / name, random.Random(seed))
        counts[taken(left, folder)] += 1
    if name == "tip" or (name == "log.db-wal" and damage is deleted and not left.snapshot):
        assert counts.keys() == {"refused"}


@pytest.mark.parametrize("damage", [cut, emptied, zeroed])
def test_damage_to_the_newest_snapshot_is_refused(left, tmp_path, damage):
    if left.snapshot is None:
        pytest.skip("not here: this writer puts no snapshot")
    folder = copied(left, tmp_path / "log")
    damage(max(folder.glob("snapshot-*")), random.Random(1))
    assert taken(left, folder) == "refused"


def test_without_the_snapshots_what_they_covered_is_missed_aloud(left, tmp_path):
    if not left.floor:
        pytest.skip("not here: this writer drops nothing")
    folder = copied(left, tmp_path / "log")
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


def test_a_refusal_leaves_the_damaged_folder_as_it_was(left, tmp_path):
    """Whoever mends the bit has everything again; a refusal is no reason to lose the rest."""
    folder = copied(left, tmp_path / "log")
    wal = folder / "log.db-wal"
    if not wal.exists() or wal.stat().st_size < 9_000:
        pytest.skip("not here: nothing is left in the write-ahead log")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused = 0
    for bit in range(500 * 8, wal.stat().st_size * 8, 9_973 * 8):
        flip(wal, bit)
        if taken(left, folder) == "refused":
            refused += 1
            flip(wal, bit)
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        folder = copied(left, folder)
    assert refused
    assert taken(left, folder) == "harmless"


def test_whoever_accepts_the_tail_has_a_beginning_of_what_was_written(tmp_path):
    left = leave(tmp_path / "left", KILLED["all of it in the write-ahead log"])
    written = [frame[:2] for frame in left.frames]
    lengths = set()
    for seed in range(10):
        folder = copied(left, tmp_path / "log")
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
