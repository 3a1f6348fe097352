"""The two kinds of node that the tests of the chain run on: the development chain, and anvil.

Both are real processes on a free port of loopback, with the ten accounts that everybody knows.
"""

import contextlib
import importlib.util
import itertools
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.server.live import END_S, Ended, environment

ANVIL = "clients/js/node_modules/@foundry-rs/anvil-*/bin/anvil*"
KINDS = ("devchain", "anvil")
START_S = 60


class NodeError(Exception):
    """A node refused what it was asked."""


class Node(Ended):
    """A node that runs.

    Args:
        kind: ``devchain`` or ``anvil``.
        process: its process; its standard output is a pipe.
        url: where it listens.
        folder: where a development chain keeps its state, None for anvil, which keeps none.
    """

    def __init__(self, kind, process, url, folder=None):
        self.kind = kind
        self.process = process
        self.url = url
        self.folder = folder
        self._http = httpx.Client(timeout=START_S)
        self._ids = itertools.count(1)
        # What a node goes on saying would fill the pipe, and then it would wait for ever.
        self._said = threading.Thread(target=process.stdout.read)
        self._said.start()

    def ask(self, method, *params):
        """Ask for one thing, and give what is answered."""
        return result_of(self._http, self.url, method, params, next(self._ids))

    @property
    def port(self):
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    def close(self):
        """Leave nothing behind."""
        self._http.close()
        if self.process.poll() is None:
            self.kill()
        self._said.join(END_S)
        self.process.stdout.close()


def result_of(http, url, method, params=(), number=1):
    """Ask a node over a client of HTTP.

    Raises:
        NodeError: it refused; the error is what it said.
    """
    asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}
    answer = http.post(url, json=asked).json()
    if "error" in answer:
        raise NodeError(answer["error"])
    assert answer["id"] == number
    return answer["result"]


def anvil_path():
    """Find the program that npm installed, or None."""
    return next(Path(__file__).parents[1].glob(ANVIL), None)


def start_devchain(folder, port=0, chain_id=31337):
    """Start a development chain on a folder; the test is skipped where there is no py-evm."""
    if importlib.util.find_spec("eth") is None:
        pytest.skip("py-evm is not installed; the extra `devchain` has it")
    module = "clob_server.chain.devchain"
    command = [sys.executable, "-m", module, str(folder)]
    return begun("devchain", [*command, "--port", str(port), "--chain-id", str(chain_id)], folder)


def start_anvil(*options, port=0):
    """Start anvil; the test is skipped where npm has not installed it."""
    path = anvil_path()
    if path is None:
        pytest.skip("npm install in tests/clients/js has not been run; `make clients` does")
    return begun("anvil", [str(path), "--port", str(port), "--threads", "1", *options])


def start_node(kind, folder):
    """Start a node of either kind."""
    return start_devchain(folder) if kind == "devchain" else start_anvil()


def begun(kind, command, folder=None):
    """Start the process of a node, and wait until it says where it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    for line in process.stdout:
        if line.lower().startswith("listening on "):
            url = f"http://{line.split()[-1].removeprefix('http://')}"
            return Node(kind, process, url, folder)
    process.stdout.close()
    raise AssertionError(f"{kind} ended with {process.wait(END_S)} before it listened")


@contextlib.contextmanager
def running(node):
    """A node for as long as the block takes."""
    try:
        yield node
    finally:
        node.close()
