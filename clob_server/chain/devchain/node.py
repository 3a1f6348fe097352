"""Runs a node: folder, port and chain, until it is stopped."""

import socket
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import apsw
from eth import EVM_RECURSION_LIMIT

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.server import HOST, NodeServer, answer
from clob_server.chain.devchain.state import ChainStore, StoreError

SECOND_NS: Final = 1_000_000_000
"""Nanoseconds per second."""


class NoStartError(Exception):
    """The chain cannot start; the text is the reason."""


def clock_s() -> int:
    """Return Unix seconds."""
    return time.time_ns() // SECOND_NS


def run(folder: Path, *, port: int, chain_id: int, with_parent: bool) -> None:
    """Run a chain until it is stopped; print its URL when it listens.

    Args:
        folder: the data folder; created if missing.
        port: the port on loopback; 0 for any free port.
        chain_id: the chain id; must match an existing chain.
        with_parent: stop when standard input ends.

    Raises:
        NoStartError: the port is in use or the folder is unusable.
    """
    # A dependency of py-evm raises the limit beyond any stack; py-evm states its own need.
    sys.setrecursionlimit(EVM_RECURSION_LIMIT)
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        raise NoStartError(f"cannot listen on {HOST}:{port}: {error}") from error
    with closing(listener):
        try:
            store = ChainStore(folder)
        except StoreError as error:
            raise NoStartError(str(error)) from error
        with closing(store):
            try:
                chain = DevelopmentChain(store, chain_id, clock_s)
            except StoreError as error:
                raise NoStartError(f"{folder}: {error}") from error
            except apsw.Error as error:
                text = f"the chain in {folder} is damaged: SQLite error: {error}"
                raise NoStartError(text) from error
            sys.stdout.write(f"listening on http://{HOST}:{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            NodeServer(partial(answer, chain), with_parent=with_parent).run([listener])
