"""The process of the development chain: ``python -m clob_server.chain.devchain FOLDER``."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PORT: Final = 8545
"""Default port, the same as other development chains."""
CHAIN_ID: Final = 31337
"""Default chain id, the same as other development chains."""
CHAIN_ID_END: Final = 2**53
"""First invalid chain id: JSON numbers are exact below it."""
PORT_END: Final = 2**16
UNUSABLE: Final = 2
"""Exit code if the chain cannot start."""
MISSING: Final = "the development chain needs py-evm: pip install 'clob[devchain]'"
"""Message if the extra is not installed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments after its name; None means ``sys.argv``.

    Returns:
        0 after a clean stop, 2 if the chain could not start.
    """
    arguments = parser().parse_args(argv)
    if find_spec("eth") is None:
        sys.stderr.write(f"clob-devchain: {MISSING}\n")
        return UNUSABLE

    # py-evm is optional, and slow to load.
    from clob_server.chain.devchain.node import NoStartError, run  # noqa: PLC0415

    try:
        run(**vars(arguments))
    except NoStartError as error:
        sys.stderr.write(f"clob-devchain: {error}\n")
        return UNUSABLE
    return 0


def parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    described = argparse.ArgumentParser(
        prog="python -m clob_server.chain.devchain",
        description="An Ethereum chain for development, on loopback. It mines one block per "
        "transaction and stores everything in a folder.",
        epilog="Exit code: 0 after a clean stop, 2 the chain could not start.",
    )
    described.add_argument("folder", type=Path, metavar="FOLDER", help="the chain's data folder")
    described.add_argument(
        "--port",
        type=partial(number, 0, PORT_END),
        default=PORT,
        help="the port; 0 for any free port (default: %(default)s)",
    )
    described.add_argument(
        "--chain-id",
        type=partial(number, 1, CHAIN_ID_END),
        default=CHAIN_ID,
        metavar="ID",
        help="the chain id of transactions (default: %(default)s)",
    )
    described.add_argument(
        "--with-parent", action="store_true", help="stop when standard input ends"
    )
    return described


def number(first: int, end: int, text: str) -> int:
    """Parse a number in a range."""
    if text.isascii() and text.isdigit() and first <= (value := int(text)) < end:
        return value
    raise argparse.ArgumentTypeError(f"expected a number from {first} to {end - 1}; got {text!r}")


if __name__ == "__main__":
    sys.exit(main())
