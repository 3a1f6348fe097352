"""Argument types of the command line: grids, durations, amounts, rates."""

import re
from argparse import ArgumentTypeError

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


def latency_ns(text: str) -> tuple[int, int]:
    """Parse the latency of orders and of replies; a single duration applies to both.

    >>> latency_ns("5ms:3ms")
    (5000000, 3000000)
    """
    order, separator, reply = text.partition(":")
    return duration_ns(order), duration_ns(reply if separator else order)


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
