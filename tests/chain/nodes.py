"""Nodes of the chain tests: the development chain and anvil.

Both are real processes on a free loopback port, with the ten accounts of development chains.
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
    """The node returned an error."""


class Node(Ended):
    """A running node.

    Args:
        kind: ``devchain`` or ``anvil``.
        process: its process; standard output is a pipe.
        url: its URL.
        folder: folder of a development chain's state; None for anvil, which has none.
    """

    def __init__(self, kind, process, url, folder=None):
        self.kind = kind
        self.process = process
        self.url = url
        self.folder = folder
        self._http = httpx.Client(timeout=START_S)
        self._ids = itertools.count(1)
        # Without a reader the output would fill the pipe and block the node.
        self._output_reader = threading.Thread(target=process.stdout.read)
        self._output_reader.start()

    def ask(self, method, *params):
        """Send one request and return its result."""
        return result_of(self._http, self.url, method, params, next(self._ids))

    @property
    def port(self):
        """Port it listens on."""
        return int(self.url.rpartition(":")[2])

    def close(self):
        """Stop the node and release its resources."""
        self._http.close()
        if self.process.poll() is None:
            self.kill()
        self._output_reader.join(END_S)
        self.process.stdout.close()


def result_of(http, url, method, params=(), number=1):
    """Send a request over an HTTP client and return its result.

    Raises:
        NodeError: the node returned an error, which is the argument.
    """
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}
    answer = http.post(url, json=request).json()
    if "error" in answer:
        raise NodeError(answer["error"])
    assert answer["id"] == number
    return answer["result"]


def anvil_path():
    """Return the path of the anvil that npm installed, or None."""
    return next(Path(__file__).parents[1].glob(ANVIL), None)


def start_devchain(folder, port=0, chain_id=31337):
    """Start a development chain on a folder; skip the test without py-evm."""
    if importlib.util.find_spec("eth") is None:
        pytest.skip("py-evm is not installed; install the extra `devchain`")
    module = "clob_server.chain.devchain"
    command = [sys.executable, "-m", module, str(folder)]
    return start_process(
        "devchain", [*command, "--port", str(port), "--chain-id", str(chain_id)], folder
    )


def start_anvil(*options, port=0):
    """Start anvil; skip the test if npm has not installed it."""
    path = anvil_path()
    if path is None:
        pytest.skip("npm install in tests/clients/js has not been run; `make clients` does")
    return start_process("anvil", [str(path), "--port", str(port), "--threads", "1", *options])


def start_node(kind, folder):
    """Start a node of either kind."""
    return start_devchain(folder) if kind == "devchain" else start_anvil()


def start_process(kind, command, folder=None):
    """Start the process of a node and wait until it reports its address."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    for line in process.stdout:
        if line.lower().startswith("listening on "):
            url = f"http://{line.split()[-1].removeprefix('http://')}"
            return Node(kind, process, url, folder)
    process.stdout.close()
    raise AssertionError(f"{kind} exited with {process.wait(END_S)} before it listened")


@contextlib.contextmanager
def running(node):
    """Yield a node and stop it at the end."""
    try:
        yield node
    finally:
        node.close()
