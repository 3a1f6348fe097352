"""The command ``clob-server wallets``: the accounts that the development chain begins with."""

import argparse
import sys
from collections.abc import Mapping
from typing import Final

import msgspec

from clob_server.chain.eth.accounts import ACCOUNTS, ETHER_WEI, GENESIS_WEI, MNEMONIC
from clob_server.cli.exit_codes import DONE

HOW: Final = f"""
Each owned {GENESIS_WEI // ETHER_WEI} ether when the development chain began, to pay for gas. The
mnemonic is: {MNEMONIC}

To use one in a wallet: add a network with the RPC URL that the server says at its start (usually
http://127.0.0.1:8545) and chain id 31337, and import the private key of a wallet that is free.
For outcome tokens, first ask for test dollars: POST /api/gasless/faucet. The page "Start on the
chain" of the documentation goes through a whole day.

These keys are in every tutorial. Whatever is sent to them on a real network is lost.
"""
"""What is said below the list."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``wallets`` to a command line.

    What was chosen stands in ``arguments.act``, a function of the arguments and the environment
    that gives the exit code.
    """
    listing = commands.add_parser(
        "wallets",
        help="list the test wallets of the development chain",
        description="List the accounts that the development chain begins with: address, private "
        "key, and what the server uses each for.",
    )
    listing.add_argument("--json", action="store_true", help="as JSON, for a program")
    listing.set_defaults(act=list_wallets)


def list_wallets(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print them."""
    sys.stdout.write(as_json() if arguments.json else as_text())
    return DONE


def as_text() -> str:
    """Write them for a person: a line each, and how to use them.

    >>> print(as_text().splitlines()[4].split()[:2])
    ['3', '0x90F79bf6EB2c4f870365E785982E1f101E93b906']
    """
    head = f"{'':2}  {'address':42}  {'private key':66}  used for"
    lines = [
        f"{each.index:2}  {each.address}  {each.private_key}  {each.role}" for each in ACCOUNTS
    ]
    return "\n".join([head, *lines]) + "\n" + HOW


def as_json() -> str:
    """Write them for a program: a list of objects in camelCase.

    >>> msgspec.json.decode(as_json())[9]["role"]
    'operator'
    """
    listed = [
        {
            "index": each.index,
            "address": each.address,
            "privateKey": each.private_key,
            "role": each.role,
        }
        for each in ACCOUNTS
    ]
    return msgspec.json.format(msgspec.json.encode(listed)).decode() + "\n"
