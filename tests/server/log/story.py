"""A story of a log on a simulated disk: it works, dies, is opened again, and nothing may be lost.

What is drawn comes from one seed. The story knows what was acknowledged, and the one thing that
may be there or not: what was being written when death struck. What an opened log has once shown
counts as acknowledged.
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
"""What can strike, and how often; half of the lives end in a power loss."""

CHECKPOINT_PAGES = 12
"""Few, so that a short life has checkpoints."""

LIVES = 3
ACTIONS = ("append",) * 16 + ("read", "snapshot", "drop")
TROUBLE = (ClobError, apsw.Error, OSError)
"""What a log may raise where the disk has failed it."""


class BrokenError(AssertionError):
    """The log did not keep its word."""


class Batch(NamedTuple):
    """A frame as it has to be found again."""

    first_seq: int
    raw: tuple[bytes, ...]
    event_hash: bytes | None
    chain_hash: bytes

    @property
    def last_seq(self):
        return self.first_seq + len(self.raw) - 1


def submission(number):
    """Write a submission in canonical bytes."""
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


class Story:
    """One log through several lives.

    Args:
        seed: what all is drawn from.
        folder: a folder that is there; nothing is written in it.
        make: the class of the log.
        weather: what the disk is like.
        faults: what can strike, each with its weight.
    """

    def __init__(self, seed, folder, make=SqliteLog, weather=FINE, faults=DEATHS):
        self.seed, self.folder, self.make = seed, folder, make
        self.rng = random.Random(seed)
        self.disk = Disk(random.Random(self.rng.random()), weather)
        self.faults = [fault for fault, _ in faults]
        self.weights = [weight for _, weight in faults]
        self.sure = []
        self.perhaps = None
        """The batch that was being appended."""
        self.floor = self.floor_perhaps = 0
        """Up to where frames were dropped, or were being dropped."""
        self.snapshots = [None]
        """The newest snapshot that is sure, and the one that was being put."""
        self.told = Counter()
        """What has happened, to be summed up."""
        self.tip_may_be_torn = False
        self.log = None

    # ----- lives -----------------------------------------------------------------------------

    def run(self, lives=LIVES):
        """Live and die so often, and look once more at what is left."""
        return self.run_through(
            (self.rng.choices(self.faults, self.weights)[0], None) for _ in range(lives)
        )

    def run_through(self, strikes):
        """Let these faults strike, each after so many operations of a life, or None for any."""
        with mock.patch.object(sqlite, "CHECKPOINT_PAGES", CHECKPOINT_PAGES):
            for fault, operations in strikes:
                self.live(fault, operations)
            self.live(None)
        return self.told

    def live(self, fault, operations=None):
        """Open the log, compare, and use it until the fault strikes."""
        rng, disk = self.rng, self.disk
        drawn = rng.choice((rng.randrange(1, 45), rng.randrange(20, 300)))
        disk.plan(fault, operations or drawn)
        vfs = SimVfs(disk)
        self.log = None
        try:
            self.use(vfs, rng.randrange(40) if fault else 3)
            self.die(fault)
        finally:
            # Whatever is open is closed while all is dead, or it would write into the next life.
            disk.strike(PROCESS)
            with contextlib.suppress(*TROUBLE):
                self.log and self.log.close()
            vfs.unregister()
        disk.revive()

    def use(self, vfs, actions):
        """Open the log, compare, and do so many things with it."""
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
                self.broken(f"it raised {error!r}", error)
            self.still_refuses()

    def open(self, vfs):
        """Open the log; where a torn tip may have been left, accept its end."""
        choices = {"vfs": vfs.name, "files": SimFiles(self.disk)}
        try:
            return self.make(self.folder, **choices)
        except LogDamagedError as error:
            if not self.tip_may_be_torn or "the tip" not in str(error):
                raise
            self.told["accepted"] += 1
            return self.make(self.folder, **choices, accept_tail=True)

    def still_refuses(self):
        """After a failed commit a living process may not append."""
        if self.disk.dead or self.log is None or not self.log._failed:
            return
        try:
            self.log.append([b"\x80"], self.log.tail.seq)
        except LogFailedError:
            return
        self.broken("it was appended to after a commit had failed")

    def die(self, fault):
        """Die, at times after a tidy end."""
        disk = self.disk
        self.told["in the middle"] += disk.dead
        if self.log and not disk.dead and self.rng.random() < 0.2:
            with contextlib.suppress(*TROUBLE):
                self.log.close()
        disk.strike(POWER if fault == POWER or (fault and self.rng.random() < 0.3) else PROCESS)
        self.told[disk.struck] += fault is not None
        if disk.weather.torn_tip and disk.struck == POWER:
            self.tip_may_be_torn = True  # until an open has written it anew

    # ----- what is done to the log -----------------------------------------------------------

    def append(self, log):
        """Append a batch, note it, and at times tidy up."""
        self.perhaps = batch = self.next_batch()
        found = log.append(batch.raw, batch.first_seq - 1, event_hash=batch.event_hash)
        if self.disk.dead:
            return
        if found != batch.last_seq:
            self.broken(f"it numbers the command {found}, not {batch.last_seq}")
        self.sure.append(batch)
        self.perhaps = None
        self.told["acknowledged"] += 1
        if self.rng.random() < 0.5:
            log.tidy()

    def next_batch(self):
        """Draw a batch of commands."""
        rng, tail = self.rng, self.tail()
        commands = tuple(rng.choices(COMMANDS, k=rng.choice((1, 1, 2, 5, 30))))
        if rng.random() < 0.1:
            commands += (LARGE,)
        event_hash = rng.choice((None, rng.randbytes(32)))
        frame = encode_frame(commands, tail.seq + 1, tail.chain_hash, event_hash=event_hash)
        return Batch(tail.seq + 1, commands, event_hash, frame_hash(frame))

    def tail(self):
        """Say where the log has to end."""
        if not self.sure:
            return Tail(0, ZERO_HASH)
        return Tail(self.sure[-1].last_seq, self.sure[-1].chain_hash)

    def read(self, log):
        """Read from anywhere on."""
        ends = [self.floor] + [batch.last_seq for batch in self.sure if batch.last_seq > self.floor]
        self.same(log, self.rng.randrange(self.rng.choice(ends), ends[-1] + 1))

    def snapshot(self, log):
        """Put a snapshot of where a frame ends; in some states it is large."""
        ends = [batch for batch in self.sure[-3:] if batch.last_seq > self.newest()]
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
        """Say of which command the newest snapshot is."""
        return self.snapshots[-1].seq if self.snapshots[-1] else 0

    def drop(self, log):
        """Drop what the snapshot covers, or some of it."""
        up_to = self.newest() - self.rng.choice((0, 0, 3))
        ends = [batch.last_seq for batch in self.sure if batch.last_seq <= up_to]
        self.floor_perhaps = max([self.floor, *ends])
        log.drop(max(up_to, 0))
        self.floor = self.floor_perhaps
        self.told["dropped"] += 1

    # ----- comparing -------------------------------------------------------------------------

    def compare(self, log):
        """Find all that is sure, and of what is not all or nothing; from now on that is sure."""
        if self.perhaps and log.tail.seq == self.perhaps.last_seq:
            self.sure.append(self.perhaps)
        self.perhaps = None
        if log.tail != self.tail():
            self.broken(f"it ends with {log.tail}, not with {self.tail()}")
        try:
            self.same(log, self.floor)
        except LogDamagedError:
            if self.floor_perhaps == self.floor:
                raise
            self.floor = self.floor_perhaps
            self.same(log, self.floor)
        self.floor_perhaps = self.floor
        found = log.get_snapshot()
        if found not in self.snapshots:
            self.broken(f"its snapshot is {found}, not one of {self.snapshots}")
        self.snapshots = [found]

    def same(self, log, after):
        """Read the log after a command, and find what has to be there."""
        found = [
            Batch(frame.first_seq, frame.raw, frame.event_hash, frame.chain_hash)
            for frame in log.read(after)
        ]
        expected = [batch for batch in self.sure if batch.last_seq > after]
        if found != expected:
            self.broken(
                f"after command {after} it has the frames {_places(found)}, "
                f"not {_places(expected)}, or others in their places"
            )

    def broken(self, what, error=None):
        """Say what went wrong, and with which seed."""
        raise BrokenError(
            f"seed {self.seed}, life {self.disk.life}, {self.disk.struck}: {what}"
        ) from (error)


def _places(batches):
    return [(batch.first_seq, batch.last_seq) for batch in batches[-8:]]


def tell(seeds, folder, lives=LIVES, **choices):
    """Tell the story of each seed; sum up what happened in all of them."""
    told = Counter()
    for seed in seeds:
        told += Story(seed, folder, **choices).run(lives)
    return told


def catches(seeds, folder, **choices):
    """Give the first seed whose story finds the log broken, with what it says; or None."""
    for seed in seeds:
        try:
            Story(seed, folder, **choices).run()
        except BrokenError as broken:
            return seed, str(broken)
    return None


BAD_DAYS = (*DEATHS, (SYNC, 2), (FULL, 1))
"""What can strike where the disk itself fails too."""
