"""Real nats-servers on loopback for tests: one, or a cluster of three.

The binary is the one that ``make nats`` put into ``build/nats``, or the one on ``PATH``.
"""

import contextlib
import itertools
import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from tests.server.log.proxy import DROP, proxy_to

BINARY = Path(__file__).parents[3] / "build/nats/nats-server"
START_S, END_S, PAUSE_S = 60, 30, 0.05
MAX_PAYLOAD = 8 << 20
ALWAYS = "sync_interval: always"


def nats_path():
    """Return the path of nats-server; None if there is none."""
    return str(BINARY) if BINARY.is_file() else shutil.which("nats-server")


def require_nats():
    """Return the path of nats-server; skip the test without one, or without nats-py."""
    pytest.importorskip("nats", reason="nats-py is not installed")
    path = nats_path()
    if path is None:
        pytest.skip("nats-server is not installed; `make nats` fetches it")
    return path


def free_ports(count):
    """Return free ports of the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def has_jetstream(monitor):
    """Return whether JetStream of the server with a monitoring endpoint is ready to use."""
    try:
        with urllib.request.urlopen(f"{monitor}/healthz", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


class NatsServer:
    """A nats-server process that can be killed, stopped and started again on its folder."""

    def __init__(self, path, folder, name, *, ports, cluster="", options=ALWAYS, extra=""):
        self.name = name
        self.port, self.monitor_port = ports
        self.process = None
        self._path = path
        self._log = folder / "log"
        self._config = folder / "nats.conf"
        folder.mkdir(parents=True)
        self._config.write_text(
            f"server_name: {name}\nlisten: 127.0.0.1:{self.port}\n"
            f"http: 127.0.0.1:{self.monitor_port}\nmax_payload: {MAX_PAYLOAD}\n"
            f"jetstream {{ store_dir: {json.dumps(str(folder / 'data'))}, {options} }}\n"
            f"{extra}\n{cluster}"
        )

    @property
    def url(self):
        """URL for clients."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitor(self):
        """URL of the monitoring endpoint."""
        return f"http://127.0.0.1:{self.monitor_port}"

    def start(self):
        """Start the process; return before it is ready."""
        with self._log.open("ab") as log:
            command = [self._path, "-c", str(self._config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def is_ready(self):
        """Return whether JetStream of the server is ready to use."""
        is_ready = has_jetstream(self.monitor)
        assert is_ready or self.process.poll() is None, self._log.read_text()[-2000:]
        return is_ready

    def wait(self):
        """Wait until the server is ready."""
        wait_until(self.is_ready)

    def kill(self):
        """Kill the process."""
        self.process.kill()
        self.process.wait(END_S)

    def pause(self):
        """Stop the process with SIGSTOP until :meth:`resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        """Continue a paused process."""
        self.process.send_signal(signal.SIGCONT)


def wait_until(is_true, seconds=START_S):
    """Wait until a function returns a true value, and return that."""
    end = time.monotonic() + seconds
    while not (found := is_true()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(PAUSE_S)
    return found


class Cluster:
    """Running servers of one cluster.

    Args:
        servers: the servers.
        links: the proxies of the routes, by the indexes of the connecting and the other server.
    """

    def __init__(self, servers, links):
        self.servers = servers
        self._links = links

    def isolate(self, server, state=DROP):
        """Lose or delay all bytes between a server and the others; its clients stay connected."""
        for pair, link in self._links.items():
            if self.servers.index(server) in pair:
                link.partition(state)

    def heal(self):
        """End the isolation of all servers."""
        for link in self._links.values():
            link.heal()

    @property
    def urls(self):
        """URLs for clients."""
        return [server.url for server in self.servers]

    @property
    def monitors(self):
        """URLs of the monitoring endpoints."""
        return [server.monitor for server in self.servers]

    def leader_of(self, name):
        """Return the server that leads a stream; None if there is none."""
        for server in self.servers:
            if server.process.poll() is not None:
                continue
            url = f"{server.monitor}/jsz?streams=true&leader_only=true"
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
                for account in json.load(answer).get("account_details") or ():
                    for stream in account.get("stream_detail") or ():
                        if stream["name"] == name:
                            leader = (stream.get("cluster") or {}).get("leader") or server.name
                            return next(each for each in self.servers if each.name == leader)
        return None

    def close(self):
        """Kill the servers."""
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.resume()
                server.kill()


@contextlib.contextmanager
def running(folder, count=1, *, options=ALWAYS, extra="", advertises=True):
    """Run one server, or a cluster of several; JetStream is ready.

    Args:
        folder: folder of the servers.
        count: number of servers.
        options: settings of JetStream, the same for all or one for each.
        extra: further settings of all servers.
        advertises: whether each server names the others to its clients; without it, clients that
            reach the servers through proxies do not find a way around these.
    """
    path = require_nats()
    options = [options] * count if isinstance(options, str) else options
    ports = free_ports(3 * count)
    with contextlib.ExitStack() as stack:
        links = {
            (one, other): stack.enter_context(proxy_to(ports[3 * other + 2]))
            for one, other in itertools.permutations(range(count), 2)
        }
        servers = []
        for index in range(count):
            *own, route = ports[3 * index : 3 * index + 3]
            server = NatsServer(
                path,
                folder / f"n{index + 1}",
                f"n{index + 1}",
                ports=own,
                cluster=cluster_settings(index, route, links, advertises) if count > 1 else "",
                options=options[index],
                extra=extra,
            )
            servers.append(server)
        cluster = Cluster(servers, links)
        stack.callback(cluster.close)
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        yield cluster


def cluster_settings(index, port, links, advertises):
    """Return the settings for the routes of a server, all of which lead through proxies."""
    routes = [f'"nats://127.0.0.1:{link.port}"' for (one, _), link in links.items() if one == index]
    # Others would connect to an advertised port without a proxy; nothing listens on port 1. Without
    # the interval of pings a paused server would be noticed after minutes.
    return (
        f"cluster {{ name: test, listen: 127.0.0.1:{port}, advertise: 127.0.0.1:1, "
        f"routes: [{', '.join(routes)}], ping_interval: 2s, "
        f"no_advertise: {json.dumps(not advertises)} }}\n"
    )
