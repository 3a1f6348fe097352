"""Runs a node: folder, port and chain, until it is stopped."""

import socket
import sys
import time
from collections.abc import Callable
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
STEADY_NS: Final = 10 * SECOND_NS
"""Time after which a wall clock that jumped is believed."""


class NoStartError(Exception):
    """The chain cannot start; the text is the reason."""


class SteadyClock:
    """Unix seconds by a clock that a short jump of the wall clock does not move.

    The time of a block stays in the chain, so one reading of a wrong clock would make all orders
    expire. A new wall clock counts once readings :data:`STEADY_NS` apart agree on it.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        ticks_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._ticks_ns = ticks_ns
        self._ahead_ns = wall_ns() - ticks_ns()
        self._jumped: tuple[int, int] | None = None

    def __call__(self) -> int:
        """Return the time, Unix seconds."""
        ticks_ns = self._ticks_ns()
        ahead_ns = self._wall_ns() - ticks_ns
        if self._is_confirmed(ahead_ns, ticks_ns):
            self._ahead_ns, self._jumped = ahead_ns, None
        return (ticks_ns + self._ahead_ns) // SECOND_NS

    def _is_confirmed(self, ahead_ns: int, ticks_ns: int) -> bool:
        """Return whether the wall clock did not jump, or jumped and has been steady since."""
        if abs(ahead_ns - self._ahead_ns) <= SECOND_NS:
            return True
        if self._jumped is None or abs(ahead_ns - self._jumped[0]) > SECOND_NS:
            self._jumped = ahead_ns, ticks_ns
        return ticks_ns - self._jumped[1] >= STEADY_NS


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
                chain = DevelopmentChain(store, chain_id, SteadyClock())
            except StoreError as error:
                raise NoStartError(f"{folder}: {error}") from error
            except apsw.Error as error:
                text = f"the chain in {folder} is damaged: SQLite error: {error}"
                raise NoStartError(text) from error
            sys.stdout.write(f"listening on http://{HOST}:{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            NodeServer(partial(answer, chain), with_parent=with_parent).run([listener])
