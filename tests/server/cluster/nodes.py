"""Nodes of a cluster as processes over real nats-servers, for tests."""

import contextlib
import json
import shutil
import signal
import time

import httpx

from tests.server.live import started
from tests.server.log.nats_servers import running, wait_until

START_S, HELD_S = 60, 30


def hold_orders(socket, maker):
    """Let a WebSocket hold the orders of a maker; return once they are held."""
    message = {
        "type": "subscribe", "channel": "user", "maker": maker.address, "extended": True,
        "cancelOnDisconnect": True,
    }  # fmt: skip
    socket.send(json.dumps(message))
    answer = json.loads(socket.recv(HELD_S))
    assert answer["type"] != "error", answer


def is_open(server, order_id):
    """Return whether an order rests, as a node or a server answers."""
    return server.http.get(f"/api/orders/{order_id}").json()["status"] == "open"


class NodeProcess:
    """A node that can be killed, frozen, and started again on its folder."""

    def __init__(self, name, folder, nats, settings):
        self.name = name
        self.folder = folder
        self._nats = nats
        self.settings = settings
        self.live = None

    def start(self):
        """Start the process; it follows the log, and may become the owner."""
        settings = {
            "log": tuple(self._nats.urls),
            "log_monitors": tuple(self._nats.monitors),
            "log_replicas": len(self._nats.servers),
            "node": self.name,
            "rate_limits": False,
            "log_level": "info",
        }
        with (self.folder / "stderr").open("a") as log:
            try:
                self.live = started(self.folder, stderr=log, **settings | self.settings)
            except AssertionError as error:
                raise AssertionError(f"{self.name}: {error}; it logged\n{self.logged()}") from None

    @property
    def http(self):
        """A client of this node."""
        return self.live.http

    @property
    def is_running(self):
        return self.live is not None and self.live.process.poll() is None

    def health(self):
        """Return the description of this node; None if it does not answer."""
        try:
            return httpx.get(f"{self.live.url}/health", timeout=1).json()
        except (httpx.TransportError, ValueError):
            return None

    def role(self):
        """Return ``owner``, ``follower``, or None if it does not answer."""
        health = self.health() if self.is_running else None
        return health and health["node"]["role"]

    def freeze(self):
        self.live.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.live.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.live.kill()
        self._close()

    def stop(self):
        """Stop the process; return its exit code."""
        code = self.live.stop()
        self._close()
        return code

    def _close(self):
        self.live.http.close()
        self.live.process.stdout.close()

    def logged(self):
        """Return what it logged."""
        return (self.folder / "stderr").read_text()


class Nodes:
    """The nodes of a cluster."""

    def __init__(self, folder, nats, count, settings):
        self.nats = nats
        self.nodes = []
        for number in range(count):
            place = folder / f"node{number + 1}"
            place.mkdir(parents=True)
            self.nodes.append(NodeProcess(place.name, place, nats, settings))

    def __iter__(self):
        return iter(self.nodes)

    def start(self):
        """Start the first node, which makes the secret files, then the others with copies."""
        first, *others = self.nodes
        first.start()
        for node in others:
            for path in first.folder.glob("*.key"):
                shutil.copy(path, node.folder / path.name)
            node.start()
        self.owner()

    def owner(self, besides=()):
        """Return the owner, once there is one."""
        return wait_until(
            lambda: next(
                (each for each in self.nodes if each not in besides and each.role() == "owner"),
                None,
            )
        )

    def followers(self):
        """Return the nodes that follow an owner, once there is one."""
        owner = self.owner()
        return [each for each in self.nodes if each is not owner]

    def wait_until_equal(self):
        """Wait until all running nodes have applied the same command; return its number."""

        def same():
            found = {node.health()["commandSeq"] for node in self.nodes if node.is_running}
            return found.pop() if len(found) == 1 else None

        end = time.monotonic() + START_S
        while (first := same()) is None or first != same():
            assert time.monotonic() < end, [node.health() for node in self.nodes]
            time.sleep(0.1)
        return first

    def close(self):
        for node in self.nodes:
            if node.is_running:
                node.thaw()
                node.kill()


@contextlib.contextmanager
def cluster(folder, count=3, servers=3, **settings):
    """Run a cluster within the block."""
    with running(folder / "nats", servers) as nats:
        nodes = Nodes(folder, nats, count, settings)
        try:
            nodes.start()
            yield nodes
        finally:
            nodes.close()
