"""Reads decimal numbers and dates out of text exactly: digits become integers."""

import re
from datetime import UTC, datetime

DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
DATE = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|\+00:?00)?", re.ASCII)

DIGITS_MAX = 60
"""What is longer is no number."""

SECOND_NS = 10**9
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
        ValueError: it is none, or of another zone.
    """
    found = DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no date and time of UTC")
    since = datetime.fromisoformat(found[1]).replace(tzinfo=UTC) - EPOCH
    seconds = since.days * 86_400 + since.seconds
    return seconds * SECOND_NS + int((found[2] or "").ljust(9, "0"))
