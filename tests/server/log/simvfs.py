"""Adapters of the simulated disk: a VFS for SQLite, and a folder for tip and snapshots."""

import errno
from contextlib import contextmanager

import apsw

from tests.server.log.simdisk import Inode, error_of


class SimVfs(apsw.VFS):
    """SQLite VFS over the disk, for one life; folders of paths are ignored."""

    def __init__(self, disk):
        self.name = f"simulated disk {id(disk)}, life {disk.life}"
        self.disk, self.life = disk, disk.life
        super().__init__(self.name, maxpathname=1024)

    def excepthook(self, kind, error, trace):
        """Suppress disk errors that SQLite cannot report."""
        struck = self.disk.struck or self.disk.life != self.life
        if struck and isinstance(error, apsw.IOError | apsw.FullError):
            return True
        return super().excepthook(kind, error, trace)

    def xFullPathname(self, name):  # noqa: N802 - SQLite's names, here and below
        return name

    def xAccess(self, path, _flags):  # noqa: N802
        self.disk.alive(self.life)
        return _last(path) in self.disk.names

    def xOpen(self, path, flags):  # noqa: N802
        self.disk.alive(self.life)
        path = path.filename() if isinstance(path, apsw.URIFilename) else path
        name, makes = _last(path), flags[0] & apsw.SQLITE_OPEN_CREATE
        if name not in self.disk.names:
            if not makes:
                raise error_of(apsw.SQLITE_CANTOPEN, "no such file")
            self.disk.name(name, Inode(self.disk.weather))
        journal = flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        flags[1] = flags[0]
        return SimFile(self, self.disk.names[name], bool(makes and journal))

    def xDelete(self, path, sync_names):  # noqa: N802
        self.disk.alive(self.life)
        if _last(path) not in self.disk.names:
            raise error_of(apsw.SQLITE_IOERR_DELETE_NOENT, "no such file")
        self.disk.name(_last(path), None)
        if sync_names:
            self.disk.sync_names()

    def xRandomness(self, count):  # noqa: N802
        return self.disk.rng.randbytes(count)

    def xSleep(self, microseconds):  # noqa: N802
        return microseconds

    def xCurrentTime(self):  # noqa: N802
        return 2_461_000.5

    def xCurrentTimeInt64(self):  # noqa: N802
        return int(2_461_000.5 * 86_400_000)

    def xGetLastError(self):  # noqa: N802
        return 0, ""


def _last(path):
    """Return the file name of a path."""
    return path.rpartition("/")[2]


class SimFile:
    """An open file of the VFS."""

    def __init__(self, vfs, inode, sync_names):
        self._disk, self._life, self._inode = vfs.disk, vfs.life, inode
        self._vfs = vfs
        self._sync_names = sync_names

    def excepthook(self, kind, error, trace):
        return self._vfs.excepthook(kind, error, trace)

    def xRead(self, count, offset):  # noqa: N802
        self._disk.alive(self._life)
        return bytes(self._inode.data[offset : offset + count])

    def xWrite(self, data, offset):  # noqa: N802
        self._disk.alive(self._life)
        self._disk.write(self._inode, offset, bytes(data))

    def xTruncate(self, size):  # noqa: N802
        self._disk.alive(self._life)
        self._disk.truncate(self._inode, size)

    def xSync(self, _flags):  # noqa: N802
        self._disk.alive(self._life)
        self._disk.sync(self._inode, self._sync_names)
        self._sync_names = False

    def xFileSize(self):  # noqa: N802
        self._disk.alive(self._life)
        return len(self._inode.data)

    def xSectorSize(self):  # noqa: N802
        return self._disk.weather.sector

    def xDeviceCharacteristics(self):  # noqa: N802
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE if self._disk.weather.powersafe else 0

    def xFileControl(self, _operation, _pointer):  # noqa: N802
        return False

    def xCheckReservedLock(self):  # noqa: N802
        return False

    def xLock(self, _level):  # noqa: N802
        pass

    def xUnlock(self, _level):  # noqa: N802
        pass

    def xClose(self):  # noqa: N802
        pass


class SimFiles:
    """A folder over the disk, for one life, with the same steps as ``Folder``."""

    def __init__(self, disk):
        self._disk, self._life = disk, disk.life

    def read(self, name, bytes_max=-1):
        with self._errors_of_the_system():
            inode = self._disk.names.get(name)
            if inode is None:
                return None
            return bytes(inode.data if bytes_max < 0 else inode.data[:bytes_max])

    def view(self, name):
        data = self.read(name)
        return None if data is None else memoryview(data)

    def replace(self, name, *parts):
        with self._errors_of_the_system():
            disk, aside = self._disk, Inode(self._disk.weather)
            disk.name(f"{name}.new", aside)
            done = 0
            for part in parts:
                disk.write(aside, done, part)
                done += len(part)
            disk.sync(aside)
            disk.rename(f"{name}.new", name)
            disk.sync_names()

    def overwrite(self, name, data):
        with self._errors_of_the_system():
            if name not in self._disk.names:
                raise FileNotFoundError(name)
            inode = self._disk.names[name]
            inode.in_one_page = True
            inode.whole_sectors = not self._disk.weather.torn_tip
            self._disk.write(inode, 0, data)

    def remove(self, name):
        with self._errors_of_the_system():
            if name in self._disk.names:
                self._disk.name(name, None)
            self._disk.sync_names()

    def names(self):
        with self._errors_of_the_system():
            return sorted(self._disk.names)

    def close(self):
        pass

    @contextmanager
    def _errors_of_the_system(self):
        """Raise if the process is dead; convert errors to OSError."""
        try:
            self._disk.alive(self._life)
            yield
        except (apsw.IOError, apsw.FullError) as error:
            raise OSError(errno.EIO, str(error)) from None
