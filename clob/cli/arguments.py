"""Argument types of the command line: grids, durations, amounts, rates."""

import json
import re
from argparse import ArgumentTypeError
from typing import Any

from clob.units import WEI_PER_TOKEN

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
"""Nanoseconds per unit of time."""

WEI_PLACES = 18
"""Decimals of a token amount."""

BPS_MAX = 10_000
"""The highest fee rate, in basis points."""

_TIME = re.compile(r"(\d+)(?:\.(\d+))?(ns|us|ms|s|m|h)")
_AMOUNT = re.compile(r"(\d+)(?:\.(\d{1,18}))?")
_PAIR = re.compile(r"(-?\d+):(-?\d+)")


def grid(text: str) -> tuple[int, int]:
    """Parse the lowest and the highest price.

    >>> grid("1:99")
    (1, 99)
    """
    match = _PAIR.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise ArgumentTypeError(f"expected LOWEST:HIGHEST price, such as 1:99; got {text!r}")
    return int(match[1]), int(match[2])


def duration_ns(text: str) -> int:
    """Parse a duration with a unit, as nanoseconds.

    >>> duration_ns("1.5ms")
    1500000
    """
    match = _TIME.fullmatch(text)
    if match:
        whole, fraction, unit = match[1], match[2] or "", UNITS_NS[match[3]]
        scale: int = 10 ** len(fraction)
        time, rest = divmod(int(whole + fraction) * unit, scale)
        if not rest:
            return time
    raise ArgumentTypeError(
        f"expected a duration in {', '.join(UNITS_NS)}, such as 100ms; got {text!r}"
    )


def every_ns(text: str) -> int:
    """Parse a duration above 0."""
    time = duration_ns(text)
    if not time:
        raise ArgumentTypeError("expected a duration above 0; got 0")
    return time


def tokens_wei(text: str) -> int:
    """Parse an amount of tokens, as wei.

    >>> tokens_wei("0.5")
    500000000000000000
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(
            f"expected an amount with up to {WEI_PLACES} decimals, such as 12.5; got {text!r}"
        )
    return int(match[1]) * WEI_PER_TOKEN + int((match[2] or "").ljust(WEI_PLACES, "0"))


def rates_bps(text: str) -> tuple[int, int]:
    """Parse the rates of incoming and of resting orders; one alone is for incoming orders.

    >>> rates_bps("100:20")
    (100, 20)
    """
    rates = text.split(":")
    if len(rates) > 2 or not all(rate.isascii() and rate.isdecimal() for rate in rates):
        raise ArgumentTypeError(f"expected basis points, such as 100 or 100:20; got {text!r}")
    incoming, resting = (*map(int, rates), 0)[:2]
    if max(incoming, resting) > BPS_MAX:
        raise ArgumentTypeError(f"expected at most {BPS_MAX} basis points; got {text!r}")
    return incoming, resting


def outcome(text: str) -> tuple[str, int]:
    """Parse the final value of a market's YES token, in ticks.

    >>> outcome("rain=100")
    ('rain', 100)
    """
    market, _, price = text.rpartition("=")
    if not market or not (price.isascii() and price.isdecimal()):
        raise ArgumentTypeError(f"expected MARKET=TICKS, such as rain=100; got {text!r}")
    return market, int(price)


def columns(text: str) -> dict[str, str | int]:
    """Parse the columns of a table by field: names, or positions from 0.

    >>> columns("ts=time,price=3")
    {'ts_ns': 'time', 'price': 3}
    """
    found: dict[str, str | int] = {}
    for part in text.split(","):
        field, _, column = part.partition("=")
        if not field.strip() or not column.strip():
            raise ArgumentTypeError(f"expected FIELD=COLUMN, such as ts=time; got {part!r}")
        name = {"ts": "ts_ns", "recv": "recv_ns"}.get(field.strip(), field.strip())
        column = column.strip()
        found[name] = int(column) if column.isascii() and column.isdecimal() else column
    return found


_RANGE = re.compile(r"(-?\d+):(-?\d+)(?::(\d+))?")

VALUES_MAX = 100_000
"""Values of a parameter, at most."""


def parameter(text: str) -> tuple[str, list[Any]]:
    """Parse the values of a parameter: a list, or a range of integers with both ends.

    Numbers, true, false and null are those of JSON; anything else is a text.

    >>> parameter("size=100,200"), parameter("edge=1:7:3"), parameter("side=buy,0.5")
    (('size', [100, 200]), ('edge', [1, 4, 7]), ('side', ['buy', 0.5]))
    """
    name, _, values = text.partition("=")
    if not name.isidentifier() or not values:
        raise ArgumentTypeError(f"expected NAME=VALUES, such as size=100,200; got {text!r}")
    return name, _range(values) or [_value(part) for part in values.split(",")]


def seeds(text: str) -> list[int | str]:
    """Parse seeds: integers of 0 or more or names, as a list or a range with both ends.

    >>> seeds("3,rain"), seeds("0:2")
    ([3, 'rain'], [0, 1, 2])
    """
    parts = text.split(",")
    one_by_one = [int(part) if part.isascii() and part.isdecimal() else part for part in parts]
    return [*_range(text)] or one_by_one


def _range(text: str) -> list[int]:
    """Return the integers of a range; none if the text is something else."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return []
    low, high, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if low > high or not step or (high - low) // step >= VALUES_MAX:
        text = f"expected LOWEST:HIGHEST:STEP with at most {VALUES_MAX:,} values; got {text!r}"
        raise ArgumentTypeError(text)
    return list(range(low, high + 1, step))


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or type(value) in (bool, int, float) else text


def checks(text: str) -> tuple[str, ...]:
    """Parse the names of checks into those of the library.

    >>> checks("fills,bbo")
    ('fills', 'bests')
    """
    names = {"fills": "fills", "bbo": "bests"}
    if text == "none":
        return ()
    if not names.keys() >= set(text.split(",")):
        raise ArgumentTypeError(f"expected fills, bbo, both with a comma, or none; got {text!r}")
    return tuple(names[word] for word in dict.fromkeys(text.split(",")))


def scale(text: str) -> int:
    """Parse the number of ticks per token, 1 or more."""
    if not count(text):
        raise ArgumentTypeError("expected 1 or more; got 0")
    return int(text)


def count(text: str) -> int:
    """Parse an integer of 0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"expected an integer of 0 or more; got {text!r}")
    return int(text)
