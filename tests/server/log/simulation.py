"""Random simulation of a log on a simulated disk: use, failure, reopen, comparison.

A seed determines the run. The simulation knows the acknowledged frames, and the one frame that may
be there or not: the one that was being written at the failure. A frame that an opened log has
returned counts as acknowledged.
"""

import contextlib
import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter
from typing import NamedTuple
from unittest import mock

import apsw

from clob import Cancel, ClobError, Expire, Order, SetBalance, Side, Submit
from clob.codec import encode
from clob.journal import ZERO_HASH, encode_frame, frame_hash
from clob_server.log import LogDamagedError, LogFailedError, Snapshot, SqliteLog, Tail, sqlite
from tests.server.log.simdisk import FULL, POWER, PROCESS, SYNC, Disk, Weather
from tests.server.log.simvfs import SimFiles, SimVfs

FINE = Weather()
BIG_SECTORS = Weather(sector=4096, powersafe=False)
TORN_TIP = Weather(torn_tip=True)
LYING = Weather(lying=True)

DEATHS = ((POWER, 1), (PROCESS, 1))
"""Faults and their weights; half of the lives end in a power loss."""

CHECKPOINT_PAGES = 12
"""Few, so that even a short life has checkpoints."""

LIVES = 3
ACTIONS = ("append",) * 16 + ("read", "snapshot", "drop")
TROUBLE = (ClobError, apsw.Error, OSError)
"""Errors that a log may raise after a disk fault."""


class BrokenError(AssertionError):
    """The log lost or changed a frame."""


class Batch(NamedTuple):
    """A frame as it was written."""

    first_seq: int
    raw: tuple[bytes, ...]
    event_hash: bytes | None
    chain_hash: bytes

    @property
    def last_seq(self):
        return self.first_seq + len(self.raw) - 1


def submission(number):
    """Return a submission in canonical bytes."""
    order = Order(
        id=f"order {number}",
        token="101",
        maker=f"0x{number:040x}",
        side=Side.BUY if number % 2 else Side.SELL,
        price=1 + number % 99,
        size=10**6 + number,
    )
    return encode(Submit(market="rain", order=order, now_ms=number))


COMMANDS = [
    *map(submission, range(40)),
    *(encode(Cancel(order_id=f"order {number}", now_ms=number)) for number in range(10)),
    *(encode(Expire(now_ms=number)) for number in range(5)),
    encode(SetBalance(wallet="0xA11CE", asset="collateral", amount=10**24, now_ms=1)),
    b"\x80",
    b"\xff of the embedder" * 20,
]
LARGE = b"\x81" + bytes(range(256)) * 50
"""Larger than three pages."""


class Simulation:
    """One log through several lives of its process.

    Args:
        seed: seed of all random choices.
        folder: an existing folder; no files are written to it.
        make: class of the log.
        weather: properties of the disk.
        faults: possible faults with weights.
    """

    def __init__(self, seed, folder, make=SqliteLog, weather=FINE, faults=DEATHS):
        self.seed, self.folder, self.make = seed, folder, make
        self.rng = random.Random(seed)
        self.disk = Disk(random.Random(self.rng.random()), weather)
        self.faults = [fault for fault, _ in faults]
        self.weights = [weight for _, weight in faults]
        self.acknowledged = []
        self.pending = None
        """The batch that is being appended."""
        self.floor = self.floor_pending = 0
        """Last dropped command, and the same if a drop was interrupted."""
        self.snapshots = [None]
        """The newest snapshot, and one that is being stored."""
        self.counts = Counter()
        """Number of things that happened."""
        self.tip_may_be_torn = False
        self.log = None

    # ----- lives -----------------------------------------------------------------------------

    def run(self, lives=LIVES):
        """Run lives with random faults, then compare once more; return the counts."""
        return self.run_through(
            (self.rng.choices(self.faults, self.weights)[0], None) for _ in range(lives)
        )

    def run_through(self, strikes):
        """Run lives with given faults, each after a number of operations; None for a random one."""
        with mock.patch.object(sqlite, "CHECKPOINT_PAGES", CHECKPOINT_PAGES):
            for fault, operations in strikes:
                self.live(fault, operations)
            self.live(None)
        return self.counts

    def live(self, fault, operations=None):
        """Open the log, compare, and use it until the fault."""
        rng, disk = self.rng, self.disk
        drawn = rng.choice((rng.randrange(1, 45), rng.randrange(20, 300)))
        disk.plan(fault, operations or drawn)
        vfs = SimVfs(disk)
        self.log = None
        try:
            self.use(vfs, rng.randrange(40) if fault else 3)
            self.end_life(fault)
        finally:
            # close while the disk is dead; later, close() would write into the next life
            disk.strike(PROCESS)
            with contextlib.suppress(*TROUBLE):
                self.log and self.log.close()
            vfs.unregister()
        disk.revive()

    def use(self, vfs, actions):
        """Open the log, compare, and run random actions."""
        try:
            self.log = log = self.open(vfs)
            self.tip_may_be_torn = False
            self.compare(log)
            for _ in range(actions):
                getattr(self, self.rng.choice(ACTIONS))(log)
                if self.disk.dead:
                    break
        except BrokenError:
            raise
        except Exception as error:
            damaged = isinstance(error, LogDamagedError) and not self.disk.dead
            if damaged or not self.disk.struck or not isinstance(error, TROUBLE):
                self.fail(f"it raised {error!r}", error)
            self.check_rejects_appends()

    def open(self, vfs):
        """Open the log; accept its end if the tip may be torn."""
        choices = {"vfs": vfs.name, "files": SimFiles(self.disk)}
        try:
            return self.make(self.folder, **choices)
        except LogDamagedError as error:
            if not self.tip_may_be_torn or "the tip" not in str(error):
                raise
            self.counts["accepted"] += 1
            return self.make(self.folder, **choices, accept_tail=True)

    def check_rejects_appends(self):
        """Check that the log rejects appends after a failed commit."""
        if self.disk.dead or self.log is None or not self.log._failed:
            return
        try:
            self.log.append([b"\x80"], self.log.tail.seq)
        except LogFailedError:
            return
        self.fail("it accepted a frame after a failed commit")

    def end_life(self, fault):
        """End the life, sometimes after closing the log."""
        disk = self.disk
        self.counts["in the middle"] += disk.dead
        if self.log and not disk.dead and self.rng.random() < 0.2:
            with contextlib.suppress(*TROUBLE):
                self.log.close()
        disk.strike(POWER if fault == POWER or (fault and self.rng.random() < 0.3) else PROCESS)
        self.counts[disk.struck] += fault is not None
        if disk.weather.torn_tip and disk.struck == POWER:
            self.tip_may_be_torn = True  # until the next open rewrites it

    # ----- actions ---------------------------------------------------------------------------

    def append(self, log):
        """Append a batch; sometimes call tidy()."""
        self.pending = batch = self.next_batch()
        found = log.append(batch.raw, batch.first_seq - 1, event_hash=batch.event_hash)
        if self.disk.dead:
            return
        if found != batch.last_seq:
            self.fail(f"append returned {found}, not {batch.last_seq}")
        self.acknowledged.append(batch)
        self.pending = None
        self.counts["acknowledged"] += 1
        if self.rng.random() < 0.5:
            log.tidy()

    def next_batch(self):
        """Return a random batch of commands."""
        rng, tail = self.rng, self.tail()
        commands = tuple(rng.choices(COMMANDS, k=rng.choice((1, 1, 2, 5, 30))))
        if rng.random() < 0.1:
            commands += (LARGE,)
        event_hash = rng.choice((None, rng.randbytes(32)))
        frame = encode_frame(commands, tail.seq + 1, tail.chain_hash, event_hash=event_hash)
        return Batch(tail.seq + 1, commands, event_hash, frame_hash(frame))

    def tail(self):
        """Return the expected end of the log."""
        if not self.acknowledged:
            return Tail(0, ZERO_HASH)
        return Tail(self.acknowledged[-1].last_seq, self.acknowledged[-1].chain_hash)

    def read(self, log):
        """Read from a random command on."""
        ends = [self.floor] + [
            batch.last_seq for batch in self.acknowledged if batch.last_seq > self.floor
        ]
        self.same(log, self.rng.randrange(self.rng.choice(ends), ends[-1] + 1))

    def snapshot(self, log):
        """Store a snapshot after a random recent frame."""
        ends = [batch for batch in self.acknowledged[-3:] if batch.last_seq > self.newest()]
        if not ends:
            return
        batch = self.rng.choice(ends)
        found = Snapshot(
            seq=batch.last_seq,
            chain_hash=batch.chain_hash,
            event_hash=self.rng.randbytes(32),
            state=self.rng.randbytes(self.rng.choice((0, 100, 5_000))),
        )
        self.snapshots.append(found)
        log.put_snapshot(found)
        self.snapshots = [found]

    def newest(self):
        """Return the command number of the newest snapshot."""
        return self.snapshots[-1].seq if self.snapshots[-1] else 0

    def drop(self, log):
        """Drop some of the frames that the snapshot covers."""
        up_to = self.newest() - self.rng.choice((0, 0, 3))
        ends = [batch.last_seq for batch in self.acknowledged if batch.last_seq <= up_to]
        self.floor_pending = max([self.floor, *ends])
        log.drop(max(up_to, 0))
        self.floor = self.floor_pending
        self.counts["dropped"] += 1

    # ----- comparing -------------------------------------------------------------------------

    def compare(self, log):
        """Check that acknowledged frames are there, and the pending one whole or not at all."""
        if self.pending and log.tail.seq == self.pending.last_seq:
            self.acknowledged.append(self.pending)
        self.pending = None
        if log.tail != self.tail():
            self.fail(f"it ends with {log.tail}, not with {self.tail()}")
        try:
            self.same(log, self.floor)
        except LogDamagedError:
            if self.floor_pending == self.floor:
                raise
            self.floor = self.floor_pending
            self.same(log, self.floor)
        self.floor_pending = self.floor
        found = log.get_snapshot()
        if found not in self.snapshots:
            self.fail(f"its snapshot is {found}, not one of {self.snapshots}")
        self.snapshots = [found]

    def same(self, log, after):
        """Check the frames after a command."""
        found = [
            Batch(frame.first_seq, frame.raw, frame.event_hash, frame.chain_hash)
            for frame in log.read(after)
        ]
        expected = [batch for batch in self.acknowledged if batch.last_seq > after]
        if found != expected:
            self.fail(
                f"after command {after} it has the frames {_ranges(found)}, "
                f"not {_ranges(expected)}, or others in their places"
            )

    def fail(self, problem, error=None):
        """Raise BrokenError with the seed."""
        raise BrokenError(
            f"seed {self.seed}, life {self.disk.life}, {self.disk.struck}: {problem}"
        ) from error


def _ranges(batches):
    return [(batch.first_seq, batch.last_seq) for batch in batches[-8:]]


def simulate(seeds, folder, lives=LIVES, **choices):
    """Run a simulation per seed; return the total counts."""
    counts = Counter()
    for seed in seeds:
        counts += Simulation(seed, folder, **choices).run(lives)
    return counts


def first_failure(seeds, folder, **choices):
    """Return the first seed whose simulation fails, with its error; None if all pass."""
    for seed in seeds:
        try:
            Simulation(seed, folder, **choices).run()
        except BrokenError as broken:
            return seed, str(broken)
    return None


BAD_DAYS = (*DEATHS, (SYNC, 2), (FULL, 1))
"""Faults that include failures of the disk."""
