"""The process of the development chain: ``python -m clob_server.chain.devchain FOLDER``."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import apsw
from eth import EVM_RECURSION_LIMIT

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.server import HOST, NodeServer, answer, bind
from clob_server.chain.devchain.state import ChainStore, StoreError

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
            store = ChainStore(folder)
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
            NodeServer(partial(answer, chain)).serve_until_told(listener, with_parent=with_parent)


PORT: Final = 8545
"""Where it listens unless told otherwise, as other development chains."""
CHAIN_ID: Final = 31337
"""The id of the chain unless told otherwise, as other development chains."""
CHAIN_ID_END: Final = 2**53
"""The first id that is refused, so that every program reads the same number."""
PORT_END: Final = 2**16
"""The first number that is no port."""
UNUSABLE: Final = 2
"""The exit code of a chain that cannot begin."""
MISSING: Final = "the development chain needs py-evm: pip install 'clob[devchain]'"
"""What is said where the extra is not installed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chain until it is told to end.

    Args:
        argv: the arguments without the command's own name; None takes those of the process.

    Returns:
        The exit code: 0 after a clean end, 2 where the chain could not begin.
    """
    arguments = parser().parse_args(argv)
    if find_spec("eth") is None:
        sys.stderr.write(f"clob-devchain: {MISSING}\n")
        return UNUSABLE

    try:
        run(
            arguments.folder,
            port=arguments.port,
            chain_id=arguments.chain_id,
            with_parent=arguments.with_parent,
        )
    except NoStartError as error:
        sys.stderr.write(f"clob-devchain: {error}\n")
        return UNUSABLE
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    described = argparse.ArgumentParser(
        prog="python -m clob_server.chain.devchain",
        description="An Ethereum chain for development, on loopback. It mines a block for each "
        "transaction, and keeps everything in a folder.",
        epilog="Exit code: 0 after a clean end, 2 the chain could not begin.",
    )
    described.add_argument("folder", type=Path, metavar="FOLDER", help="where the chain is kept")
    described.add_argument(
        "--port",
        type=port,
        default=PORT,
        help="the port; 0 is any that is free (default: %(default)s)",
    )
    described.add_argument(
        "--chain-id",
        type=chain_id,
        default=CHAIN_ID,
        metavar="ID",
        help="the id that transactions are signed for (default: %(default)s)",
    )
    described.add_argument(
        "--with-parent", action="store_true", help="end when standard input does"
    )
    return described


def port(text: str) -> int:
    """Read a port."""
    return number(text, 0, PORT_END)


def chain_id(text: str) -> int:
    """Read the id of a chain."""
    return number(text, 1, CHAIN_ID_END)


def number(text: str, first: int, end: int) -> int:
    """Read a number of a range."""
    if text.isascii() and text.isdigit() and first <= (found := int(text)) < end:
        return found
    raise argparse.ArgumentTypeError(f"a number from {first} to {end - 1}, not {text!r}")


if __name__ == "__main__":
    sys.exit(main())

# MERGED clob_server.chain.devchain.__main__: The chain as a process: from its folder to its end.
