"""Settings from the command line and the environment, and their validation.

Every field of :class:`~clob_server.settings.Settings` is an option: ``trades_kept`` is
``--trades-kept`` and ``CLOB_TRADES_KEPT``. Values of a list are separated by commas; a switch is
``on`` or ``off``.
"""

import argparse
import difflib
import ipaddress
import socket
from collections.abc import Collection, Iterable, Mapping
from os.path import expanduser
from pathlib import Path
from typing import Any, Final, get_type_hints

from clob.signing import InvalidDomainError
from clob_server.api.docstrings import field_texts
from clob_server.auth.sites import check_sites
from clob_server.auth.tokens import public_key
from clob_server.chain.config import check_chain, is_url, read_address
from clob_server.core.registry import DAY_UNITS
from clob_server.dialects.polymarket.wallets import check_dialect, defaults
from clob_server.settings import (
    ANVIL,
    AUTO,
    EMBEDDED,
    FOLLOWER,
    NO_CHAIN,
    NO_DIALECT,
    POLYMARKET,
    PRODUCTION,
    SECRET_BYTES_MIN,
    TEST,
    Settings,
    SettingsError,
)
from clob_server.transport.config import HEADERS_MIN

PREFIX: Final = "CLOB_"
"""Prefix of environment variables."""
DEMO_DIR: Final = "clob-demo"
"""Default data folder of the demo."""
NATS: Final = "nats://"
"""Beginning of the URL of a server of the replicated log."""
NUMBER_MAX: Final = 2**62
"""Largest number for settings without a lower limit."""

_MAY_BE_0: Final = {
    "port", "node_port", "chain_port", "chain_quorum", "chain_from_block", "chain_final_blocks",
    "maker_cool_down_s", "history_days", "connections_per_address_max", "drain_s", "chain_tip_gwei",
}  # fmt: skip
_LEAST: Final = {"headers_max_bytes": HEADERS_MIN}
_MOST: Final = {
    "port": 65_535,
    "workers": 64,
    "log_replicas": 5,
    "node_count": 64,
    "node_port": 65_535,
    "chain_port": 65_535,
    "headers_max_bytes": 2**20,
    "body_max_bytes": 2**24,
    "faucet_units": DAY_UNITS,
    "settle_trades_max": 25,
}
_WORDS: Final = {
    "environment": (TEST, PRODUCTION),
    "dialect": (NO_DIALECT, POLYMARKET),
    "role": (AUTO, FOLLOWER),
    "history": ("process", "thread"),
    "price_policy": ("nearest", "strict"),
    "log_level": ("debug", "info", "warning", "error"),
}
_SHAPES: Final = {"chain": f"{NO_CHAIN}|{EMBEDDED}|URL", "chain_node": f"{EMBEDDED}|{ANVIL}|PATH"}
_DOMAIN: Final = ("eip712_name", "eip712_version", "chain_id", "verifying_contract")
_SWITCH: Final = {"on": True, "off": False}
_NOT_EMPTY: Final = {"data_dir", "host"}
_PATHS: Final = {
    "chain_node",
    "data_dir",
    "operator_key_file",
    "oracle_key_file",
    "jwt_public_key_file",
}
_OTHER_VARIABLES: Final = {
    "CLOB_CHAIN_DIE", "CLOB_PURE_PYTHON", "CLOB_REQUIRE_ALL", "CLOB_TOKEN",
}  # fmt: skip


def add_options(parser: argparse.ArgumentParser, names: Collection[str] | None = None) -> None:
    """Add an option for every setting, or for the named ones."""
    for name, text in descriptions().items():
        if names is not None and name not in names:
            continue
        default = getattr(Settings(), name)
        if name == "demo":
            parser.add_argument("--demo", action="store_const", const="on", help=text)
            continue
        shown = text_of(default)
        parser.add_argument(
            option_of(name),
            metavar=metavar_of(name, default),
            help=f"{text} (default: {shown})" if shown else text,
        )


def metavar_of(name: str, default: object) -> str:
    """Return the placeholder for the value of an option."""
    if type(default) is bool:
        return "|".join(_SWITCH)
    if name in _SHAPES:
        return _SHAPES[name]
    if name in _WORDS:
        return "|".join(_WORDS[name])
    if name.endswith("_s"):
        return "SECONDS"
    return {int: "N", float: "NUMBER", tuple: "A,B,.."}.get(type(default), "TEXT")


def text_of(value: object) -> str:
    """Format a value for the command line."""
    if type(value) is tuple:
        return ",".join(value)
    if type(value) is bool:
        return "on" if value else "off"
    return str(value)


def option_of(name: str) -> str:
    """Return the option of a setting."""
    return f"--{name.replace('_', '-')}"


def descriptions() -> dict[str, str]:
    """Return the description of each setting."""
    return {name: text.replace("``", "") for name, text in field_texts(Settings).items()}


def trimmed(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without white space around the values of this program.

    A secret that is mounted as a file ends in a line break, and so do values of files with CRLF.
    """
    return {
        name: value.strip() if name.startswith(PREFIX) else value for name, value in environ.items()
    }


def path_argument(text: str) -> Path:
    """Parse a path of the command line; an empty one would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path; got an empty one")
    return Path(text)


def number(text: str) -> int:
    """Parse an integer of 0 or more."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"expected an integer of 0 or more; got {text!r}")
    return int(text)


def positive(text: str) -> int:
    """Parse an integer of 1 or more."""
    value = number(text)
    if not value:
        raise argparse.ArgumentTypeError("expected 1 or more; got 0")
    return value


def read_settings(given: Mapping[str, str | None], environ: Mapping[str, str]) -> Settings:
    """Read and validate all settings.

    Args:
        given: texts from the command line by setting; None means not given.
        environ: the environment.

    Raises:
        SettingsError: a value is invalid, or the settings do not fit together.
    """
    values = read_values(given, environ)
    if values.get("demo"):
        values.setdefault("data_dir", DEMO_DIR)
    if "operators" in values:
        listed = values["operators"]
        values["operators"] = tuple(read_address("--operators", each) for each in listed)
    if values.get("dialect") == POLYMARKET:
        values = defaults(values)
    settings = Settings(**values)
    check(settings, values)
    return settings


def read_values(
    given: Mapping[str, str | None],
    environ: Mapping[str, str],
    names: Iterable[str] = Settings.__struct_fields__,
) -> dict[str, Any]:
    """Read the given values of some settings, without defaults."""
    hints = get_type_hints(Settings)
    values: dict[str, Any] = {}
    for name in names:
        text = given.get(name)
        source = option_of(name)
        if text is None:
            source = PREFIX + name.upper()
            text = environ.get(source)
        if text is not None:
            values[name] = read_value(source, name, text, hints[name])
    return values


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each environment variable that looks like a setting and is none."""
    known = {PREFIX + name.upper() for name in Settings.__struct_fields__}
    warnings = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known | _OTHER_VARIABLES:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; the nearest one is {near[0]}" if near else ""
            warnings.append(f"the environment variable {name} is not a setting{hint}")
    return warnings


def read_value(source: str, name: str, text: str, kind: Any) -> Any:
    """Parse one value."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"{source} must be UTF-8; got {text!r}") from None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        raise SettingsError(f"{source} must have no quotes around its value")
    allowed = _WORDS.get(name)
    if allowed is not None and text not in allowed:
        raise SettingsError(f"{source} must be {' or '.join(allowed)}; got {text!r}")
    if kind is bool:
        if text not in _SWITCH:
            raise SettingsError(f"{source} must be on or off; got {text!r}")
        return _SWITCH[text]
    if kind == tuple[str, ...]:
        return tuple(filter(None, (part.strip() for part in text.split(","))))
    if kind is str:
        if not text and name in _NOT_EMPTY:
            raise SettingsError(f"{source} must not be empty")
        return expanduser(text) if name in _PATHS else text
    try:
        number = kind(text)
    except ValueError:
        raise SettingsError(f"{source} must be a number; got {text!r}") from None
    default_least = 0 if name in _MAY_BE_0 else 1 if kind is int else 0.001
    least = _LEAST.get(name, default_least)
    most = _MOST.get(name, NUMBER_MAX)
    if not least <= number <= most:
        raise SettingsError(f"{source} must be from {least} to {most}; got {text!r}")
    return number


def check_urls(settings: Settings) -> None:
    """Reject a URL for clients that no client can use."""
    for name in ("public_url", "mainnet_url"):
        url = getattr(settings, name)
        if url and not is_url(url):
            raise SettingsError(f"{option_of(name)} must be an http or https URL; got {url!r}")


def check_proxies(proxies: Iterable[str]) -> None:
    """Reject a trusted proxy that is neither an address nor a network."""
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise SettingsError(
                "--trusted-proxies must be IP addresses or networks, such as 10.0.0.0/8; "
                f"got {proxy!r}"
            ) from None


def check_cluster(settings: Settings) -> None:
    """Reject settings that a node of a cluster must not start with."""
    if not settings.log:
        if settings.node_count > 1:
            raise SettingsError(f"--node-count needs --log; got {settings.node_count}")
        return
    for url in settings.log:
        if not url.startswith(NATS):
            rule = f"--log must be URLs that begin with {NATS}, separated by commas"
            raise SettingsError(f"{rule}; got {url!r}")
    if settings.node_url and not is_url(settings.node_url):
        raise SettingsError(f"--node-url must be an http or https URL; got {settings.node_url!r}")
    if settings.chain_source == EMBEDDED:
        raise SettingsError(
            "--log needs --chain none or the URL of a node that all nodes of the cluster reach; "
            f"got {settings.chain_source!r}"
        )
    if settings.demo:
        raise SettingsError("--log cannot be used with --demo")


def check_workers(settings: Settings) -> None:
    """Reject settings that a server with worker processes must not start with."""
    if settings.workers == 1:
        return
    if not hasattr(socket, "SO_REUSEPORT"):
        raise SettingsError("--workers must be 1 on this system: ports cannot be shared")
    if settings.log:
        raise SettingsError("--workers must be 1 in a cluster; run more nodes instead")


def check(settings: Settings, given: Mapping[str, Any]) -> None:
    """Reject settings that a server must not start with."""
    if settings.dialect == POLYMARKET:
        check_dialect(settings)
    try:
        domain = settings.domain
    except InvalidDomainError as error:
        raise SettingsError(f"invalid EIP-712 domain: {error}") from None
    if settings.jwt_secret and len(settings.jwt_secret.encode()) < SECRET_BYTES_MIN:
        raise SettingsError(f"--jwt-secret must have at least {SECRET_BYTES_MIN} bytes")
    if settings.jwt_public_key_file:
        public_key(settings.jwt_public_key_file)
    if settings.ws_soft_bytes > settings.ws_hard_bytes:
        raise SettingsError(
            f"--ws-soft-bytes must be at most --ws-hard-bytes ({settings.ws_hard_bytes}); "
            f"got {settings.ws_soft_bytes}"
        )
    check_urls(settings)
    check_proxies(settings.trusted_proxies)
    check_sites(settings)
    check_chain(settings)
    check_cluster(settings)
    check_workers(settings)
    if settings.is_test:
        return
    missing = [option_of(name) for name in _DOMAIN if name not in given]
    if missing:
        rule = "production needs the EIP-712 domain of signed orders"
        raise SettingsError(f"{rule}; missing: {', '.join(missing)}")
    if domain.verifying_contract is None or not (domain.name and domain.version):
        raise SettingsError("production needs an EIP-712 domain with name, version and contract")
    if settings.demo:
        raise SettingsError("--demo works in the test environment only")
