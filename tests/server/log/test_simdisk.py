"""The simulated disk keeps synced data, and loses the rest."""

import random  # noqa: TID251 - seeded, and outside the engine

import apsw
import pytest

from clob_server.log import Folder
from tests.server.log.simdisk import FULL, POWER, PROCESS, SYNC, Disk, Inode, Weather
from tests.server.log.simvfs import SimFiles, SimVfs

SEEDS = range(200)
OLD, NEW = b"o" * 1024, b"n" * 1024


def disk_with(seed, data=OLD, **weather):
    """Return a disk with one durable file, and the file."""
    disk = Disk(random.Random(seed), Weather(**weather))
    inode = Inode(disk.weather)
    disk.name("file", inode)
    disk.write(inode, 0, data)
    disk.sync(inode, names=True)
    return disk, inode


def after(disk, fault):
    """Trigger a fault; return the content of the file, or None if it is gone."""
    disk.strike(fault)
    disk.revive()
    found = disk.names.get("file")
    return None if found is None else bytes(found.data)


def outcomes(fault, prepare, **weather):
    """Return all possible contents of a file after a fault."""
    found = set()
    for seed in SEEDS:
        disk, inode = disk_with(seed, **weather)
        prepare(disk, inode)
        found.add(after(disk, fault))
    return found


def test_synced_data_survives_a_power_loss():
    def prepare(disk, inode):
        disk.write(inode, 0, NEW)
        disk.sync(inode)

    assert outcomes(POWER, prepare) == {NEW}


def test_unsynced_sector_is_old_new_or_torn():
    found = outcomes(POWER, lambda disk, inode: disk.write(inode, 0, NEW))
    halves = {OLD[:512] + NEW[512:], NEW[:512] + OLD[512:], OLD, NEW}
    assert halves < found
    mixed = {data[:512] for data in found} - {OLD[:512], NEW[:512]}
    assert any(set(sector) == set(b"on") for sector in mixed)
    assert any(set(sector) - set(b"on") for sector in mixed)


def test_process_death_keeps_written_data():
    found = outcomes(PROCESS, lambda disk, inode: disk.write(inode, 0, NEW))
    assert found == {NEW}


def test_data_of_a_dead_process_may_be_lost_in_a_power_loss():
    def prepare(disk, inode):
        disk.write(inode, 0, NEW)
        after(disk, PROCESS)

    assert {OLD, NEW} < outcomes(POWER, prepare)


def test_unwritten_bytes_of_a_torn_sector_stay():
    found = outcomes(POWER, lambda disk, inode: disk.write(inode, 100, b"n" * 50))
    assert {data[:100] + data[150:] for data in found} == {OLD[50:]}


def test_whole_sector_may_be_rubbish_without_powersafe_overwrite():
    def prepare(disk, inode):
        disk.write(inode, 100, b"n" * 50)

    found = outcomes(POWER, prepare, sector=4096, powersafe=False)
    assert any(data[:100] != OLD[:100] for data in found)


def test_sector_of_the_small_files_is_never_torn():
    def overwrite(disk, _inode):
        SimFiles(disk).overwrite("file", b"n" * 50)
        SimFiles(disk).overwrite("file", b"m" * 50)

    found = outcomes(POWER, overwrite)
    assert found == {OLD, b"n" * 50 + OLD[50:], b"m" * 50 + OLD[50:]}
    assert len(outcomes(POWER, overwrite, torn_tip=True)) > 3


def test_unsynced_size_is_old_or_new():
    grown = outcomes(POWER, lambda disk, inode: disk.write(inode, 1024, NEW))
    assert {len(data) for data in grown} == {1024, 2048}
    cut = outcomes(POWER, lambda disk, inode: disk.truncate(inode, 0))
    assert cut == {OLD, b""}


def test_unsynced_name_is_there_or_not():
    made = outcomes(POWER, lambda disk, _: disk.name("other", Inode(disk.weather)))
    assert made == {OLD}
    assert outcomes(POWER, lambda disk, _: disk.name("file", None)) == {OLD, None}

    def removed(disk, _inode):
        disk.name("file", None)
        disk.sync_names()

    assert outcomes(POWER, removed) == {None}


def test_replace_is_atomic():
    def prepare(disk, _inode):
        disk.plan(POWER, disk.rng.randrange(1, 6))
        with pytest.raises(OSError, match="dead"):
            SimFiles(disk).replace("file", NEW)

    assert outcomes(POWER, prepare) == {OLD, NEW}


def test_data_of_a_failed_sync_is_lost_although_the_next_sync_succeeds():
    def prepare(disk, inode):
        disk.write(inode, 0, NEW)
        disk.plan(SYNC, 0)
        with pytest.raises(apsw.IOError):
            disk.sync(inode)
        disk.sync(inode)
        assert bytes(inode.data) == NEW

    assert {OLD, NEW} < outcomes(POWER, prepare)


def test_data_of_a_lying_sync_is_lost():
    def prepare(disk, inode):
        disk.weather = Weather(lying=True)
        disk.write(inode, 0, NEW)
        disk.sync(inode)

    assert {OLD, NEW} < outcomes(POWER, prepare)


def test_full_disk_accepts_overwrites_only():
    disk, inode = disk_with(1)
    disk.plan(FULL, 0)
    disk.write(inode, 0, NEW)
    with pytest.raises(apsw.FullError):
        disk.write(inode, 1024, b"more")
    assert bytes(inode.data[:1024]) == NEW


def test_process_may_die_within_a_write():
    def prepare(disk, inode):
        disk.plan(PROCESS, 1)
        with pytest.raises(apsw.IOError):
            disk.write(inode, 0, NEW)

    lengths = {data.count(b"n") for data in outcomes(PROCESS, prepare)}
    assert len(lengths) > 100


def test_dead_process_writes_nothing(tmp_path):
    disk = Disk(random.Random(1))
    vfs = SimVfs(disk)
    database = apsw.Connection(str(tmp_path / "log.db"), vfs=vfs.name)
    database.execute("CREATE TABLE t(x)")
    size = len(disk.names["log.db"].data)
    disk.strike(PROCESS)
    disk.revive()
    with pytest.raises(apsw.IOError):
        database.execute("INSERT INTO t VALUES(zeroblob(10000))")
    database.close(True)
    assert len(disk.names["log.db"].data) == size
    with pytest.raises(OSError, match="dead"):
        SimFiles.read(_of_an_earlier_life(disk), "log.db")


def _of_an_earlier_life(disk):
    files = SimFiles(disk)
    files._life -= 1
    return files


@pytest.mark.parametrize("simulated", [False, True], ids=["folder", "simulated"])
def test_simulated_files_behave_like_a_folder(tmp_path, simulated):
    files = SimFiles(Disk(random.Random(1))) if simulated else Folder(tmp_path)
    assert files.read("a") is None
    with pytest.raises(FileNotFoundError):
        files.overwrite("a", b"1")
    files.remove("a")
    files.replace("b", b"22")
    files.replace("a", b"111")
    assert files.names() == ["a", "b"]
    files.overwrite("a", b"333")
    assert files.read("a") == b"333"
    files.replace("a", b"4")
    files.overwrite("a", b"5")
    assert files.read("a") == b"5"
    files.remove("a")
    assert files.read("a") is None
    assert files.names() == ["b"]
    files.close()


def test_same_seed_gives_the_same_disk():
    def run(seed):
        disk, inode = disk_with(seed)
        disk.write(inode, 0, NEW)
        return after(disk, POWER)

    assert [run(seed) for seed in SEEDS] == [run(seed) for seed in SEEDS]
