"""Formats numbers, amounts, shares, times and durations exactly, from integers."""

import datetime

from clob.units import WEI_PER_TOKEN

MINUTE_NS = 60 * 10**9
HOUR_NS = 60 * MINUTE_NS
DAY_NS = 24 * HOUR_NS

FIRST_DATE_NS = 3_650 * DAY_NS
"""Earlier times have no date: they are times of an unknown day or relative times."""

_UNITS = ((HOUR_NS, "h"), (MINUTE_NS, "min"), (10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


def number(value: int) -> str:
    """Format an integer with commas.

    >>> number(-1234567)
    '-1,234,567'
    """
    return f"{value:,}"


def amount(wei: int) -> str:
    """Format an amount in wei as tokens or collateral, exactly.

    >>> amount(-1_234_500000000000000000), amount(10**18), amount(1)
    ('-1,234.5', '1', '0.000000000000000001')
    """
    whole, rest = divmod(abs(wei), WEI_PER_TOKEN)
    decimals = f".{rest:018d}".rstrip("0") if rest else ""
    return f"{'-' if wei < 0 else ''}{whole:,}{decimals}"


def change(wei: int) -> str:
    """Format a profit or a loss in wei, exactly, with its sign.

    >>> change(5 * 10**17), change(0), change(-(10**18))
    ('+0.5', '0', '-1')
    """
    return f"+{amount(wei)}" if wei > 0 else amount(wei)


def cut(written: str, digits: int = 8) -> str:
    """Cut the decimals of a long amount, keeping at least two, and mark the cut.

    >>> cut("0.1234567890"), cut("12.5"), cut("1,234,567.125")
    ('0.1234567…', '12.5', '1,234,567.12…')
    """
    whole, point, rest = written.partition(".")
    decimals = max(digits - len(whole), 2)
    if len(rest) <= decimals:
        return written
    return f"{whole}{point}{rest[:decimals]}…"


def decimal(value: float | None) -> str:
    """Format a ratio with four decimals; a ratio that is not defined is a dash.

    >>> decimal(-0.25), decimal(None)
    ('-0.2500', '-')
    """
    return "-" if value is None else f"{value:,.4f}"


def percent(part: int, whole: int) -> str:
    """Format a share with two decimals, rounded towards zero: 100 % means all.

    >>> percent(2_913, 2_914), percent(1, 1), percent(0, 0)
    ('99.96 %', '100 %', '-')
    """
    if not whole:
        return "-"
    if part == whole:
        return "100 %"
    hundredths = abs(part) * 10_000 // abs(whole)
    sign = "-" if (part < 0) != (whole < 0) and hundredths else ""
    return f"{sign}{hundredths // 100}.{hundredths % 100:02d} %"


def duration(ns: int) -> str:
    """Format a duration in its two largest units, rounded down.

    >>> duration(86_399_999_000_000), duration(1_500_000), duration(0), duration(3_600 * 10**9)
    ('23 h 59 min', '1 ms 500 µs', '0 ns', '1 h')
    """
    for place, (unit, name) in enumerate(_UNITS):
        if ns >= unit:
            text = f"{ns // unit} {name}"
            rest = ns % unit
            if place + 1 < len(_UNITS) and rest >= _UNITS[place + 1][0]:
                text += f" {rest // _UNITS[place + 1][0]} {_UNITS[place + 1][1]}"
            return text
    return "0 ns"


def has_date(ns: int) -> bool:
    """Return whether a time has a calendar date."""
    return ns >= FIRST_DATE_NS


def date(ns: int) -> str:
    """Format the date of a time in UTC, or the day number of a time without a date.

    >>> date(1_767_225_600_000_000_000), date(3 * DAY_NS)
    ('2026-01-01', 'day 3')
    """
    if not has_date(ns):
        return f"day {ns // DAY_NS}"
    day = datetime.datetime.fromtimestamp(ns // 10**9, datetime.UTC)
    return day.strftime("%Y-%m-%d")


def clock(ns: int, decimals: int = 0) -> str:
    """Format the time of day in UTC, with some decimals of the second.

    >>> clock(34_200 * 10**9 + 4_241_176, 3)
    '09:30:00.004'
    """
    seconds, rest = divmod(ns % DAY_NS, 10**9)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{f'{rest:09d}'[:decimals]}" if decimals else text


def moment(ns: int, decimals: int = 3) -> str:
    """Format a time, with its date or day number unless it is on day 0.

    >>> moment(1_767_225_600_000_000_000, 0), moment(34_200 * 10**9, 0)
    ('2026-01-01 00:00:00', '09:30:00')
    """
    text = clock(ns, decimals)
    return text if 0 <= ns < DAY_NS else f"{date(ns)} {text}"
