"""Reads decimal numbers and dates out of text exactly: digits become integers."""

import re
from datetime import UTC, datetime

DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
DATE = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|\+00:?00)?", re.ASCII)

DIGITS_MAX = 60
"""What is longer is no number."""

SECOND_NS = 10**9

SIZE_MAX, TIME_NS_MAX = 2**53 - 1, 2**63 - 1
"""The largest size in lots, a thousand of which fit 63 bits; the latest time, in the year 2262."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def units(text: str | int, places: int) -> int:
    """Read a decimal number as a whole number of units.

    >>> units("585.3300", 2), units(".5", 3), units("1.5E3", 0), units(-2, 1)
    (58533, 500, 1500, -20)

    Args:
        text: digits with a point or without, perhaps with an exponent; or a whole number.
        places: how many digits behind the point a unit is.

    Returns:
        How many units it is.

    Raises:
        ValueError: it is no number, or no whole number of units.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError(f"{text!r} is no decimal number")
    found = DECIMAL.fullmatch(str(text)) if len(str(text)) <= DIGITS_MAX else None
    whole, fraction = (found[2], found[3] or "") if found else ("", "")
    if found is None or not whole + fraction:
        raise ValueError(f"{text!r} is no decimal number")
    digits = int(whole + fraction)
    shift = places - len(fraction) + int(found[4] or 0)
    scale: int = 10 ** abs(shift)
    if shift >= 0:
        digits *= scale
    elif digits % scale:
        raise ValueError(f"{text} is no whole number of units of {places} decimal places")
    else:
        digits //= scale
    return -digits if found[1] == "-" else digits


def lots_of(text: str | int, places: int) -> int:
    """Read a size as lots.

    >>> lots_of("60.5", 6)
    60500000

    Args:
        text: as :func:`units` takes it.
        places: how many digits behind the point a lot is.

    Returns:
        The lots, 0 to ``SIZE_MAX``.

    Raises:
        ValueError: it is no number, no whole number of lots, or out of range.
    """
    lots = units(text, places)
    if not 0 <= lots <= SIZE_MAX:
        raise ValueError(f"a size of {text}")
    return lots


def time_ns(count: int, unit_ns: int) -> int:
    """Give a time that is counted from 1970 in nanoseconds.

    >>> time_ns(1757908892000, 10**6)
    1757908892000000000

    Args:
        count: of units.
        unit_ns: how many nanoseconds a unit is.

    Returns:
        The nanoseconds, 0 to ``TIME_NS_MAX``.

    Raises:
        ValueError: it is out of range.
    """
    ns = count * unit_ns
    if not 0 <= ns <= TIME_NS_MAX:
        raise ValueError(f"a time of {count}")
    return ns


def places_of(text: str | int) -> int:
    """Count the decimal places that a number needs.

    >>> places_of("0.420"), places_of("7"), places_of("0.999")
    (2, 0, 3)

    Args:
        text: digits with a point or without.

    Returns:
        The number of digits behind the point, without the zeros at its end.

    Raises:
        ValueError: it is no number, or one of more than twelve places.
    """
    value = units(text, 12)
    places = 12
    while places and value % 10 == 0:
        value //= 10
        places -= 1
    return places


def date_ns(text: str) -> int:
    """Read a date and time; one without a zone is taken for UTC.

    >>> date_ns("1970-01-02T00:00:00.25")
    86400250000000

    Args:
        text: as ``2025-12-13T07:02:38.351386``, with ``Z`` behind it or without.

    Returns:
        Nanoseconds since 1970.

    Raises:
        ValueError: it is none, of another zone, or more than 292 years away from 1970.
    """
    found = DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no date and time of UTC")
    since = datetime.fromisoformat(found[1]).replace(tzinfo=UTC) - EPOCH
    seconds = since.days * 86_400 + since.seconds
    ns = seconds * SECOND_NS + int((found[2] or "").ljust(9, "0"))
    if abs(ns) > TIME_NS_MAX:
        raise ValueError(f"a time of {text[:40]!r}")
    return ns
