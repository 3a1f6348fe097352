"""``clob-server wallets``: lists the initial accounts of the development chain."""

import argparse
from collections.abc import Mapping
from typing import Final

import msgspec

from clob.program import print_text
from clob_server.chain.eth.accounts import ACCOUNTS, ETHER_WEI, GENESIS_WEI, MNEMONIC
from clob_server.cli.exit_codes import DONE

HOW: Final = f"""
Each account starts with {GENESIS_WEI // ETHER_WEI} ether for gas. The mnemonic is:
{MNEMONIC}

To use an account in a wallet: add a network with the RPC URL that the server prints when it starts
(usually http://127.0.0.1:8545) and chain id 31337, then import the private key of an unused
account. To get outcome tokens, first request test collateral: POST /api/gasless/faucet. The
documentation page "Start on the chain" shows every step.

These keys are public. Anything sent to them on a real network is lost.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``wallets``; ``arguments.act`` runs it and returns the exit code."""
    listing = commands.add_parser(
        "wallets",
        help="list the test wallets of the development chain",
        description="List the initial accounts of the development chain: address, private key and "
        "the server's use of each.",
    )
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(act=list_wallets)


def list_wallets(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the accounts."""
    print_text(as_json() if arguments.json else as_text())
    return DONE


def as_text() -> str:
    """Format the accounts as a table with instructions.

    >>> print(as_text().splitlines()[4].split()[:2])
    ['3', '0x90F79bf6EB2c4f870365E785982E1f101E93b906']
    """
    head = f"{'':2}  {'address':42}  {'private key':66}  used for"
    lines = [f"{a.index:2}  {a.address}  {a.private_key}  {a.role}" for a in ACCOUNTS]
    return "\n".join([head, *lines]) + "\n" + HOW


def as_json() -> str:
    """Format the accounts as a JSON list of objects.

    >>> msgspec.json.decode(as_json())[9]["role"]
    'operator'
    """
    listed = [
        {"index": a.index, "address": a.address, "privateKey": a.private_key, "role": a.role}
        for a in ACCOUNTS
    ]
    return msgspec.json.format(msgspec.json.encode(listed)).decode() + "\n"
