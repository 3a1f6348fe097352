"""A simulated disk with a page cache and faults; ``simvfs`` connects it to a log.

Writes go to the page cache, which remembers every version of a sector since the last sync. At a
power loss each sector becomes one of them, or torn, and each unsynced file name is there or not. A
process death keeps the page cache, without making it durable.

The model is as strict as the assumptions of SQLite and the tip, and no stricter:

- The first sync of a journal or write-ahead log makes the whole folder durable. SQLite does so on
  Unix for each that it opens to make it, were it there already or not.
- With powersafe overwrite a torn sector holds rubbish only in the bytes that were being written.
  Without it, and with sectors of 4 KiB, all of the sector may be rubbish.
- A write through ``SimFiles.overwrite`` is within one page, so a dying process has done all of it
  or nothing, and within one sector, which is old or new unless ``Weather.torn_tip`` is set.
- A failed sync leaves a mixture on the platter, and marks the pages clean: the next sync succeeds.

Random choices do not depend on the bytes, since SQLite's salts differ each time: a seed always
gives the same run.
"""

from dataclasses import dataclass

import apsw

POWER, PROCESS, SYNC, FULL = "power loss", "process death", "failed sync", "disk full"


@dataclass(frozen=True)
class Weather:
    """Properties of the disk."""

    sector: int = 512
    powersafe: bool = True
    lying: bool = False
    """Whether a sync succeeds without effect."""
    torn_tip: bool = False
    """Whether a sector that is overwritten through the files may be torn."""


class Inode:
    """A file: its content in the page cache and on the platter."""

    def __init__(self, weather):
        self.weather = weather
        self.data = bytearray()
        self.platter = bytearray()
        self.versions = {}
        self.sizes = []
        self.in_one_page = False
        """Whether each write is one call within one page, which the system does not split."""
        self.whole_sectors = False
        self.lost = False
        """Whether a sync failed, so that clean pages may not be on the platter."""

    def write(self, offset, data):
        """Write bytes to the page cache."""
        end = offset + len(data)
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
            self.sizes.append(end)
        self.data[offset:end] = data
        sector = self.weather.sector
        for number in range(offset // sector, -(-end // sector)):
            content = bytes(self.data[number * sector : (number + 1) * sector])
            self.versions.setdefault(number, []).append(content)

    def truncate(self, size):
        """Truncate the file in the page cache."""
        del self.data[size:]
        self.sizes.append(len(self.data))

    def sync(self):
        """Copy the page cache to the platter."""
        size, sector = len(self.data), self.weather.sector
        _resize(self.platter, size)
        for at in (number * sector for number in self.versions):
            if at < size:
                self.platter[at : at + sector] = self.data[at : at + sector]
        self._all_clean()

    def write_back(self, rng):
        """Copy random versions of the unsynced sectors to the platter."""
        before, sector = bytes(self.platter), self.weather.sector
        size = rng.choice([len(before), *self.sizes])
        kept, torn = rng.choice((0, 0.2, 0.5, 0.8, 1)), rng.choice((0, 0, 0.3))
        for number, versions in self.versions.items():
            at = number * sector
            old = before[at : at + sector].ljust(sector, b"\0")
            new = rng.choice(versions).ljust(sector, b"\0")
            if rng.random() < torn and not self.whole_sectors:
                found = self._torn(old, new, rng)
            else:
                found = new if rng.random() < kept else old
            _resize(self.platter, max(len(self.platter), at + sector))
            self.platter[at : at + sector] = found
        _resize(self.platter, size)
        self._all_clean()

    def _torn(self, old, new, rng):
        """Return a random torn sector."""
        sector = self.weather.sector
        cut, rubbish, mixed = rng.randrange(sector), rng.randbytes(sector), rng.random() < 0.5
        if not self.weather.powersafe:
            return rubbish
        if mixed:
            return new[:cut] + old[cut:]
        return bytes(
            o if o == n else r for o, n, r in zip(old, new, rubbish, strict=True)
        )  # unwritten bytes stay

    def fail(self, rng):
        """Fail a sync: random sectors reach the platter, and none stays dirty."""
        self.write_back(rng)
        self.lost = True

    def evict(self):
        """Reload the page cache from the platter after a failed sync."""
        size = len(self.data)
        self.data[:] = self.platter
        _resize(self.data, size)
        self.lost = False

    def _all_clean(self):
        self.versions.clear()
        self.sizes.clear()


def error_of(code, words):
    """Return the apsw exception for an SQLite code, with a message."""
    error = apsw.exception_for(code)
    error.args = (words,)
    return error


def _resize(data, size):
    """Truncate, or pad with zeros."""
    del data[size:]
    data.extend(bytes(size - len(data)))


class Disk:
    """A folder on a disk, through several lives of a process.

    Args:
        rng: source of random choices.
        weather: properties of the disk.
    """

    def __init__(self, rng, weather=None):
        self.rng = rng
        self.weather = weather or Weather()
        self.names = {}
        self.platter_names = {}
        self.life = 0
        self.struck = None
        """The fault of this life."""
        self.operations = 0
        self._planned, self._left = None, 0

    @property
    def dead(self):
        """Whether the process or the machine is dead."""
        return self.struck in (POWER, PROCESS)

    def plan(self, fault, operations):
        """Plan a fault after a number of operations, or at the first suitable one after them."""
        self._planned, self._left = fault, operations

    def strike(self, fault):
        """Trigger a fault now, between two operations."""
        if not self.dead:
            self.struck = fault

    def revive(self):
        """Start the next life with the data that the last one left."""
        if self.struck == POWER:
            self._lose_power()
        else:
            for inode in self.names.values():
                if inode.lost and self.rng.random() < 0.5:
                    inode.evict()
        self._planned = self.struck = None
        self.life += 1

    def _lose_power(self):
        """Lose power: only the platter remains."""
        either = dict.fromkeys([*self.platter_names, *self.names])
        for name in either:
            kept = self.names if self.rng.random() < 0.5 else self.platter_names
            either[name] = kept.get(name)
        self.names = {name: inode for name, inode in either.items() if inode is not None}
        self.platter_names = dict(self.names)
        for inode in dict.fromkeys(self.names.values()):
            inode.write_back(self.rng)
            inode.data[:] = inode.platter
            inode.lost = False

    # ----- operations ------------------------------------------------------------------------

    def alive(self, life):
        """Raise if the process is dead, or the file was opened in an earlier life."""
        if self.dead or life != self.life:
            raise error_of(apsw.SQLITE_IOERR, "dead")

    def _step(self):
        """Count an operation; return whether the process dies within it."""
        self.operations += 1
        self._left -= 1
        return self._planned in (POWER, PROCESS) and self._left <= 0

    def _die(self):
        self.struck = self._planned
        raise error_of(apsw.SQLITE_IOERR, "dead")

    def write(self, inode, offset, data):
        """Write; or write a part and die; or fail because the disk is full."""
        if self._step():
            done = self.rng.randrange(len(data) + 1)
            if inode.in_one_page:
                done = self.rng.choice((0, len(data)))
            inode.write(offset, data[:done])
            self._die()
        grows = offset + len(data) > len(inode.data)
        if grows and self._planned == FULL and self._left <= 0:
            self.struck = FULL
            inode.write(offset, data[: self.rng.randrange(len(data))])
            raise error_of(apsw.SQLITE_FULL, "the disk is full")
        inode.write(offset, data)

    def truncate(self, inode, size):
        """Truncate a file; or die before or after."""
        dies = self._step()
        if not dies or self.rng.random() < 0.5:
            inode.truncate(size)
        if dies:
            self._die()

    def sync(self, inode, names=False):
        """Sync a file, and optionally all names; or die before or after; or fail."""
        dies = self._step()
        if dies and self.rng.random() < 0.5:
            self._die()
        if self._planned == SYNC and self._left <= 0:
            self.struck, self._planned = SYNC, None
            inode.fail(self.rng)
            raise error_of(apsw.SQLITE_IOERR_FSYNC, "the sync failed")
        if not self.weather.lying:
            inode.sync()
            if names:
                self.platter_names = dict(self.names)
        if dies:
            self._die()

    def sync_names(self):
        """Sync the names; or die before or after."""
        dies = self._step()
        if not self.weather.lying and (not dies or self.rng.random() < 0.5):
            self.platter_names = dict(self.names)
        if dies:
            self._die()

    def name(self, name, inode):
        """Set a name, or remove it with None; or die before or after."""
        dies = self._step()
        if not dies or self.rng.random() < 0.5:
            if inode is None:
                del self.names[name]
            else:
                self.names[name] = inode
        if dies:
            self._die()

    def rename(self, old, new):
        """Put a file in place of another in one step; or die before or after."""
        dies = self._step()
        if not dies or self.rng.random() < 0.5:
            self.names[new] = self.names.pop(old)
        if dies:
            self._die()
