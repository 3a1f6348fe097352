"""Chain configuration from the settings: node, contracts and the operator's key.

:func:`check_chain` rejects an invalid configuration before the server starts.
"""

import importlib.util
import re
import shutil
import socket
import time
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from clob import RejectedError
from clob.signing import fields
from clob_server.chain.eth.accounts import DEPLOYER, OPERATOR, create_address
from clob_server.log.files import check_private
from clob_server.settings import ANVIL, EMBEDDED, NO_CHAIN, Settings, SettingsError


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of the contracts that the server uses, EIP-55."""

    stablecoin: str
    """TestDollar, minted by the faucet; 6 decimals."""
    collateral: str
    """WrappedCollateral, the wrapped stablecoin; 18 decimals."""
    conditional_tokens: str
    """ConditionalTokens (Gnosis), which locks collateral and issues outcome tokens."""
    exchange: str = ""
    """Exchange, which settles trades; empty without one, or before it was checked."""

    @property
    def required(self) -> tuple[str, str, str]:
        """All addresses but the exchange, which is optional."""
        return self.stablecoin, self.collateral, self.conditional_tokens


def deployed_by(operator: str, first_nonce: int = 0) -> Addresses:
    """Compute the addresses if one account deploys the contracts with consecutive nonces.

    The order is ConditionalTokens, TestDollar, WrappedCollateral. The exchange is not included.
    """
    tokens, stablecoin, collateral = (
        create_address(operator, first_nonce + place) for place in range(3)
    )
    return Addresses(stablecoin=stablecoin, collateral=collateral, conditional_tokens=tokens)


DEVELOPMENT: Final = msgspec.structs.replace(
    deployed_by(OPERATOR.address), exchange=create_address(DEPLOYER.address, 0)
)
"""Addresses on a fresh development chain: the operator's first transactions deploy the contracts,
the first transaction of account 0 deploys the exchange."""


DEVELOPMENT_CHAIN: Final = 31337
"""Chain id of development chains, where the accounts with published keys may be used."""
GWEI: Final = 10**9
"""Wei in one gwei, the unit in which fees are quoted."""
OUTBOX_FOLDER: Final = "chain"
"""Folder of the outbox within the data folder."""
LOOPBACK: Final = "127.0.0.1"
"""Address on which the embedded chain listens."""
NODE_FOLDERS: Final = {EMBEDDED: "devchain", ANVIL: "anvil"}
"""Folder of each embedded node within the data folder."""
EXTRA: Final = "pip install 'clob[devchain]'"
"""Command that installs the embedded chain."""
OPERATOR_SETTINGS: Final = (
    "operator_key_file",
    "operator_key",
    "operator_signer",
    "operator_address",
)
"""Settings of the signer of the operator's transactions."""
ORACLE_SETTINGS: Final = ("oracle_key_file", "oracle_key", "oracle_signer", "oracle_address")
"""The same for those of the oracle, if it has a key of its own."""
NODE_SETTINGS: Final = ("chain_nodes", "chain_quorum")
"""Settings about several nodes."""
CONTRACTS: Final = ("stablecoin", "collateral", "conditional_tokens")
"""Settings that hold contract addresses."""
KEY_MODE_OF_ROOT: Final = 0o640
"""Widest mode of a key file that belongs to root, which a service can read only as the file's
group. The rule is that of PostgreSQL for private keys; container secrets fulfil it."""

PORT_EVERY_S: Final = 0.05
"""Seconds between attempts to bind a used port."""

_KEY: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class EmbeddedNode(NamedTuple):
    """The program of the embedded chain."""

    kind: str
    """``embedded`` for py-evm, or ``anvil``."""
    folder: Path
    """Its folder within the data folder."""
    path: str = ""
    """Path of anvil; empty for py-evm, or without one."""


def embedded_node(settings: Settings) -> EmbeddedNode:
    """Return the node of the embedded chain: the given one, or that of the data folder.

    A folder stays with the node that it began with: the other one would start an empty chain, on
    which no wallet has the balances that the server's log knows.

    Raises:
        SettingsError: the folder began with another node.
    """
    folders = {kind: Path(settings.data_dir) / name for kind, name in NODE_FOLDERS.items()}
    wanted = settings.chain_node
    path = shutil.which(ANVIL if wanted in ("", EMBEDDED) else wanted) or ""
    began = next((kind for kind, folder in folders.items() if has_files(folder)), "")
    kind = EMBEDDED if wanted == EMBEDDED else ANVIL
    if not wanted:
        kind = began or (ANVIL if path else EMBEDDED)
    if began and kind != began:
        raise SettingsError(
            f"--chain-node must be {began}, with which the chain of {settings.data_dir} began, or "
            f"--data-dir another folder; got {wanted!r}"
        )
    return EmbeddedNode(kind, folders[kind], path if kind == ANVIL else "")


def has_files(folder: Path) -> bool:
    """Return whether a folder exists and is not empty."""
    return folder.is_dir() and any(folder.iterdir())


def check_chain(settings: Settings) -> None:
    """Reject settings without a usable chain.

    Raises:
        SettingsError: the option and the expected value.
    """
    if settings.chain_tip_gwei > settings.chain_fee_max_gwei:
        raise SettingsError(
            f"--chain-tip-gwei must be at most --chain-fee-max-gwei "
            f"({settings.chain_fee_max_gwei:g}); got {settings.chain_tip_gwei:g}"
        )
    if settings.faucet_daily_units < settings.faucet_units:
        raise SettingsError(
            f"--faucet-daily-units must be at least --faucet-units ({settings.faucet_units}); "
            f"got {settings.faucet_daily_units}"
        )
    source = settings.chain_source
    contracts = [name for name in CONTRACTS if getattr(settings, name)]
    if source in (NO_CHAIN, EMBEDDED):
        _check_without_node(settings, source, contracts)
        return
    if not is_url(source):
        raise SettingsError(
            f"--chain must be {NO_CHAIN}, {EMBEDDED} or the http or https URL of a node; "
            f"got {source!r}"
        )
    _check_nodes(settings)
    if contracts and len(contracts) < len(CONTRACTS):
        raise SettingsError(
            "--stablecoin, --collateral and --conditional-tokens must be set together"
        )
    if not settings.is_test and not contracts:
        raise SettingsError(
            "--chain with the URL of a node in production needs --stablecoin, --collateral "
            "and --conditional-tokens"
        )
    contracts_of(settings)
    operator_access(settings)
    oracle_access(settings)


def _check_nodes(settings: Settings) -> None:
    """Reject more nodes that no client can use, or that are given twice, and a wrong quorum."""
    urls = (settings.chain_source, *settings.chain_nodes)
    for place, url in enumerate(urls):
        if not is_url(url):
            raise SettingsError(
                f"--chain-nodes must be http or https URLs separated by commas; got {url!r}"
            )
        if url in urls[:place]:
            raise SettingsError(
                f"--chain and --chain-nodes must differ; got {redacted_url(url)} twice"
            )
    if settings.chain_quorum > len(urls):
        raise SettingsError(
            f"--chain-quorum must be at most {len(urls)}, the number of nodes; "
            f"got {settings.chain_quorum}"
        )


def quorum(settings: Settings) -> int:
    """Return how many nodes must agree."""
    return settings.chain_quorum or (len(settings.chain_nodes) + 1) // 2 + 1


def is_url(source: str) -> bool:
    """Return whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(source)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        return False


def _check_without_node(settings: Settings, source: str, contracts: list[str]) -> None:
    """Reject options that need the address of a node."""
    if source == EMBEDDED and not settings.is_test:
        raise SettingsError("--chain embedded is available in the test environment only")
    others = (*OPERATOR_SETTINGS, *ORACLE_SETTINGS, *NODE_SETTINGS)
    names = [*contracts, *(name for name in others if getattr(settings, name))]
    if source == EMBEDDED:
        embedded_node(settings)
    if names:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise SettingsError(
            f"{options} cannot be used with --chain {source}; set --chain to the URL of a node"
        )


def contracts_of(settings: Settings) -> Addresses | None:
    """Return the addresses in the settings, None if the worker has to find the contracts.

    The exchange is not included: the worker reports it once it has checked it.

    Raises:
        SettingsError: a setting is not an address.
    """
    if settings.chain_source == EMBEDDED:
        return msgspec.structs.replace(DEVELOPMENT, exchange="")
    if settings.chain_source == NO_CHAIN or not settings.collateral:
        return None
    try:
        addresses = {name: fields.address(name, getattr(settings, name)) for name in CONTRACTS}
    except RejectedError as error:
        raise SettingsError(f"--{error.path}: {error}".replace("_", "-")) from None
    return Addresses(**addresses)


class KeyAccess(NamedTuple):
    """How the worker signs as the operator or as the oracle."""

    key: str = ""
    """Private key, ``0x`` and hex; empty with a signer."""
    signer_url: str = ""
    """URL of the signer that holds the key; empty with a key."""
    address: str = ""
    """Address of the account, EIP-55, with a signer."""


def operator_access(settings: Settings) -> KeyAccess:
    """Return the operator's key, or the signer that holds it.

    Raises:
        SettingsError: none of them is given, or several; the key or the address is invalid, or
            other users may use the file of the key.
    """
    return _signer_access(settings, "operator") or KeyAccess(key=operator_key(settings))


def oracle_access(settings: Settings) -> KeyAccess:
    """Return the oracle's key, or the signer that holds it; empty if the operator is the oracle.

    Raises:
        SettingsError: several of them are given; the key or the address is invalid, or other users
            may use the file of the key.
    """
    return _signer_access(settings, "oracle") or KeyAccess(key=_given_key(settings, "oracle"))


def _signer_access(settings: Settings, role: str) -> KeyAccess | None:
    """Return the signer that holds the key of a role; None if a key is expected."""
    names = [f"{role}_{name}" for name in ("key_file", "key", "signer")]
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(settings, name)]
    if len(given) > 1:
        raise SettingsError(f"{given[0]} cannot be used with {given[1]}")
    url: str = getattr(settings, f"{role}_signer")
    if not url:
        if getattr(settings, f"{role}_address"):
            raise SettingsError(f"--{role}-address can only be used with --{role}-signer")
        return None
    if not is_url(url):
        raise SettingsError(
            f"--{role}-signer must be the http or https URL of a signer; got {url!r}"
        )
    return KeyAccess(signer_url=url, address=_signer_address(settings, role))


def _signer_address(settings: Settings, role: str) -> str:
    """Return the address of an account whose key a signer holds, EIP-55."""
    address: str = getattr(settings, f"{role}_address")
    if not address:
        raise SettingsError(f"--{role}-signer needs --{role}-address")
    return read_address(f"--{role}-address", address)


def read_address(option: str, text: str) -> str:
    """Return the address of an option with its checksum, EIP-55.

    Raises:
        SettingsError: it is not an address.
    """
    try:
        return fields.address(option, text)
    except RejectedError as error:
        raise SettingsError(str(error)) from None


def operator_key(settings: Settings) -> str:
    """Return the private key that signs and pays for transactions, ``0x`` and hex.

    Raises:
        SettingsError: the key is missing or invalid, or other users may use its file.
    """
    key = _given_key(settings, "operator")
    if key:
        return key
    if settings.is_test and settings.chain_id == DEVELOPMENT_CHAIN:
        return OPERATOR.private_key
    raise SettingsError(
        "--chain with the URL of a node needs --operator-key-file, CLOB_OPERATOR_KEY or "
        f"--operator-signer, except on chain {DEVELOPMENT_CHAIN} of the test environment"
    )


def _given_key(settings: Settings, role: str) -> str:
    """Return the private key of a role, ``0x`` and hex; empty without one."""
    file, key = getattr(settings, f"{role}_key_file"), getattr(settings, f"{role}_key")
    if file:
        return read_key(Path(file), f"--{role}-key-file")
    return key_in(key, f"--{role}-key") if key else ""


def read_key(path: Path, option: str) -> str:
    """Read a private key, ``0x`` and hex, from a file that an option names.

    Raises:
        SettingsError: the file cannot be read, other users may use it, or it holds something else.
    """
    try:
        check_private(path, mode_of_root=KEY_MODE_OF_ROOT)
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{option} cannot be read: {error}") from None
    return key_in(text.strip(), f"{option} {path}")


def key_in(text: str, source: str) -> str:
    """Return a private key, ``0x`` and hex, from its text.

    Raises:
        SettingsError: it is something else, which the message does not show.
    """
    match = _KEY.fullmatch(text)
    if match is None:
        raise SettingsError(f"{source} must hold 64 hex digits and nothing else")
    return f"0x{match[1].lower()}"


def operator_of(settings: Settings) -> str | None:
    """Return the operator's address if it is known without reading its key."""
    if settings.operator_signer:
        return _signer_address(settings, "operator")
    has_key = settings.operator_key_file or settings.operator_key
    is_known = not has_key and settings.chain_source != NO_CHAIN
    return OPERATOR.address if is_known else None


def oracle_of(settings: Settings) -> str | None:
    """Return the oracle's address if it is known without reading its key."""
    if settings.oracle_signer:
        return _signer_address(settings, "oracle")
    has_key = settings.oracle_key_file or settings.oracle_key
    return None if has_key else operator_of(settings)


def missing_package(settings: Settings) -> str:
    """Return a message if a program for the chain is not installed, else an empty text."""
    if settings.chain_source != EMBEDDED:
        return ""
    node = embedded_node(settings)
    if node.kind == ANVIL and not node.path:
        return f"anvil was not found: {settings.chain_node or ANVIL}"
    if node.kind == EMBEDDED and importlib.util.find_spec("eth") is None:
        return f"the embedded chain is not installed: {EXTRA}"
    return ""


def wei_of(gwei: float) -> str:
    """Return an amount of gwei in wei, in decimal digits."""
    return str(round(gwei * GWEI))


def free_port(wanted: int) -> int:
    """Return a loopback port: the wanted one if it is free, else another; 0 for any."""
    for candidate in (wanted, 0):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, candidate))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    raise OSError("no free loopback port")


def wait_for_port(wanted: int, wait_s: float) -> int:
    """Like :func:`free_port`, but wait until the wanted port becomes free, at most ``wait_s``."""
    end_s = time.monotonic() + wait_s
    while (port := free_port(wanted)) != wanted != 0 and time.monotonic() < end_s:
        time.sleep(PORT_EVERY_S)
    return port


FINAL_BLOCKS: Final = 64
"""Confirmations that make a block final if the node has no ``finalized`` block."""


def final_blocks(settings: Settings) -> int:
    """Return the blocks that make a block final, its own included; 0 asks the node."""
    if settings.chain_source == EMBEDDED:
        return settings.chain_confirmations
    if not settings.chain_final_blocks and settings.chain_id == DEVELOPMENT_CHAIN:
        return settings.chain_confirmations  # it has no blocks without transactions
    return settings.chain_final_blocks


def redacted_url(url: str) -> str:
    """Return the URL of a node without credentials, path and query, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
