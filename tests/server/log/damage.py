"""Folders of killed writers, damaged at one place, and the reaction of the log."""

import itertools
import shutil
from typing import NamedTuple

from clob_server.log import LogDamagedError, LogNewerError, LogOlderError, Snapshot, SqliteLog, Tail
from tests.server.log.writer import Settings, all_frames, left_by, snapshot_of

KILLED = {
    "all in the write-ahead log": Settings(frames=25),
    "some after a checkpoint": Settings(frames=60, checkpoint_pages=20),
    "some dropped": Settings(frames=45, checkpoint_pages=20, snapshot_each=8, drop_each=20),
    "all dropped": Settings(frames=40, checkpoint_pages=20, snapshot_each=10, drop_each=20),
}
"""Writers, by the state of their folders after they killed themselves."""
PLACES = ("log.db", "tip", "snapshot-", "frame", "command", "SQLite")


class SilentError(AssertionError):
    """A log accepted damaged data."""


class Left(NamedTuple):
    """The folder of a killed writer, and the acknowledged data."""

    folder: object
    frames: list
    """Expected frames: first number, commands and tail."""
    floor: int
    tail: Tail
    snapshot: Snapshot | None


def run_writer(folder, settings):
    """Run a writer until it kills itself; return its folder and the expected data."""
    last = left_by(folder, settings)
    frames = list(itertools.islice(all_frames(), settings.frames))
    tail = frames[-1][2]
    assert tail.seq == last
    floor = covered = 0
    snapshot = None
    for count, (_, _, end) in enumerate(frames, 1):
        if settings.snapshot_each and count % settings.snapshot_each == 0:
            snapshot, covered = snapshot_of(end), end.seq
        if settings.drop_each and count % settings.drop_each == 0:
            floor = covered
    rest = [frame for frame in frames if frame[0] > floor]
    return Left(folder, rest, floor, tail, snapshot)


def copy_folder(left, folder):
    """Copy a folder over an earlier copy."""
    shutil.rmtree(folder, ignore_errors=True)
    return shutil.copytree(left.folder, folder)


def flip(path, bit):
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def any_bit(rng, folder):
    """Return a random file and bit; page headers, which SQLite reads first, are more likely."""
    paths = sorted(folder.iterdir())
    weights = [{"log.db": 4, "log.db-wal": 4}.get(path.name, 1) for path in paths]
    (path,) = rng.choices(paths, weights)
    size = path.stat().st_size
    byte = rng.randrange(size)
    if rng.random() < 0.3:
        byte = min(byte // 4096 * 4096 + rng.randrange(120), size - 1)
    return path, byte * 8 + rng.randrange(8)


def reaction(left, folder, make=SqliteLog):
    """Open a damaged folder, and return the reaction.

    Returns:
        ``rejected``, or ``harmless`` if all data is there, also after an append.

    Raises:
        SilentError: data is missing or changed.
    """
    try:
        log = make(folder)
    except LogDamagedError as error:
        return _named(error)
    except (LogNewerError, LogOlderError):
        return "rejected"  # the version number is damaged
    try:
        _compare(left, log, [])
        more = (log.tail.seq + 1, (b"\x80",), None)
        log.append([b"\x80"], log.tail.seq)
        more = (*more[:2], log.tail)
    except LogDamagedError as error:
        return _named(error)
    finally:
        log.close()
    again = make(folder)
    try:
        _compare(left, again, [more])
    finally:
        again.close()
    return "harmless"


def _named(error):
    assert any(place in str(error) for place in PLACES), f"the error names no location: {error}"
    return "rejected"


def _compare(left, log, more):
    """Check that all acknowledged data is there, reading from several commands on."""
    expected = [*left.frames, *more]
    tail = expected[-1][2] if expected else left.tail
    if log.tail != tail:
        raise SilentError(f"it ends with {log.tail}, not {tail}")
    starts = [frame[0] for frame in expected] or [left.floor + 1]
    for start in (starts[0], starts[len(starts) // 2], starts[-1]):
        found = [(frame.first_seq, frame.raw) for frame in log.read(start - 1)]
        if found != [frame[:2] for frame in expected if frame[0] >= start]:
            raise SilentError(f"wrong frames from command {start} on")
    if log.get_snapshot() != left.snapshot:
        raise SilentError("wrong snapshot")
