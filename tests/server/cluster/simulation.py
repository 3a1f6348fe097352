"""A whole cluster in one process and in virtual time: nodes, their log, clients, and faults.

Every random choice comes from one seed, so that a failure repeats. The nodes run the real sequencer
and role; only the servers of the log, the thread of the log and the clocks are replaced.
"""

import asyncio
import contextlib
import random  # noqa: TID251 - the draws of a simulation, from a seed
import selectors
from collections import Counter

from clob import AddMarket, Cancel, Market, Order, OrderAdded, RejectedError, Side, Submit
from clob.errors import ClockWentBackError
from clob.journal import frame_hash, read_frames
from clob_server.cluster.node import ClusterNode
from clob_server.cluster.replica import PULL_S, ReplicaSequencer
from clob_server.core.commands import Owner
from clob_server.core.ids import Ids
from clob_server.core.recovery import commands_of, recover
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import (
    CommitUnknownError,
    NewOrder,
    SequencerStoppedError,
)
from clob_server.core.state import ServerState
from clob_server.log import FencedError, LogFailedError, MemoryLog, Tail

KEY = bytes(32)
IDS = Ids(KEY)  # shared: its tables take 50 ms
NAMES = ("a", "b", "c")
MARKET = Market(id="m", yes="1", no="2")
ONE = 10**18
START_MS = 1_700_000_000_000
UNKNOWN = NotOwnerError, CommitUnknownError, SequencerStoppedError, LogFailedError
MAKERS = [f"0x{number:040x}" for number in range(1, 5)]


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time moves only when nothing is ready to run."""

    def __init__(self):
        super().__init__(Selector(self))
        self.now = 0.0

    def time(self):
        return self.now


class Selector(selectors.SelectSelector):
    """A selector that moves the time of its loop instead of waiting."""

    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        assert timeout is not None, "every task waits for something that never happens"
        self._loop.now += max(0.0, timeout)
        return []


# ----- the log -------------------------------------------------------------------------------


class Servers:
    """The servers of the log: one sequence of frames, appended by compare-and-set."""

    def __init__(self, rng):
        self.rng = rng
        self.frames = []
        self.is_up = True
        self.checks_end = True

    def append(self, frame, after):
        """Append a frame, unless the log does not end with ``after`` frames."""
        if self.checks_end and after != len(self.frames):
            raise FencedError(f"the log has {len(self.frames)} frames, not {after}")
        self.frames.append(frame)


class SimLog(MemoryLog):
    """The copy of one node."""

    def __init__(self, servers):
        super().__init__()
        self._servers = servers
        self.is_cut_off = False

    def can_reach(self):
        """Return whether this node reaches the servers of the log."""
        return self._servers.is_up and not self.is_cut_off

    def _store(self, frame, first, tail):
        servers = self._servers
        if not self.can_reach():
            raise LogFailedError("no server of the log can be reached")
        servers.append(frame, len(self._frames))
        super()._store(frame, first, tail)

    def pull(self, _):
        """Copy the frames that others appended, and return them."""
        if not self.can_reach():
            return []
        found = []
        for frame in self._servers.frames[len(self._frames) :]:
            before = self.tail
            (read,) = read_frames([frame], before.chain_hash, before.seq + 1)
            self.tail = Tail(before.seq + read.count, frame_hash(frame))
            MemoryLog._store(self, frame, before.seq + 1, self.tail)
            found.append(read)
        return found


class SimThread:
    """The thread of the log as a task: work takes a while before and after it is done."""

    host = None

    def __init__(self, _):
        self._host = SimThread.host

    async def run(self, work):
        host = self._host
        await host.pause()
        result = error = None
        try:
            result = work()
        except Exception as raised:
            error = raised
        if result == []:  # a pull without frames waits for some
            await asyncio.sleep(PULL_S / 2)
        await host.pause()
        if error is not None:
            raise error
        return result

    def enqueue(self, work):
        with contextlib.suppress(Exception):
            work()

    def close(self):
        pass


# ----- a node --------------------------------------------------------------------------------


class Host:
    """A machine with a node, which can crash, freeze, lose its network, and have a wrong clock."""

    def __init__(self, name, simulation):
        self.name = name
        self.simulation = simulation
        self.rng = simulation.rng
        self.log = SimLog(simulation.servers)
        self.frozen_until = 0.0
        self.skew_ms = 0
        self.hashes = {}
        self.node = None
        self._tasks = []

    async def pause(self):
        """Wait a little, as a system call does; a frozen process waits until it is continued."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.rng.choice((0.0, 0.0005, 0.002, 0.01)))
        while self.frozen_until > loop.time():
            await asyncio.sleep(self.frozen_until - loop.time())

    def clock_ms(self):
        """Return the wall clock of this machine."""
        now = asyncio.get_running_loop().time()
        return START_MS + int(now * 1000) + self.skew_ms

    def start(self):
        """Start a process on what the machine has stored."""
        loop = asyncio.get_running_loop()
        SimThread.host = self
        state, event_hash, _ = recover(self.log)
        self.replica = self.simulation.replica_type(
            self.log,
            state,
            self.clock_ms,
            ownership=lambda epoch: Owner(epoch=epoch, node=self.name, url=self.name, keys=b"keys"),
            keys=b"keys",
            ids=IDS,
            event_hash=event_hash,
        )
        self.replica.subscribe(self._note)
        self.node = ClusterNode(
            self.name,
            self.replica,
            lambda data: self.simulation.spread(self, data),
            may_own=True,
            clock=loop.time,
        )
        self.node.url = self.name
        self.replica.on_role, self.replica.on_owner = self.node.on_role, self.node.on_owner
        self._tasks = [
            asyncio.create_task(self._run()),
            asyncio.create_task(self._beat()),
        ]

    async def _run(self):
        try:
            await self.replica.run()
        except LogFailedError:  # the process ends, and starts again
            self.simulation.restart(self)

    async def _beat(self):
        await self.pause()
        await self.node.run()

    def crash(self):
        """End the process at once."""
        for task in self._tasks:
            task.cancel()
        self.node = None

    def _note(self, batch):
        """Note the event hash after a command, and each order that a client could see."""
        for done in batch:
            self.simulation.see(self, done)
        self.hashes[batch[-1].seq] = self.replica.event_hash


# ----- the cluster ---------------------------------------------------------------------------


class Simulation:
    """A cluster for some seconds of virtual time.

    Args:
        seed: decides every draw.
        replica_type: the class of the sequencers, for deliberate faults.
    """

    def __init__(self, seed, replica_type=ReplicaSequencer):
        self.rng = random.Random(seed)
        self.servers = Servers(self.rng)
        self.replica_type = replica_type
        self.hosts = [Host(name, self) for name in NAMES]
        self.acked = []
        self.seen = {}
        self.last_owners = []

    def run(self, duration_s=8.0):
        """Run the cluster with faults, then without, and check every promise."""
        loop = VirtualLoop()
        with contextlib.closing(loop):
            loop.run_until_complete(self._run(duration_s))
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0.1))
        self.check()

    async def _run(self, duration_s):
        for host in self.hosts:
            host.start()
        clients = [asyncio.create_task(self._trade(number)) for number in range(4)]
        faults = asyncio.create_task(self._break_things())
        await asyncio.sleep(duration_s)
        for task in (faults, *clients):
            task.cancel()
        self._mend()
        await asyncio.sleep(6.0)
        self.last_owners = self._owners()

    # ----- faults ----------------------------------------------------------------------------

    async def _break_things(self):
        """Break one thing after the other, and mend it a while later."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.rng.uniform(0.2, 1.5))
            host = self.rng.choice([*self.hosts, *(self._owners() * 2)])
            kind = self.rng.choice(("crash", "freeze", "cut", "skew", "servers"))
            if kind == "crash" and host.node is not None:
                host.crash()
                self.restart(host)
            elif kind == "freeze":
                host.frozen_until = loop.time() + self.rng.uniform(0.5, 3.0)
            elif kind == "cut":
                host.log.is_cut_off = True
                loop.call_later(self.rng.uniform(0.2, 2.0), self._reconnect, host)
            elif kind == "skew":
                host.skew_ms = self.rng.randint(-900, 900)
            elif kind == "servers":
                self.servers.is_up = False
                loop.call_later(self.rng.uniform(0.1, 1.0), self._start_servers)

    def _owners(self):
        return [host for host in self.hosts if host.node is not None and host.node.is_owner]

    def _reconnect(self, host):
        host.log.is_cut_off = False

    def _start_servers(self):
        self.servers.is_up = True

    def restart(self, host):
        """Start a process again after a while."""
        host.crash()
        delay_s = self.rng.uniform(0.1, 1.0)
        asyncio.get_running_loop().call_later(delay_s, self._start_again, host)

    def _start_again(self, host):
        if host.node is None:
            host.start()

    def _mend(self):
        self.servers.is_up = True
        for host in self.hosts:
            host.log.is_cut_off, host.frozen_until, host.skew_ms = False, 0.0, 0
            if host.node is None:
                host.start()

    def spread(self, sender, data):
        """Send a sign of life to the other nodes, some time later or never."""
        loop = asyncio.get_running_loop()
        if not sender.log.can_reach() or sender.frozen_until > loop.time():
            return
        for host in self.hosts:
            if host is not sender and self.rng.random() < 0.95:
                loop.call_later(self.rng.uniform(0.0, 0.02), self._deliver, host, data)

    def _deliver(self, host, data):
        loop = asyncio.get_running_loop()
        if host.frozen_until > loop.time():
            loop.call_later(host.frozen_until - loop.time(), self._deliver, host, data)
        elif host.node is not None and host.log.can_reach():
            host.node.on_beat(data)

    # ----- clients ---------------------------------------------------------------------------

    async def _trade(self, number):
        """Place and cancel orders at any node that is said to be the owner."""
        rng, loop, count, submit = self.rng, asyncio.get_running_loop(), 0, None
        while True:
            await asyncio.sleep(rng.uniform(0.0, 0.05))
            owners = self._owners()
            if not owners:
                continue
            replica = rng.choice(owners).replica
            began = loop.time()
            try:
                if "m" not in replica.state.markets:
                    await replica.submit(AddMarket(market=MARKET))
                    continue
                if submit is None:
                    count += 1
                    name = f"{number}-{count}".encode()
                    submit = self._order(number, name)
                done = await replica.submit(NewOrder(submit))
                self.acked.append((name, done.seq, began, loop.time(), done.command.order.id))
                submit = None
                if rng.random() < 0.3:
                    await replica.submit(Cancel(order_id=done.command.order.id))
            except UNKNOWN:  # the same order is sent again
                continue
            except RejectedError:
                submit = None

    def _order(self, number, name):
        order = Order(
            id="-",
            token=MARKET.yes,
            maker=MAKERS[number],
            side=Side(self.rng.randrange(2)),
            price=self.rng.randint(48, 52),
            size=self.rng.randint(1, 5) * ONE,
        )
        return Submit(
            market=MARKET.id,
            order=order,
            order_hash=name.rjust(32, b"."),
            attachment=name,
            now_ms=0,
        )

    def see(self, host, done):
        """Note a command that a node has shown to its clients."""
        if not isinstance(done.outcome, RejectedError):
            for event in done.outcome:
                if isinstance(event, OrderAdded):
                    self.seen.setdefault((done.seq, event.order_id), host.name)

    # ----- promises --------------------------------------------------------------------------

    def check(self):
        """Check every promise against the frames that the servers of the log have."""
        self.servers.is_up = True
        frames = SimLog(self.servers).pull(0)
        state, seq, added, times, placed = ServerState(), 0, {}, [], []
        for frame in frames:
            for command in commands_of(frame):
                seq += 1
                try:
                    events = state.apply(command)
                except ClockWentBackError:
                    raise
                except RejectedError:  # changes nothing, the time included
                    continue
                for event in events:
                    if isinstance(event, OrderAdded):
                        added[seq] = event.order_id
                times.append(command.now_ms)
                if type(command) is Submit:
                    placed.append(command.attachment)
        assert len(placed) == len(set(placed)), "an order was placed twice"
        assert times == sorted(times), "the time of the log went back"
        self._check_clients(added)
        self._check_nodes(state, seq)

    def _check_clients(self, added):
        names = Counter(name for name, *_ in self.acked)
        assert all(count == 1 for count in names.values())
        for name, seq, _, _, order_id in self.acked:
            kept = added.get(seq, order_id)  # it may have traded at once
            assert kept == order_id, f"{name} was acknowledged as {seq}, which is {kept}"
        for (seq, order_id), node in self.seen.items():
            assert added.get(seq) == order_id, f"{node} showed {order_id}, which is not in the log"
        by_end = sorted(self.acked, key=lambda each: each[3])
        for name, seq, began, _, _ in self.acked:
            for _, earlier, _, ended, _ in by_end:
                if ended >= began:
                    break
                assert earlier < seq, f"{name} was placed before one that ended earlier"

    def _check_nodes(self, state, last):
        hashes = {}
        for host in self.hosts:
            assert host.replica.seq == last, f"{host.name} has applied {host.replica.seq} of {last}"
            assert host.replica.state.snapshot() == state.snapshot()
            for seq, found in host.hashes.items():
                assert hashes.setdefault(seq, found) == found, f"{host.name} differs at {seq}"
        owners = [host.name for host in self.last_owners]
        assert len(owners) == 1, f"owners: {owners}"
