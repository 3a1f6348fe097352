"""Parses ``--latency``: delays by direction and kind of message, from words or files."""

import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clob.cli.arguments import duration_ns
from clob.cli.output import UnusableError, describe_error, printable
from clob.errors import ClobError

if TYPE_CHECKING:
    from clob.replay import Latency

Spec: TypeAlias = tuple[str, Any]
"""A function of :mod:`clob.replay.sim.delays` and its arguments, or ``constant`` and ns."""

KINDS = ("order", "cancel", "reply", "fill", "feed", "seed")
"""Kinds of message, and the seed."""

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz", ".txt")
"""Endings of files with measured delays."""

FORMS = (
    "5ms, 1ms..9ms (uniform), lognormal,2ms,9ms (median and 99 %), p50=2ms,p99=9ms,p100=50ms "
    f"(quantiles), or a file ({', '.join(ENDINGS)})"
)

_NAMED = re.compile(f"({'|'.join(KINDS)})=(.*)", re.DOTALL)
_QUANTILE = re.compile(r"p(\d+(?:\.\d+)?)=(.+)")


def latency(text: str) -> dict[str, Spec]:
    """Parse ORDER:REPLY, a single delay for both, or KIND=DELAY.

    >>> latency("5ms:1ms..3ms")
    {'order': ('constant', 5000000), 'reply': ('between', (1000000, 3000000))}
    >>> latency("cancel=2ms")
    {'cancel': ('constant', 2000000)}
    """
    match = _NAMED.fullmatch(text)
    if match is None:
        order, separator, reply = text.partition(":")
        return {"order": _delay(order), "reply": _delay(reply if separator else order)}
    kind, value = match.groups()
    if kind == "seed":
        return {"seed": ("seed", int(value) if value.isdecimal() and value.isascii() else value)}
    if kind == "feed":
        return {"feed": ("constant", duration_ns(value))}
    return {kind: _delay(value)}


def _delay(text: str) -> Spec:
    if text.endswith(ENDINGS):
        return "read_delays", text
    low, separator, high = text.partition("..")
    if separator:
        return "between", (duration_ns(low), duration_ns(high))
    first, *parts = text.split(",")
    if first == "lognormal" and len(parts) == 2:
        return "lognormal", tuple(map(duration_ns, parts))
    matches = [_QUANTILE.fullmatch(part) for part in (first, *parts)]
    if all(matches):
        return "quantiles", {match[1]: duration_ns(match[2]) for match in matches if match}
    try:
        return "constant", duration_ns(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"expected a delay such as {FORMS}; got {text!r}") from None


def latency_of(parsed: Sequence[dict[str, Spec]]) -> "Latency":
    """Make a latency from all values of ``--latency``; read its files.

    Raises:
        UnusableError: a kind occurs twice, a file is unreadable, or a distribution is invalid.
    """
    from clob.replay import Latency  # noqa: PLC0415 - NumPy may be missing

    given: dict[str, Any] = {}
    for specs in parsed:
        for kind, spec in specs.items():
            if kind in given:
                raise UnusableError(f"--latency: {kind} must occur once; got it twice")
            given[kind] = spec[1] if kind == "seed" else _made(*spec)
    return Latency(**{kind if kind == "seed" else f"{kind}_ns": one for kind, one in given.items()})


def _made(form: str, value: Any) -> Any:
    from clob.replay import between, lognormal, quantiles, read_delays  # noqa: PLC0415

    try:
        if form == "read_delays":
            return read_delays(value)
        if form == "quantiles":
            return quantiles(value)
        if form == "constant":
            return value
        return (between if form == "between" else lognormal)(*value)
    except ValueError as error:
        raise UnusableError(f"--latency: {error}") from error
    except (OSError, ClobError) as error:
        text = describe_error([Path(value)], error)
        raise UnusableError(f"--latency: {printable(text)}") from error
