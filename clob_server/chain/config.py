"""Which chain the settings choose: its node, its contracts, the operator's key.

What is wrong with the choice is said before the server starts.
"""

import importlib.util
import re
import socket
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from clob import RejectedError
from clob.signing import fields
from clob_server.chain.eth.accounts import DEPLOYER, OPERATOR, create_address
from clob_server.settings import EMBEDDED, NO_CHAIN, Settings, SettingsError


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """The contracts that the server works with, each as EIP-55 writes it."""

    stablecoin: str
    """What the faucet mints, TestDollar: 6 decimals."""
    collateral: str
    """Its wrapped form, WrappedCollateral: 18 decimals."""
    conditional_tokens: str
    """Gnosis' ConditionalTokens, which holds the collateral and issues the outcome tokens."""
    exchange: str = ""
    """Exchange, which settles trades; empty where there is none, or it was not looked at yet."""

    @property
    def needed(self) -> tuple[str, str, str]:
        """Those without which there is nothing: all but the exchange."""
        return self.stablecoin, self.collateral, self.conditional_tokens


def deployed_by(operator: str, first_nonce: int = 0) -> Addresses:
    """Say where they come to lie when one account deploys them, one after the other.

    First ConditionalTokens, then TestDollar, then WrappedCollateral. The exchange is another's.

    Args:
        operator: the address that deploys them.
        first_nonce: its nonce at the first of them.

    Raises:
        InvalidAddressError: the operator is no address.
        ValueError: the nonce is below 0.
    """
    tokens, stablecoin, collateral = (
        create_address(operator, first_nonce + place) for place in range(3)
    )
    return Addresses(stablecoin=stablecoin, collateral=collateral, conditional_tokens=tokens)


DEVELOPMENT: Final = msgspec.structs.replace(
    deployed_by(OPERATOR.address), exchange=create_address(DEPLOYER.address, 0)
)
"""On a fresh development chain, where the operator's first transactions deploy them, and the
exchange the first of the first account."""


DEVELOPMENT_CHAIN: Final = 31337
"""The chain id of development chains, on which the keys that everybody knows are no secret."""
OUTBOX_FOLDER: Final = "chain"
"""Where the outbox lies in the data folder."""
LOOPBACK: Final = "127.0.0.1"
"""Where the embedded chain listens."""
EXTRA: Final = "pip install 'clob[devchain]'"
"""What installs the embedded chain."""
CONTRACTS: Final = ("stablecoin", "collateral", "conditional_tokens")
"""The settings that name contracts."""

PORT_EVERY_S: Final = 0.05
"""How often a port is tried that is taken."""

_KEY: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


def check_chain(settings: Settings) -> None:
    """Refuse settings that name no chain, or none that can be used.

    Raises:
        SettingsError: which, and what is needed.
    """
    source = settings.chain_source
    named = [name for name in CONTRACTS if getattr(settings, name)]
    if source in (NO_CHAIN, EMBEDDED):
        check_own(settings, source, named)
        return
    if not is_address(source):
        raise SettingsError(
            f"--chain must be {NO_CHAIN}, {EMBEDDED} or the http or https address of a node, "
            f"not {source!r}"
        )
    if named and len(named) < len(CONTRACTS):
        raise SettingsError("--stablecoin, --collateral and --conditional-tokens go together")
    if not settings.is_test and not named:
        raise SettingsError(
            "production needs the contracts: --stablecoin, --collateral and --conditional-tokens"
        )
    contracts_of(settings)
    operator_key(settings)


def is_address(source: str) -> bool:
    """Say whether a text is the http or https address of something."""
    try:
        parts = urlsplit(source)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is none
        return False


def check_own(settings: Settings, source: str, named: list[str]) -> None:
    """Refuse what does not go with the embedded chain, or with none."""
    if source == EMBEDDED and not settings.is_test:
        raise SettingsError("--chain embedded is for the test environment")
    given = [*named, *(("operator_key_file",) if settings.operator_key_file else ())]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise SettingsError(f"--chain {source} goes without {options}: name the address of a node")


def contracts_of(settings: Settings) -> Addresses | None:
    """Give the contracts that are known without asking; None where the worker finds them.

    The exchange is not among them: whether it is there, and ours, the worker says.

    Raises:
        SettingsError: one of them is no address.
    """
    if settings.chain_source == EMBEDDED:
        return msgspec.structs.replace(DEVELOPMENT, exchange="")
    if settings.chain_source == NO_CHAIN or not settings.collateral:
        return None
    try:
        named = {name: fields.address(name, getattr(settings, name)) for name in CONTRACTS}
    except RejectedError as error:
        raise SettingsError(f"--{error.path}: {error}".replace("_", "-")) from None
    return Addresses(**named)


def operator_key(settings: Settings) -> str:
    """Give the private key that pays the gas, 0x and hex.

    Raises:
        SettingsError: there is none, or what there is is none.
    """
    if not settings.operator_key_file:
        if settings.is_test and settings.chain_id == DEVELOPMENT_CHAIN:
            return OPERATOR.private_key
        raise SettingsError(
            "--chain with the address of a node needs --operator-key-file, but on chain "
            f"{DEVELOPMENT_CHAIN} of the test environment"
        )
    path = Path(settings.operator_key_file)
    try:
        found = _KEY.fullmatch(path.read_text().strip())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--operator-key-file cannot be read: {error}") from None
    if found is None:
        raise SettingsError(f"--operator-key-file {path} must hold 64 hex digits and nothing else")
    return f"0x{found[1].lower()}"


def operator_of(settings: Settings) -> str | None:
    """Give the address of the operator as far as it is known without its key."""
    own = not settings.operator_key_file and settings.chain_source != NO_CHAIN
    return OPERATOR.address if own else None


def what_is_missing(settings: Settings) -> str:
    """Say what has to be installed for the chain; empty where nothing is missing."""
    if settings.chain_source == EMBEDDED and importlib.util.find_spec("eth") is None:
        return f"the embedded chain is not installed: {EXTRA}"
    return ""


def free_port(wanted: int) -> int:
    """Find a port of loopback for the embedded chain.

    Args:
        wanted: the one to take if it is free; 0 is any.
    """
    for port in (wanted, 0):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                continue
            found: int = listener.getsockname()[1]
            return found
    raise OSError("there is no free port on loopback")


def patient_port(wanted: int, wait_s: float) -> int:
    """Find a port of loopback for the embedded chain, another only where one stays taken.

    Args:
        wanted: the one to take; 0 is any.
        wait_s: how long it may be taken, seconds.
    """
    end_s = time.monotonic() + wait_s
    while (port := free_port(wanted)) != wanted != 0 and time.monotonic() < end_s:
        time.sleep(PORT_EVERY_S)
    return port


def shown(source: str) -> str:
    """Write the address of a node without what may be secret in it: user, path, query."""
    parts = urlsplit(source)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


# MERGED clob_server.chain.config: Where the contracts lie; on a development chain that is known before they are there.
