"""The command ``clob-server deploy``: the exchange contract, brought onto a chain of one's own."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clob import RejectedError
from clob.signing import fields
from clob_server.chain.config import OUTBOX_FOLDER, is_address, operator_key, shown
from clob_server.chain.messages import Config, Contracts
from clob_server.cli.exit_codes import DONE, FAILED, UNUSABLE, complain
from clob_server.cli.options import add_options, option_of, read_values
from clob_server.settings import Settings, SettingsError

NEEDED: Final = ("chain", "collateral", "conditional_tokens")
"""The settings without which there is nothing to do."""
NAMES: Final = (
    *NEEDED,
    "data_dir",
    "environment",
    "chain_id",
    "operator_key_file",
    "eip712_name",
    "eip712_version",
    "chain_confirmations",
    "chain_bump_after_s",
)
"""The settings that count, those of the server that is begun afterwards."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``deploy`` to a command line.

    What was chosen stands in ``arguments.act``, a function of the arguments and the environment
    that gives the exit code.
    """
    founding = commands.add_parser(
        "deploy",
        help="deploy the exchange contract, where trades settle",
        description="Deploy the exchange contract on the chain of a node, signed for by the "
        "operator. It goes through the outbox of the data folder, which no server may have "
        "meanwhile: after an interruption the same command goes on, and once it is there, says "
        "where. The address is written to standard output.",
        epilog="Exit code: 0 it is there, 1 it was refused or has failed, 2 it could not be begun.",
    )
    add_options(founding, NAMES)
    founding.add_argument(
        "--owner",
        metavar="ADDRESS",
        help="who may pause the exchange, and name another operator; a wallet that has no other "
        "use (default: the operator)",
    )
    founding.set_defaults(act=deploy)


def deploy(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Do it, and write the address."""
    logging.basicConfig(format="clob-server: %(message)s", level=logging.WARNING)
    # Whoever only serves does not wait for what signs and encodes.
    from clob_server.chain import deploy as deploying  # noqa: PLC0415
    from clob_server.chain.eth.rpc import NodeError  # noqa: PLC0415
    from clob_server.chain.operations.base import RefusalError, StepFailedError  # noqa: PLC0415
    from clob_server.chain.tx.outbox import OutboxError  # noqa: PLC0415
    from clob_server.chain.worker.setup import ForeignChainError  # noqa: PLC0415

    try:
        settings = read(arguments, environ)
        owner = address("owner", arguments.owner) if arguments.owner else ""
        config = Config(
            url=settings.chain,
            chain_id=settings.chain_id,
            operator_key=operator_key(settings),
            addresses=Contracts(
                stablecoin="",
                collateral=address("collateral", settings.collateral),
                conditional_tokens=address("conditional-tokens", settings.conditional_tokens),
            ),
            domain_name=settings.eip712_name,
            domain_version=settings.eip712_version,
            confirmations=settings.chain_confirmations,
            bump_after_s=settings.chain_bump_after_s,
        )
        folder = Path(settings.data_dir) / OUTBOX_FOLDER
        answer = asyncio.run(deploying.deploy(config, folder, owner))
    except (RefusalError, StepFailedError, NodeError) as error:
        return complain(f"{getattr(error, 'code', 'CHAIN_UNAVAILABLE')}: {error}", FAILED)
    except (SettingsError, OutboxError, ForeignChainError, OSError, ValueError) as error:
        return complain(str(error), UNUSABLE)
    except KeyboardInterrupt:
        return complain("interrupted; the same command goes on", FAILED)
    sys.stderr.write(
        f"the exchange is there, by transaction {answer.exchange_tx} on {shown(settings.chain)}; "
        f"begin the server with {option_of('verifying_contract')} {answer.exchange} "
        f"{option_of('chain_from_block')} {answer.block}\n"
    )
    sys.stdout.write(f"{answer.exchange}\n")
    return DONE


def read(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Read the settings that count.

    Raises:
        SettingsError: one is missing, or is not what the setting takes.
    """
    settings = Settings(**read_values(vars(arguments), environ, NAMES))
    missing = [option_of(name) for name in NEEDED if not getattr(settings, name)]
    if missing:
        raise SettingsError(f"an exchange lies over other contracts; missing: {', '.join(missing)}")
    if not is_address(settings.chain):
        raise SettingsError(
            f"--chain must be the http or https address of a node, not {settings.chain!r}"
        )
    return settings


def address(name: str, text: str) -> str:
    """Read an address.

    Raises:
        SettingsError: it is none.
    """
    try:
        return fields.address(name, text)
    except RejectedError as error:
        raise SettingsError(f"--{error}") from None
