"""``clob-server deploy``: deploys the exchange contract and its collateral on a chain."""

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
    ORACLE_SETTINGS,
    OUTBOX_FOLDER,
    Addresses,
    is_url,
    operator_access,
    oracle_access,
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

DECIMALS_MAX: Final = 18
"""Most decimals of a stablecoin."""
NEEDED: Final = ("chain", "conditional_tokens")
"""Required settings, besides the collateral or the stablecoin."""
NAMES: Final = (
    *NEEDED, "stablecoin", "collateral", "data_dir", "environment", "chain_id", *OPERATOR_SETTINGS,
    *ORACLE_SETTINGS, "eip712_name", "eip712_version", "chain_confirmations", "chain_bump_after_s",
    "chain_fee_max_gwei", "chain_tip_gwei",
)  # fmt: skip
"""Settings that apply, the same as for the server that is started afterwards."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``deploy``; ``arguments.act`` runs it and returns the exit code."""
    parser = commands.add_parser(
        "deploy",
        help="deploy the exchange contract that settles trades, and its collateral",
        description="Deploy the exchange contract, signed with the operator's key. With a "
        "stablecoin and no collateral, the collateral that wraps it is deployed first; with both, "
        "they are compared, and the operator's missing approvals are sent. The transactions are "
        "kept in the outbox of the data folder, which no server may be using: after an "
        "interruption the same command continues, and after a deployment it prints the known "
        "address. The address of the exchange is written to standard output.",
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
        "--stablecoin-decimals",
        type=decimals,
        metavar="N",
        help="decimals that the stablecoin must have, from 0 to 18; required to deploy collateral",
    )
    for name, example in (("name", "Wrapped USD Coin"), ("symbol", "wUSDC")):
        parser.add_argument(
            f"--collateral-{name}",
            metavar="TEXT",
            default="",
            help=f"{name} of the collateral to deploy (default: after that of the stablecoin, such "
            f"as {example})",
        )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print the transactions, their cost, the contracts and the balance, and send nothing",
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
    from clob_server.chain.operations.collateral import DeployCollateralBody  # noqa: PLC0415
    from clob_server.chain.tx.outbox import OutboxError  # noqa: PLC0415
    from clob_server.chain.tx.signer import SignerError  # noqa: PLC0415
    from clob_server.chain.worker.setup import ForeignChainError  # noqa: PLC0415

    try:
        settings = read(arguments, environ)
        roles = read_roles(arguments)
        config = config_of(settings)
        folder = Path(settings.data_dir) / OUTBOX_FOLDER
        wrapper = None
        if config.addresses is not None and config.addresses.stablecoin:
            wrapper = DeployCollateralBody(
                stablecoin=config.addresses.stablecoin,
                decimals=arguments.stablecoin_decimals,
                collateral=config.addresses.collateral,
                name=arguments.collateral_name,
                symbol=arguments.collateral_symbol,
                conditional_tokens=config.addresses.conditional_tokens,
            )
        if arguments.plan:
            plan = asyncio.run(planning.plan_deployment(config, folder, roles, wrapper))
            print_text(planning.as_text(plan, redacted_url(settings.chain)))
            return FAILED if plan.problem else DONE
        answer, collateral = asyncio.run(deploying.deploy(config, folder, roles, wrapper))
    except (OperationRejectedError, StepFailedError, NodeError, SignerError) as error:
        return complain(f"{getattr(error, 'code', 'CHAIN_UNAVAILABLE')}: {error}", FAILED)
    except (SettingsError, OutboxError, ForeignChainError, OSError, ValueError) as error:
        return complain(str(error), UNUSABLE)
    except KeyboardInterrupt:
        return complain("interrupted; run the same command to continue", FAILED)
    if not settings.collateral:
        sys.stderr.write(
            f"collateral deployed; start the server with {option_of('collateral')} {collateral}\n"
        )
    sys.stderr.write(
        f"exchange deployed by transaction {answer.exchange_tx} on {redacted_url(settings.chain)}; "
        f"start the server with {option_of('verifying_contract')} {answer.exchange} "
        f"{option_of('chain_from_block')} {answer.block}\n"
    )
    print_text(f"{answer.exchange}\n")
    return DONE


def config_of(settings: Settings) -> Config:
    """Return the config of the deployment.

    Raises:
        SettingsError: a key or an address is missing or invalid.
    """
    access, oracle = operator_access(settings), oracle_access(settings)
    return Config(
        url=settings.chain,
        chain_id=settings.chain_id,
        operator_key=access.key,
        signer_url=access.signer_url,
        operator=access.address,
        oracle_key=oracle.key,
        oracle_signer_url=oracle.signer_url,
        oracle=oracle.address,
        addresses=Addresses(
            stablecoin=address_of(settings, "stablecoin"),
            collateral=address_of(settings, "collateral"),
            conditional_tokens=address_of(settings, "conditional_tokens"),
        ),
        domain_name=settings.eip712_name,
        domain_version=settings.eip712_version,
        confirmations=settings.chain_confirmations,
        bump_after_s=settings.chain_bump_after_s,
        fee_max_wei=wei_of(settings.chain_fee_max_gwei),
        tip_wei=wei_of(settings.chain_tip_gwei),
    )


def read_roles(arguments: argparse.Namespace) -> "ExchangeRoles":
    """Read the addresses with a role in the exchange."""
    from clob_server.chain.operations.deploy import ExchangeRoles  # noqa: PLC0415

    names = [(role, f"--{role.replace('_', '-')}") for role in ExchangeRoles._fields]
    given = {role: (option, getattr(arguments, role)) for role, option in names}
    return ExchangeRoles(
        **{role: read_address(*pair) for role, pair in given.items() if pair[1] is not None}
    )


def decimals(text: str) -> int:
    """Parse the decimals of a stablecoin."""
    if text.isascii() and text.isdigit() and int(text) <= DECIMALS_MAX:
        return int(text)
    rule = f"expected a number from 0 to {DECIMALS_MAX}; got {text!r}"
    raise argparse.ArgumentTypeError(rule)


def address_of(settings: Settings, name: str) -> str:
    """Return the address in a setting, EIP-55; empty without one."""
    text = getattr(settings, name)
    return read_address(option_of(name), text) if text else ""


def read(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Read the settings that apply."""
    values = read_values(vars(arguments), environ, NAMES)
    settings = Settings(**values)
    if "data_dir" not in values and not Path(settings.data_dir).is_dir():
        raise SettingsError(
            f"--data-dir must name a data folder: the default, {settings.data_dir}, does not exist"
        )
    missing = [option_of(name) for name in NEEDED if not getattr(settings, name)]
    if not settings.collateral:
        if settings.stablecoin and arguments.stablecoin_decimals is None:
            missing.append("--stablecoin-decimals")
        elif not settings.stablecoin:
            missing.insert(0, f"{option_of('collateral')} or {option_of('stablecoin')}")
    if missing:
        rule = "the exchange needs the addresses of other contracts"
        raise SettingsError(f"{rule}; missing: {', '.join(missing)}")
    if not is_url(settings.chain):
        rule = "--chain must be the http or https URL of a node"
        raise SettingsError(f"{rule}; got {settings.chain!r}")
    return settings
