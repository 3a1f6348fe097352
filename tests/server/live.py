"""A server process on a free loopback port for tests, with an HTTP client."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import httpx

from clob.client import Client

START_S = 60
END_S = 30
PAUSE_S = 0.05
KEEP = ("CLOB_PURE_PYTHON", "CLOB_REQUIRE_ALL", "CLOB_CHAIN_DIE")


class PatientTransport(httpx.HTTPTransport):
    """Sends a GET request again while history is behind, as the answer asks.

    The history process of a busy machine may need longer than a request waits for it. A test of
    that answer sends its request with ``httpx.get``.
    """

    def handle_request(self, request):
        end = time.monotonic() + START_S
        while True:
            response = super().handle_request(request)
            if (request.method, response.status_code) != ("GET", 503) or time.monotonic() > end:
                return response
            if b'"code":"RECOVERING"' not in response.read():
                return response
            time.sleep(PAUSE_S)


class Ended:
    """Base of objects with a ``process`` that tests kill or stop."""

    def kill(self):
        """Kill the process."""
        self.process.kill()
        self.process.wait(END_S)

    def stop(self):
        """Stop the process with SIGTERM; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_S)


class Live(Ended):
    """A running server."""

    def __init__(self, process, url, folder):
        self.process = process
        self.url = url
        self.ws_url = f"{url.replace('http', 'ws', 1)}/ws"
        self.folder = folder
        self.http = httpx.Client(base_url=url, timeout=START_S, transport=PatientTransport())

    def client(self, **options):
        """Return a client of the server, over the connections of ``http``."""
        return Client(self.url, http=self.http, timeout_s=START_S, **options)


STEADY = {"CLOB_CLOCK_SKEW_MAX_S": "3600", "CLOB_CHAIN_NODE": "embedded"}
"""A virtual machine that is copied while it runs gets a wall clock that jumps by seconds; servers
would hold all commands for 10 s. Tests of the clock set the bound themselves. The embedded chain is
py-evm even if there is an anvil on the PATH."""


def environment():
    """Return the environment with no settings of the server but :data:`STEADY`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CLOB_") or name in KEEP
    }
    return kept | STEADY


def started(folder, stderr=None, program=("-m", "clob_server"), **settings):
    """Start a server on a folder and wait until it listens; without a chain by default.

    ``stderr`` is an open file for its log; None leaves it to that of the tests. ``program`` is the
    program that Python runs.
    """
    common = {"port": 0, "data_dir": folder, "drain_s": 0, "log_level": "warning", "chain": "none"}
    common["auto_markets_per_address"] = 1_000  # the tests of a file share a server
    settings = common | settings
    options = []
    for name, value in settings.items():
        if name == "demo":
            options += ["--demo"] if value else []
        else:
            options += [f"--{name.replace('_', '-')}", text_of(value)]
    process = subprocess.Popen(
        [sys.executable, *program, "run", *options],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environment(),
    )
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        process.kill()
        process.stdout.close()
        raise AssertionError(f"the server ended with {process.wait(END_S)} and printed {line!r}")
    return Live(process, line.split()[-1], folder)


def text_of(value):
    """Return a setting in the format of the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, tuple) else str(value)


@contextlib.contextmanager
def live_server(folder, **settings):
    """Run a server within the block."""
    live = started(folder, **settings)
    try:
        yield live
    finally:
        live.http.close()
        if live.process.poll() is None:
            live.kill()
        live.process.stdout.close()
