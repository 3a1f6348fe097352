"""``clob-server deploy``: deploys the exchange contract on a chain."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clob.program import print_text
from clob_server.chain.config import (
    OPERATOR_SETTINGS,
    OUTBOX_FOLDER,
    Addresses,
    is_url,
    operator_access,
    read_address,
    redacted_url,
    wei_of,
)
from clob_server.chain.messages import Config
from clob_server.cli.exit_codes import DONE, FAILED, UNUSABLE, complain
from clob_server.cli.options import add_options, option_of, read_values
from clob_server.settings import Settings, SettingsError

if TYPE_CHECKING:
    from clob_server.chain.operations.deploy import ExchangeRoles

NEEDED: Final = ("chain", "collateral", "conditional_tokens")
"""Required settings."""
NAMES: Final = (
    *NEEDED, "data_dir", "environment", "chain_id", *OPERATOR_SETTINGS, "eip712_name",
    "eip712_version", "chain_confirmations", "chain_bump_after_s", "chain_fee_max_gwei",
    "chain_tip_gwei",
)  # fmt: skip
"""Settings that apply, the same as for the server that is started afterwards."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``deploy``; ``arguments.act`` runs it and returns the exit code."""
    parser = commands.add_parser(
        "deploy",
        help="deploy the exchange contract that settles trades",
        description="Deploy the exchange contract, signed with the operator's key. The transaction "
        "is kept in the outbox of the data folder, which no server may be using: after an "
        "interruption the same command continues, and after a deployment it prints the known "
        "address. The address is written to standard output.",
        epilog="Exit code: 0 deployed, 1 rejected or failed, 2 could not start. With --plan: 0 the "
        "deployment would start, 1 it would be rejected.",
    )
    add_options(parser, NAMES)
    parser.add_argument(
        "--owner",
        metavar="ADDRESS",
        help="the wallet that may pause the exchange and appoint another operator; best one "
        "without other use (default: the operator)",
    )
    parser.add_argument(
        "--fee-wallet", metavar="ADDRESS", help="the wallet that gets fees (default: the operator)"
    )
    parser.add_argument(
        "--pauser",
        metavar="ADDRESS",
        help="a wallet that may pause the exchange besides its owner (default: the operator)",
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print the transaction, its cost, the contracts and the balance, and send nothing",
    )
    parser.set_defaults(act=deploy)


def deploy(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Deploy and print the address, or print the plan."""
    logging.basicConfig(format="clob-server: %(message)s", level=logging.WARNING)
    # Signing and encoding load slowly; the server does not need them.
    from clob_server.chain import deploy as deploying  # noqa: PLC0415
    from clob_server.chain import deploy_plan as planning  # noqa: PLC0415
    from clob_server.chain.eth.rpc import NodeError  # noqa: PLC0415
    from clob_server.chain.operations.base import (  # noqa: PLC0415
        OperationRejectedError,
        StepFailedError,
    )
    from clob_server.chain.tx.outbox import OutboxError  # noqa: PLC0415
    from clob_server.chain.tx.signer import SignerError  # noqa: PLC0415
    from clob_server.chain.worker.setup import ForeignChainError  # noqa: PLC0415

    try:
        settings = read(arguments, environ)
        roles = read_roles(arguments)
        access = operator_access(settings)
        config = Config(
            url=settings.chain,
            chain_id=settings.chain_id,
            operator_key=access.key,
            signer_url=access.signer_url,
            operator=access.address,
            addresses=Addresses(
                stablecoin="",
                collateral=read_address("--collateral", settings.collateral),
                conditional_tokens=read_address(
                    "--conditional-tokens", settings.conditional_tokens
                ),
            ),
            domain_name=settings.eip712_name,
            domain_version=settings.eip712_version,
            confirmations=settings.chain_confirmations,
            bump_after_s=settings.chain_bump_after_s,
            fee_max_wei=wei_of(settings.chain_fee_max_gwei),
            tip_wei=wei_of(settings.chain_tip_gwei),
        )
        folder = Path(settings.data_dir) / OUTBOX_FOLDER
        if arguments.plan:
            plan = asyncio.run(planning.plan_deployment(config, folder, roles))
            print_text(planning.as_text(plan, redacted_url(settings.chain)))
            return FAILED if plan.problem else DONE
        answer = asyncio.run(deploying.deploy(config, folder, roles))
    except (OperationRejectedError, StepFailedError, NodeError, SignerError) as error:
        return complain(f"{getattr(error, 'code', 'CHAIN_UNAVAILABLE')}: {error}", FAILED)
    except (SettingsError, OutboxError, ForeignChainError, OSError, ValueError) as error:
        return complain(str(error), UNUSABLE)
    except KeyboardInterrupt:
        return complain("interrupted; run the same command to continue", FAILED)
    sys.stderr.write(
        f"exchange deployed by transaction {answer.exchange_tx} on {redacted_url(settings.chain)}; "
        f"start the server with {option_of('verifying_contract')} {answer.exchange} "
        f"{option_of('chain_from_block')} {answer.block}\n"
    )
    print_text(f"{answer.exchange}\n")
    return DONE


def read_roles(arguments: argparse.Namespace) -> "ExchangeRoles":
    """Read the addresses with a role in the exchange."""
    from clob_server.chain.operations.deploy import ExchangeRoles  # noqa: PLC0415

    names = [(role, f"--{role.replace('_', '-')}") for role in ExchangeRoles._fields]
    given = {role: (option, getattr(arguments, role)) for role, option in names}
    return ExchangeRoles(
        **{role: read_address(*pair) for role, pair in given.items() if pair[1] is not None}
    )


def read(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Read the settings that apply."""
    values = read_values(vars(arguments), environ, NAMES)
    settings = Settings(**values)
    if "data_dir" not in values and not Path(settings.data_dir).is_dir():
        raise SettingsError(
            f"--data-dir must name a data folder: the default, {settings.data_dir}, does not exist"
        )
    missing = [option_of(name) for name in NEEDED if not getattr(settings, name)]
    if missing:
        rule = "the exchange needs the addresses of other contracts"
        raise SettingsError(f"{rule}; missing: {', '.join(missing)}")
    if not is_url(settings.chain):
        rule = "--chain must be the http or https URL of a node"
        raise SettingsError(f"{rule}; got {settings.chain!r}")
    return settings
