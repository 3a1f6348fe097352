"""A simulated disk: page cache, platter, and every way to die; ``simvfs`` puts it under a log.

What is written goes to the page cache, and every sector of it remembers what it has been since the
last sync. At a power loss each such sector turns out to be any of these, or torn; each name in the
folder is there or not. A process death keeps the page cache, and what was not synced stays so.

The model is as hard as what SQLite and the tip ask of a disk, and no harder:

- The first sync of a journal or write-ahead log makes the whole folder durable. SQLite does so on
  Unix for each that it opens to make it, were it there already or not.
- With powersafe overwrite a torn sector holds rubbish only in the bytes that were being written.
  Without it, and with sectors of 4 KiB, all of the sector may be rubbish.
- What is overwritten through ``SimFiles`` lies in one page, so that a dying process has written it
  or not; and in one sector, which is old or new, but where the weather says that it may tear.
- A sync that fails leaves any mixture on the platter, and the pages marked clean: the next sync
  says that all is well.

Nothing that is drawn depends on the bytes, as the salts of SQLite are never the same: a seed gives
the same run each time.
"""

from dataclasses import dataclass

import apsw

POWER, PROCESS, SYNC, FULL = "power loss", "process death", "failed sync", "disk full"


@dataclass(frozen=True)
class Weather:
    """What the disk is like."""

    sector: int = 512
    powersafe: bool = True
    lying: bool = False
    """Whether a sync does nothing, and says that it did."""
    torn_tip: bool = False
    """Whether a sector that is overwritten through the files may be torn."""


class Inode:
    """A file: what the page cache has of it, and what the platter has."""

    def __init__(self, weather):
        self.weather = weather
        self.data = bytearray()
        self.platter = bytearray()
        self.versions = {}
        self.sizes = []
        self.in_one_page = False
        """Whether it is written in one call within one page, which the system does not part."""
        self.whole_sectors = False
        self.lost = False
        """Whether a sync failed, so that pages marked clean are not on the platter."""

    def write(self, offset, data):
        """Put bytes into the page cache."""
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
        """Cut it in the page cache."""
        del self.data[size:]
        self.sizes.append(len(self.data))

    def sync(self):
        """Bring all of it to the platter."""
        size, sector = len(self.data), self.weather.sector
        _resize(self.platter, size)
        for at in (number * sector for number in self.versions):
            if at < size:
                self.platter[at : at + sector] = self.data[at : at + sector]
        self._all_clean()

    def settle(self, rng):
        """Bring to the platter what chance has brought there."""
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
        """Give what is left of a sector that was being written."""
        sector = self.weather.sector
        cut, rubbish, mixed = rng.randrange(sector), rng.randbytes(sector), rng.random() < 0.5
        if not self.weather.powersafe:
            return rubbish
        if mixed:
            return new[:cut] + old[cut:]
        return bytes(
            o if o == n else r for o, n, r in zip(old, new, rubbish, strict=True)
        )  # what was not being written stays

    def fail(self, rng):
        """Let a sync fail: chance decides what is on the platter, and nothing is dirty."""
        self.settle(rng)
        self.lost = True

    def evict(self):
        """Read again from the platter what a failed sync had left in the page cache."""
        size = len(self.data)
        self.data[:] = self.platter
        _resize(self.data, size)
        self.lost = False

    def _all_clean(self):
        self.versions.clear()
        self.sizes.clear()


def error_of(code, words):
    """Give what apsw raises for a code of SQLite, with words."""
    error = apsw.exception_for(code)
    error.args = (words,)
    return error


def _resize(data, size):
    """Cut bytes, or fill them up with zeros."""
    del data[size:]
    data.extend(bytes(size - len(data)))


class Disk:
    """A folder on a disk, one life of the process after the other.

    Args:
        rng: what chance is drawn from.
        weather: what the disk is like.
    """

    def __init__(self, rng, weather=None):
        self.rng = rng
        self.weather = weather or Weather()
        self.names = {}
        self.platter_names = {}
        self.life = 0
        self.struck = None
        """The fault that has struck in this life."""
        self.operations = 0
        self._planned, self._left = None, 0

    @property
    def dead(self):
        """Whether the process, or the machine, is dead."""
        return self.struck in (POWER, PROCESS)

    def plan(self, fault, operations):
        """Let a fault strike after so many operations, or at the first fit one after them."""
        self._planned, self._left = fault, operations

    def strike(self, fault):
        """Let a fault strike now, between two operations."""
        if not self.dead:
            self.struck = fault

    def revive(self):
        """Begin the next life, with what the last one has left."""
        if self.struck == POWER:
            self._settle()
        else:
            for inode in self.names.values():
                if inode.lost and self.rng.random() < 0.5:
                    inode.evict()
        self._planned = self.struck = None
        self.life += 1

    def _settle(self):
        """Lose power: what is on the platter is all there is."""
        either = dict.fromkeys([*self.platter_names, *self.names])
        for name in either:
            kept = self.names if self.rng.random() < 0.5 else self.platter_names
            either[name] = kept.get(name)
        self.names = {name: inode for name, inode in either.items() if inode is not None}
        self.platter_names = dict(self.names)
        for inode in dict.fromkeys(self.names.values()):
            inode.settle(self.rng)
            inode.data[:] = inode.platter
            inode.lost = False

    # ----- operations ------------------------------------------------------------------------

    def alive(self, life):
        """Refuse whoever is dead; what a dead process left open goes nowhere."""
        if self.dead or life != self.life:
            raise error_of(apsw.SQLITE_IOERR, "dead")

    def _step(self):
        """Count an operation; tell whether death strikes in the middle of it."""
        self.operations += 1
        self._left -= 1
        return self._planned in (POWER, PROCESS) and self._left <= 0

    def _die(self):
        self.struck = self._planned
        raise error_of(apsw.SQLITE_IOERR, "dead")

    def write(self, inode, offset, data):
        """Write, or die having written some of it, or find the disk full."""
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
        """Cut a file, or die before or after."""
        dies = self._step()
        if not dies or self.rng.random() < 0.5:
            inode.truncate(size)
        if dies:
            self._die()

    def sync(self, inode, names=False):
        """Make a file durable, and all names with it; or die before or after; or fail."""
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
        """Make the names durable, or die before or after."""
        dies = self._step()
        if not self.weather.lying and (not dies or self.rng.random() < 0.5):
            self.platter_names = dict(self.names)
        if dies:
            self._die()

    def name(self, name, inode):
        """Give a name to a file, or take it away with None; or die before or after."""
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
