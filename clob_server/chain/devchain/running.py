"""The chain as a process: from its folder to its end."""

import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import apsw
from eth import EVM_RECURSION_LIMIT

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.requests import answer
from clob_server.chain.devchain.server import HOST, Server, bind
from clob_server.chain.devchain.state import Store, StoreError

SECOND_NS: Final = 1_000_000_000
"""How many nanoseconds a second has."""


class NoStartError(Exception):
    """The chain cannot begin; the text says why."""


def clock_s() -> int:
    """Give the time in whole seconds since 1970."""
    return time.time_ns() // SECOND_NS


def run(folder: Path, *, port: int, chain_id: int, with_parent: bool) -> None:
    """Serve a chain until told to end; say where on standard output once it listens.

    Args:
        folder: where it is kept; made if it is not there.
        port: where it listens on loopback; 0 for any port that is free.
        chain_id: the id of the chain; one that is there must have it.
        with_parent: end when standard input ends.

    Raises:
        NoStartError: the port is taken, or the folder cannot be used.
    """
    # A package that py-evm imports sets it to what no stack holds; py-evm knows what it needs.
    sys.setrecursionlimit(EVM_RECURSION_LIMIT)
    try:
        listener = bind(port)
    except OSError as error:
        raise NoStartError(f"it cannot listen on {HOST}:{port}: {error}") from error
    with closing(listener):
        try:
            store = Store(folder)
        except StoreError as error:
            raise NoStartError(str(error)) from error
        with closing(store):
            try:
                chain = DevelopmentChain(store, chain_id, clock_s)
            except StoreError as error:
                raise NoStartError(f"{folder}: {error}") from error
            except apsw.Error as error:
                told = f"the chain in {folder} is damaged: SQLite says {error}"
                raise NoStartError(told) from error
            sys.stdout.write(f"listening on http://{HOST}:{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            Server(partial(answer, chain)).serve_until_told(listener, with_parent=with_parent)
