"""``clob-server cluster``: runs the nodes of a cluster and the servers of its log on one machine.

It is for trying a cluster out, and for tests of programs that talk to one: everything runs on
loopback, and a process that ends is started again.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from clob.program import print_text
from clob_server.auth.api_keys import IDS, TOKENS, secret
from clob_server.chain.config import LOOPBACK
from clob_server.cli.exit_codes import DONE, FAILED, UNUSABLE, complain
from clob_server.cli.options import path_argument, positive
from clob_server.cli.run import bind_problem
from clob_server.dialects.polymarket.credentials import FILE as DIALECT_SECRET
from clob_server.log.files import make_folder
from clob_server.settings import POLYMARKET

NUM_SERVERS: Final = 3
"""Servers of the replicated log."""
SERVER_PORTS: Final = 4222, 6222, 8222
"""First port of the servers for clients, for each other, and for monitoring."""
END_S: Final = 15.0
"""Seconds for a process to end."""
START_S: Final = 60.0
"""Seconds for the servers of the log to start."""
TICK_S: Final = 0.1
"""Seconds between two looks for processes that ended."""
AGAIN_S: Final = 3.0
"""Seconds until a process that ended is started again."""


class ClusterProgram(NamedTuple):
    """A program of the cluster."""

    name: str
    command: list[str]
    folder: Path


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    described = commands.add_parser(
        "cluster",
        help="run a cluster of nodes on this machine",
        description="Run three servers of a replicated log (nats-server) and some nodes over it on "
        "loopback, until Ctrl-C. A process that ends is started again, so that any of them can be "
        "killed meanwhile.",
        epilog="Arguments after -- are options of every node: clob-server cluster -- --rate-limits "
        "off. Exit code: 0 after Ctrl-C, 1 a program did not start, 2 nats-server is missing or a "
        "port is in use.",
    )
    described.add_argument(
        "--folder",
        type=path_argument,
        default=Path("clob-cluster"),
        metavar="FOLDER",
        help="folder of all data; default: %(default)s",
    )
    described.add_argument(
        "--nodes",
        type=positive,
        default=3,
        metavar="N",
        help="number of nodes; default: %(default)s",
    )
    described.add_argument(
        "--port",
        type=positive,
        default=8000,
        metavar="N",
        help="port of the first node, the others follow; default: %(default)s",
    )
    described.add_argument(
        "--nats-server",
        default="nats-server",
        metavar="PATH",
        help="the server of the log, 2.12.3 or later; default: the one on the PATH",
    )
    described.add_argument("options", nargs="*", metavar="OPTION", help="options of every node")
    described.set_defaults(act=run_cluster)


def run_cluster(arguments: argparse.Namespace, _: Mapping[str, str]) -> int:
    """Run a cluster until SIGTERM or Ctrl-C; return the exit code."""
    binary = shutil.which(arguments.nats_server)
    if binary is None:
        rule = "nats-server 2.12.3 or later is needed; --nats-server names it"
        return complain(f"{rule}; {arguments.nats_server!r} was not found", UNUSABLE)
    ports = range(arguments.port, arguments.port + arguments.nodes)
    for port in (*server_ports(), *ports):
        if problem := bind_problem(LOOPBACK, port):
            return complain(f"cannot listen on {LOOPBACK}:{port}: {problem}", UNUSABLE)
    folder: Path = arguments.folder.absolute()
    processes = Processes()
    signal.signal(signal.SIGTERM, interrupt)
    try:
        for server in servers_of(folder, binary):
            processes.start(server)
        processes.wait_for([f"{monitor}/healthz" for monitor in monitors()], START_S)
        for node in nodes_of(folder, ports, arguments.options):
            processes.start(node)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        processes.wait_for([f"{url}/health" for url in urls])
        lines = [f"listening on {url}\n" for url in urls]
        print_text("".join(lines) + f"process ids and logs are in {folder}\n", flush=True)
        while True:
            time.sleep(TICK_S)
            processes.check()
    except NotStartedError as error:
        return complain(str(error), FAILED)
    except KeyboardInterrupt:
        return DONE
    finally:
        processes.end()


def interrupt(*_: object) -> None:
    """End the command on SIGTERM as on Ctrl-C."""
    raise KeyboardInterrupt


class NotStartedError(Exception):
    """A program of the cluster ended before it was ready."""


class Processes:
    """The processes of a cluster."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[ClusterProgram, subprocess.Popen[bytes]]] = {}
        self._due: dict[str, tuple[ClusterProgram, float]] = {}

    def start(self, program: ClusterProgram) -> None:
        """Start a program; its output goes to the file ``log``, its id to ``pid``."""
        make_folder(program.folder)
        with (program.folder / "log").open("ab") as log:
            process = subprocess.Popen(program.command, stdout=log, stderr=log)
        (program.folder / "pid").write_text(f"{process.pid}\n")
        self._running[program.name] = program, process

    def wait_for(self, urls: Sequence[str], wait_s: float | None = None) -> None:
        """Wait until each URL answers: with success within a time, or in any way without limit.

        Raises:
            NotStartedError: a program has ended; the error has the last line of its log. Or the
                time is over.
        """
        end = None if wait_s is None else time.monotonic() + wait_s
        for url in urls:
            while not answers(url, needs_ok=end is not None):
                if end is not None and time.monotonic() > end:
                    raise NotStartedError(f"{url} did not answer within {wait_s:g} s")
                for program, process in self._running.values():
                    if process.poll() is not None:
                        raise NotStartedError(ending(program, process.returncode))
                time.sleep(TICK_S)

    def check(self) -> None:
        """Start the programs again that have ended some seconds ago."""
        for name, (program, process) in list(self._running.items()):
            if process.poll() is not None:
                print_text(f"{name} ended ({process.returncode}); it starts again\n", flush=True)
                del self._running[name]
                self._due[name] = program, time.monotonic() + AGAIN_S
        for name, (program, at) in list(self._due.items()):
            if time.monotonic() >= at:
                del self._due[name]
                self.start(program)

    def end(self) -> None:
        """Stop all processes, the nodes before the servers of their log."""
        for _, process in reversed(self._running.values()):
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ending(program: ClusterProgram, code: int) -> str:
    """Return the text about a program that ended before it was ready."""
    log = program.folder / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "it wrote nothing")
    return f"{program.name} ended with exit code {code}; see {log}: {last}"


def answers(url: str, *, needs_ok: bool) -> bool:
    """Return whether a URL answers, with any status or with success."""
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except urllib.error.HTTPError:
        return not needs_ok
    except OSError:
        return False


# ----- the programs --------------------------------------------------------------------------


def servers_of(folder: Path, binary: str) -> list[ClusterProgram]:
    """Write the configuration of the servers of the log, and return them as programs."""
    client, route, monitor = SERVER_PORTS
    routes = [f"nats://127.0.0.1:{route + each}" for each in range(NUM_SERVERS)]
    programs = []
    for number in range(NUM_SERVERS):
        name = f"nats{number + 1}"
        place = folder / name
        make_folder(place)
        settings = {
            "server_name": name,
            "listen": f"127.0.0.1:{client + number}",
            "http": f"127.0.0.1:{monitor + number}",
            "max_payload": 8 << 20,
            "jetstream": {"store_dir": str(place / "data"), "sync_interval": "always"},
            "cluster": {
                "name": "clob",
                "listen": f"127.0.0.1:{route + number}",
                "routes": routes,
                "ping_interval": "2s",
            },
        }
        path = place / "nats.conf"
        # nats-server knows no escape for a character beyond ASCII.
        path.write_text(json.dumps(settings, indent=2, ensure_ascii=False), encoding="utf-8")
        programs.append(ClusterProgram(name, [binary, "-c", str(path)], place))
    return programs


def server_ports() -> list[int]:
    """Return the ports of the servers of the log."""
    return [first + each for first in SERVER_PORTS for each in range(NUM_SERVERS)]


def monitors() -> list[str]:
    """Return the URLs of the monitoring endpoints of the servers."""
    return [f"http://127.0.0.1:{SERVER_PORTS[2] + each}" for each in range(NUM_SERVERS)]


def nodes_of(folder: Path, ports: range, options: Sequence[str]) -> list[ClusterProgram]:
    """Return the nodes as programs; they share the secret files of the first one."""
    servers = ",".join(f"nats://127.0.0.1:{SERVER_PORTS[0] + each}" for each in range(NUM_SERVERS))
    programs = []
    for number, port in enumerate(ports, 1):
        name = f"node{number}"
        place = folder / name
        make_folder(place)
        for kept in (IDS, TOKENS, *([DIALECT_SECRET] if POLYMARKET in options else [])):
            path = place / kept
            if not path.exists():
                secret(place, kept)
                path.write_bytes((folder / "node1" / kept).read_bytes())
        command = [
            sys.executable, "-m", "clob_server", "run", "--chain", "none",
            "--port", str(port), "--data-dir", str(place), "--node", name,
            "--node-count", str(len(ports)), "--log", servers,
            "--log-monitors", ",".join(monitors()), *options,
        ]  # fmt: skip
        programs.append(ClusterProgram(name, command, place))
    return programs
