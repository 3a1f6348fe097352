"""The words of the command line: grids, times, amounts and the like, read digit by digit."""

import re
from argparse import ArgumentTypeError

from clob.units import WEI_PER_TOKEN

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
"""How many nanoseconds a unit of time has."""

WEI_PLACES = 18
"""How many digits behind the point a token has."""

BPS_MAX = 10_000
"""The highest rate, in basis points."""

_TIME = re.compile(r"(\d+)(?:\.(\d+))?(ns|us|ms|s|m|h)")
_AMOUNT = re.compile(r"(\d+)(?:\.(\d{1,18}))?")
_PAIR = re.compile(r"(-?\d+):(-?\d+)")


def grid(text: str) -> tuple[int, int]:
    """Read the lowest and the highest price.

    >>> grid("1:99")
    (1, 99)
    """
    found = _PAIR.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        raise ArgumentTypeError(f"a grid is its lowest and its highest price, 1:99, not {text!r}")
    return int(found[1]), int(found[2])


def duration_ns(text: str) -> int:
    """Read a time with its unit, as nanoseconds.

    >>> duration_ns("1.5ms")
    1500000
    """
    found = _TIME.fullmatch(text)
    if found:
        whole, fraction, unit = found[1], found[2] or "", UNITS_NS[found[3]]
        scale: int = 10 ** len(fraction)
        time, rest = divmod(int(whole + fraction) * unit, scale)
        if not rest:
            return time
    raise ArgumentTypeError(
        f"a time is whole nanoseconds with a unit of {', '.join(UNITS_NS)}, 100ms, not {text!r}"
    )


def every_ns(text: str) -> int:
    """Read a time above 0."""
    time = duration_ns(text)
    if not time:
        raise ArgumentTypeError("the time between two calls must be above 0")
    return time


def latency_ns(text: str) -> tuple[int, int]:
    """Read how long orders and answers take; one time alone is for both.

    >>> latency_ns("5ms:3ms")
    (5000000, 3000000)
    """
    order, separator, reply = text.partition(":")
    return duration_ns(order), duration_ns(reply if separator else order)


def tokens_wei(text: str) -> int:
    """Read an amount, as wei.

    >>> tokens_wei("0.5")
    500000000000000000
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"an amount has at most {WEI_PLACES} decimals, 12.5, not {text!r}")
    return int(found[1]) * WEI_PER_TOKEN + int((found[2] or "").ljust(WEI_PLACES, "0"))


def rates_bps(text: str) -> tuple[int, int]:
    """Read the rates of incoming and of resting orders; one alone is for incoming ones.

    >>> rates_bps("100:20")
    (100, 20)
    """
    rates = text.split(":")
    if len(rates) > 2 or not all(rate.isascii() and rate.isdecimal() for rate in rates):
        raise ArgumentTypeError(f"rates are basis points, 100 or 100:20, not {text!r}")
    incoming, resting = (*map(int, rates), 0)[:2]
    if max(incoming, resting) > BPS_MAX:
        raise ArgumentTypeError(f"a rate is at most {BPS_MAX} basis points, not {text!r}")
    return incoming, resting


def worth(text: str) -> tuple[str, int]:
    """Read what a YES token of a market is worth in the end, in ticks.

    >>> worth("rain=100")
    ('rain', 100)
    """
    market, _, price = text.rpartition("=")
    if not market or not (price.isascii() and price.isdecimal()):
        raise ArgumentTypeError(f"an outcome is a market and ticks, rain=100, not {text!r}")
    return market, int(price)


def checks(text: str) -> tuple[str, ...]:
    """Read what is to be compared, by the names that the library has.

    >>> checks("fills,bbo")
    ('fills', 'bests')
    """
    names = {"fills": "fills", "bbo": "bests"}
    if text == "none":
        return ()
    if not names.keys() >= set(text.split(",")):
        raise ArgumentTypeError(f"checks are fills and bbo with a comma, or none, not {text!r}")
    return tuple(names[word] for word in dict.fromkeys(text.split(",")))


def scale(text: str) -> int:
    """Read how many ticks a whole is, 1 or more."""
    if not count(text):
        raise ArgumentTypeError("it must be 1 or more, not 0")
    return int(text)


def count(text: str) -> int:
    """Read a number of 0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"it must be an integer of 0 or more, not {text!r}")
    return int(text)
