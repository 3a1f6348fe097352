"""What a killed process left, damaged in some place, and how a log takes it."""

import itertools
import shutil
from typing import NamedTuple

from clob_server.log import LogDamagedError, LogNewerError, Snapshot, SqliteLog, Tail
from tests.server.log.writer import Habits, history, left_by, snapshot_of

KILLED = {
    "all of it in the write-ahead log": Habits(frames=25),
    "some of it moved on": Habits(frames=60, checkpoint_pages=20),
    "some of it dropped": Habits(frames=45, checkpoint_pages=20, snapshot_each=8, drop_each=20),
    "all of it dropped": Habits(frames=40, checkpoint_pages=20, snapshot_each=10, drop_each=20),
}
"""Writers, by what their folders look like when they have killed themselves."""
PLACES = ("log.db", "tip", "snapshot-", "frame", "command", "SQLite")


class SilentError(AssertionError):
    """A log did not refuse what is not what was written."""


class Left(NamedTuple):
    """A folder that a killed process left, and what was acknowledged in it."""

    folder: object
    frames: list
    """What has to be read: the first number, the commands and the tail of each frame."""
    floor: int
    tail: Tail
    snapshot: Snapshot | None


def leave(folder, habits):
    """Let a writer work and kill itself; give what it left."""
    last = left_by(folder, habits)
    frames = list(itertools.islice(history(), habits.frames))
    tail = frames[-1][2]
    assert tail.seq == last
    floor = covered = 0
    snapshot = None
    for count, (_, _, end) in enumerate(frames, 1):
        if habits.snapshot_each and count % habits.snapshot_each == 0:
            snapshot, covered = snapshot_of(end), end.seq
        if habits.drop_each and count % habits.drop_each == 0:
            floor = covered
    rest = [frame for frame in frames if frame[0] > floor]
    return Left(folder, rest, floor, tail, snapshot)


def copied(left, folder):
    """Copy a folder, without what an earlier copy left there."""
    shutil.rmtree(folder, ignore_errors=True)
    return shutil.copytree(left.folder, folder)


def flip(path, bit):
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def any_bit(rng, folder):
    """Draw a file and a bit of it; the heads of pages, where SQLite looks first, more often."""
    paths = sorted(folder.iterdir())
    weights = [{"log.db": 4, "log.db-wal": 4}.get(path.name, 1) for path in paths]
    (path,) = rng.choices(paths, weights)
    size = path.stat().st_size
    byte = rng.randrange(size)
    if rng.random() < 0.3:
        byte = min(byte // 4096 * 4096 + rng.randrange(120), size - 1)
    return path, byte * 8 + rng.randrange(8)


def taken(left, folder, make=SqliteLog):
    """Open a damaged folder, and say how it is taken.

    Returns:
        ``refused``; or ``harmless`` where all is there, and stays there when it is appended to.

    Raises:
        SilentError: something is missing, or other than it was.
    """
    try:
        log = make(folder)
    except LogDamagedError as error:
        return _named(error)
    except LogNewerError:
        return "refused"  # the number of the version is what is damaged
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
    assert any(place in str(error) for place in PLACES), f"it names no place: {error}"
    return "refused"


def _compare(left, log, more):
    """Find all that was acknowledged, from the beginning and from the middle."""
    expected = [*left.frames, *more]
    tail = expected[-1][2] if expected else left.tail
    if log.tail != tail:
        raise SilentError(f"it ends with {log.tail}, not with {tail}")
    starts = [frame[0] for frame in expected] or [left.floor + 1]
    for start in (starts[0], starts[len(starts) // 2], starts[-1]):
        found = [(frame.first_seq, frame.raw) for frame in log.read(start - 1)]
        if found != [frame[:2] for frame in expected if frame[0] >= start]:
            raise SilentError(f"from command {start} on there are other frames than were appended")
    if log.get_snapshot() != left.snapshot:
        raise SilentError("its snapshot is another one")
