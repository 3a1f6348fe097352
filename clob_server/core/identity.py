"""The identity of an exchange: the settings that its log depends on.

The first start writes them into the log. A later start with another environment or EIP-712 domain
is rejected: its keys, permissions and signatures would mean something else for the same orders.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clob import ClobError
from clob.signing import Domain
from clob_server.core.commands import ExchangeSettings
from clob_server.settings import EMBEDDED, NO_CHAIN, Settings

IDENTITY: Final = (
    "environment", "eip712_name", "eip712_version", "chain_id", "verifying_contract",
)  # fmt: skip
"""The settings that every start must repeat."""

_LOG: Final = logging.getLogger("clob_server")


class ExchangeDiffersError(ClobError, code="EXCHANGE_DIFFERS"):
    """The settings are those of another exchange than the one in the log."""


def exchange_settings(settings: Settings) -> ExchangeSettings:
    """Return the settings that a log depends on."""
    domain = settings.domain
    source = settings.chain_source
    rules = {
        "chain": source if source in (NO_CHAIN, EMBEDDED) else "URL",
        "history_days": str(settings.history_days),
        "jwt_public_key_file": "set" if settings.jwt_public_key_file else "",
        "jwt_secret": "set" if settings.jwt_secret else "",
        "operators": ",".join(settings.operators),
        "price_policy": settings.price_policy,
        "rate_limits": "on" if settings.rate_limits else "off",
        "trusted_proxies": ",".join(settings.trusted_proxies),
    }
    return ExchangeSettings(
        environment=settings.environment,
        eip712_name=domain.name,
        eip712_version=domain.version,
        chain_id=str(domain.chain_id),
        verifying_contract=domain.verifying_contract or "",
        rules=tuple(rules.items()),
    )


def domain_of(exchange: ExchangeSettings) -> Domain:
    """Return the EIP-712 domain of recorded settings."""
    return Domain(
        exchange.eip712_name,
        exchange.eip712_version,
        int(exchange.chain_id),
        exchange.verifying_contract or None,
    )


def check_exchange(
    recorded: ExchangeSettings | None, given: ExchangeSettings, folder: Path
) -> None:
    """Reject settings of another exchange than the one that a log was written for.

    Raises:
        ExchangeDiffersError: with the recorded and the given values.
    """
    if recorded is None:
        return
    changes = [
        f"{option_of(name)} was {getattr(recorded, name)!r} and is now {getattr(given, name)!r}"
        for name in IDENTITY
        if getattr(recorded, name) != getattr(given, name)
    ]
    if changes:
        raise ExchangeDiffersError(
            f"the log in {folder} belongs to another exchange: {'; '.join(changes)}; start with "
            "the recorded values (are options or environment variables missing?), or choose "
            "another --data-dir for a new exchange"
        )


def changed_exchange(
    recorded: ExchangeSettings | None, settings: Settings
) -> ExchangeSettings | None:
    """Check the settings of a start against the recorded ones; log those that differ.

    Returns:
        The settings to record; None if the log has them.

    Raises:
        ExchangeDiffersError: the log was written with another environment or EIP-712 domain.
    """
    given = exchange_settings(settings)
    check_exchange(recorded, given, Path(settings.data_dir).absolute())
    if recorded is not None:
        warn_of_changes(dict(recorded.rules), dict(given.rules))
    return None if recorded == given else given


def warn_of_changes(recorded: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Log the settings that differ from those of the last start."""
    for name, value in given.items():
        if name in recorded and recorded[name] != value:
            _LOG.warning(
                "a setting differs from the last start",
                extra={"option": option_of(name), "before": recorded[name], "now": value},
            )


def option_of(name: str) -> str:
    """Return the command line option of a setting."""
    return f"--{name.replace('_', '-')}"
