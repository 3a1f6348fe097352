"""Faults of a cluster: killed, frozen and separated processes, full disks, and rolling upgrades.

Each node reaches the nats-servers through proxies of its own, so that it can be separated from
them. A fault is injected, lasts a while, and is then mended completely.
"""

import contextlib
import itertools
import resource
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass

from tests.server.cluster.nodes import Nodes
from tests.server.log.nats_servers import running, wait_until
from tests.server.log.proxy import DROP, HOLD, Proxy

STREAM = "clob"
COUNT = 3
KILLS = ("owner", "follower", "leader", "owner and leader", "all servers", "all nodes")
CUTS = ("cut owner", "cut follower")
OTHERS = ("freeze owner", "rolling upgrade", "full disk")
SLOW = ("long cut",)
"""Faults of long runs."""
DIRECTIONS = (("to_server",), ("to_client",), ("to_server", "to_client"))
MEND_S = 90
FULL_BYTES = 4_096
"""Size of a file on a disk that is said to be full."""


@dataclass(slots=True)
class Fault:
    """A fault that was injected and mended."""

    kind: str
    detail: str
    began: float
    ended: float = 0.0


class Arena:
    """Three nodes, each behind proxies to three nats-servers."""

    def __init__(self, nodes, nats, rng):
        self.nodes, self.nats, self.rng = nodes, nats, rng
        self.faults = []
        self.killed = Counter()
        """Number of killed processes by kind of fault."""
        self.exits = []
        """Nodes that ended by themselves, with the fault meanwhile and the exit code."""

    # ----- faults ----------------------------------------------------------------------------

    def inject(self, kind):
        """Inject a fault, leave it for a while, and mend it."""
        fault = Fault(kind, "", time.monotonic())
        self.faults.append(fault)
        method = "cut" if kind in CUTS else "kill" if kind in KILLS else kind.replace(" ", "_")
        fault.detail = getattr(self, f"_{method}")(kind) or ""
        self.mend(kind)
        fault.ended = time.monotonic()

    def _pause(self, low_s, high_s):
        time.sleep(self.rng.uniform(low_s, high_s))

    def _kill(self, kind):
        """Kill some processes at once."""
        victims = []
        if kind == "all nodes":
            victims += self.nodes
        elif kind == "all servers":
            victims += self.nats.servers
        else:
            owner = self.nodes.owner()
            if kind == "follower":
                victims.append(self.rng.choice([each for each in self.nodes if each is not owner]))
            if "owner" in kind:
                victims.append(owner)
            if "leader" in kind:
                victims.append(wait_until(lambda: self.nats.leader_of(STREAM)))
        self.rng.shuffle(victims)
        for victim in victims:
            victim.kill()
        self.killed[kind] += len(victims)
        self._pause(0.0, 2.5)
        return ", ".join(each.name for each in victims)

    def _cut(self, kind):
        """Lose or delay the bytes between a node and the nats-servers, one way or both."""
        owner = self.nodes.owner()
        node = owner
        if kind == "cut follower":
            node = self.rng.choice([each for each in self.nodes if each is not owner])
        state, directions = self.rng.choice((DROP, HOLD)), self.rng.choice(DIRECTIONS)
        for proxy in node.proxies:
            for direction in directions:
                setattr(proxy, direction, state)
        self._pause(0.5, 6.0)
        return f"{node.name}: {state} {' and '.join(directions)}"

    def _long_cut(self, _):
        """Separate the owner from the nats-servers until an append fails and it ends."""
        owner = self.nodes.owner()
        for proxy in owner.proxies:
            proxy.partition(DROP)
        wait_until(lambda: not owner.is_running)
        return owner.name

    def _freeze_owner(self, _):
        """Freeze the owner until another node has taken over, or a little shorter."""
        owner = self.nodes.owner()
        owner.freeze()
        self._pause(0.7, 4.0)
        return owner.name

    def _rolling_upgrade(self, _):
        """Stop and start one node after the other, as an upgrade does."""
        for node in self.nodes:
            if node.is_running:
                code = node.stop()
                assert code == 0, f"{node.name} stopped with {code}"
                node.start()

    def _full_disk(self, _):
        """Let every write of the owner past the first bytes of a file fail; it ends of that."""
        owner = self.nodes.owner()
        pid = owner.live.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FULL_BYTES, hard))
        wait_until(lambda: not owner.is_running)
        self._pause(0.0, 2.0)
        return owner.name

    def stop(self):
        """Stop all nodes, the owner last, so that none takes over."""
        for node in [*self.nodes.followers(), self.nodes.owner()]:
            code = node.stop()
            assert code == 0, f"{node.name} stopped with {code}"

    # ----- mending ---------------------------------------------------------------------------

    def mend(self, kind):
        """Start, thaw and connect everything; return once all nodes follow one owner."""
        for node in self.nodes:
            if node.is_running:
                node.thaw()
            for proxy in node.proxies:
                proxy.heal()
        for server in self.nats.servers:
            if server.process.poll() is not None:
                server.start()
        end = time.monotonic() + MEND_S
        while not self._is_whole(kind):
            assert time.monotonic() < end, [each.health() for each in self.nodes]
            time.sleep(0.1)

    def _is_whole(self, kind):
        """Start the nodes that do not run; return whether all of them answer, with one owner."""
        ended = [each for each in self.nodes if not each.is_running]
        for node in ended:
            code = node.stop()  # closes its pipes
            if code != -signal.SIGKILL:
                self.exits.append((kind, node.name, code))
        starts = [threading.Thread(target=self._start, args=(node,)) for node in ended]
        for each in starts:
            each.start()
        for each in starts:
            each.join()
        if not all(server.is_ready() for server in self.nats.servers):
            return False
        roles = sorted(str(each.role()) for each in self.nodes)
        return roles == ["follower"] * (COUNT - 1) + ["owner"]

    def _start(self, node):
        """Start a node; one that cannot start yet is started again, as a service manager does."""
        with contextlib.suppress(AssertionError):
            node.start()


@contextlib.contextmanager
def arena(folder, rng):
    """Run a cluster whose nodes reach the nats-servers through proxies."""
    with contextlib.ExitStack() as stack:
        nats = stack.enter_context(running(folder / "nats", COUNT, advertises=False))
        nodes = Nodes(folder, nats, COUNT, {})
        for node in nodes:
            node.proxies = [Proxy(server.port) for server in nats.servers]
            for proxy in node.proxies:
                stack.callback(proxy.close)
            node.settings = {"log": tuple(proxy.url for proxy in node.proxies)}
        stack.callback(nodes.close)
        nodes.start()
        yield Arena(nodes, nats, rng)


def plan(rng, kills, cuts):
    """Return the kinds of so many kills and partitions, and some others, in random order."""
    kinds = [KILLS[number % len(KILLS)] for number in range(kills)]
    kinds += [CUTS[number % len(CUTS)] for number in range(cuts)]
    kinds += OTHERS * max(1, kills // 20) + SLOW * (kills // 50)
    rng.shuffle(kinds)
    return kinds


def pauses(faults, acks):
    """Return the longest times without an acknowledged order, by kind of fault."""
    found = {}
    acks = sorted(acks)
    for fault in faults:
        longest = max(
            (
                later - earlier
                for earlier, later in itertools.pairwise(acks)
                if later > fault.began and earlier < fault.ended
            ),
            default=0.0,
        )
        found.setdefault(fault.kind, []).append(longest)
    return found
