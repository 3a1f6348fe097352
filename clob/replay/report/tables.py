"""The tables of a report: money, orders, queues, the check, the divergences, the markets."""

import bisect
import datetime
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clob.replay.check.divergence import EXPLANATIONS, Divergences
from clob.replay.report.summary import FATES, Flow, Money, OwnOrders, Rank, waits_of
from clob.replay.report.tags import Markup, tag, together
from clob.units import WEI_PER_TOKEN

if TYPE_CHECKING:
    from clob.replay.check.compare import Comparison
    from clob.replay.results import Backtest


MINUTE_NS = 60 * 10**9
HOUR_NS = 60 * MINUTE_NS
DAY_NS = 24 * HOUR_NS

FIRST_DATE_NS = 3_650 * DAY_NS
"""Earlier times are hours of an unknown day, or counted from anywhere: they have no date."""

_UNITS = ((HOUR_NS, "h"), (MINUTE_NS, "min"), (10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


def number(value: int) -> str:
    """Write an integer with commas.

    >>> number(-1234567)
    '-1,234,567'
    """
    return f"{value:,}"


def amount(wei: int) -> str:
    """Write an amount in wei as tokens or collateral, exactly.

    >>> amount(-1_234_500000000000000000), amount(10**18), amount(1)
    ('-1,234.5', '1', '0.000000000000000001')
    """
    whole, rest = divmod(abs(wei), WEI_PER_TOKEN)
    decimals = f".{rest:018d}".rstrip("0") if rest else ""
    return f"{'-' if wei < 0 else ''}{whole:,}{decimals}"


def change(wei: int) -> str:
    """Write a profit or a loss in wei, exactly, with its sign.

    >>> change(5 * 10**17), change(0), change(-(10**18))
    ('+0.5', '0', '-1')
    """
    return f"+{amount(wei)}" if wei > 0 else amount(wei)


def cut(written: str, digits: int = 8) -> str:
    """Leave out the later decimals of a long amount, but for two, and show that there are more.

    >>> cut("0.1234567890"), cut("12.5"), cut("1,234,567.125")
    ('0.1234567…', '12.5', '1,234,567.12…')
    """
    whole, point, rest = written.partition(".")
    decimals = max(digits - len(whole), 2)
    if len(rest) <= decimals:
        return written
    return f"{whole}{point}{rest[:decimals]}…"


def percent(part: int, whole: int) -> str:
    """Write a share with two decimals, rounded towards zero, so that only all is 100 %.

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
    """Write how long something took, by its two largest units, rounded down.

    >>> duration(86_399_999_000_000), duration(1_500_000), duration(0), duration(3_600 * 10**9)
    ('23 h 59 min', '1 ms 500 µs', '0 ns', '1 h')
    """
    for place, (unit, name) in enumerate(_UNITS):
        if ns >= unit:
            told = f"{ns // unit} {name}"
            rest = ns % unit
            if place + 1 < len(_UNITS) and rest >= _UNITS[place + 1][0]:
                told += f" {rest // _UNITS[place + 1][0]} {_UNITS[place + 1][1]}"
            return told
    return "0 ns"


def has_date(ns: int) -> bool:
    """Tell whether a time is one of the calendar."""
    return ns >= FIRST_DATE_NS


def date(ns: int) -> str:
    """Write the day of a time, in UTC, or how many days went by where there is no calendar.

    >>> date(1_767_225_600_000_000_000), date(3 * DAY_NS)
    ('2026-01-01', 'day 3')
    """
    if not has_date(ns):
        return f"day {ns // DAY_NS}"
    day = datetime.datetime.fromtimestamp(ns // 10**9, datetime.UTC)
    return day.strftime("%Y-%m-%d")


def clock(ns: int, decimals: int = 0) -> str:
    """Write the time of day, in UTC, with some decimals of the second.

    >>> clock(34_200 * 10**9 + 4_241_176, 3)
    '09:30:00.004'
    """
    seconds, rest = divmod(ns % DAY_NS, 10**9)
    told = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{told}.{f'{rest:09d}'[:decimals]}" if decimals else told


def moment(ns: int, decimals: int = 3) -> str:
    """Write a time with its date, if it has one or is not of the first day.

    >>> moment(1_767_225_600_000_000_000, 0), moment(34_200 * 10**9, 0)
    ('2026-01-01 00:00:00', '09:30:00')
    """
    told = clock(ns, decimals)
    return told if 0 <= ns < DAY_NS else f"{date(ns)} {told}"


WAITS_NS = (
    *(10**power for power in range(3, 11)),
    *(MINUTE_NS, 10 * MINUTE_NS, HOUR_NS, 10 * HOUR_NS, DAY_NS),
)
"""The limits of the groups of waiting times."""


def table(
    name: str,
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    words: int = 1,
    bars: int | None = None,
) -> Markup:
    """Write a table.

    Args:
        name: its id in the page.
        head: the names of the columns.
        rows: the cells; the first of each row names it.
        words: how many columns at the left hold words; all others hold numbers.
        bars: which column holds bars; None is none.
    """

    def kind(column: int) -> str | None:
        """Give the class of a column."""
        if column == bars:
            return "bars"
        return "number" if column >= words else None

    top = (tag("th", cell, scope="col", class_=kind(at)) for at, cell in enumerate(head))
    body = (
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell, class_=kind(at)) for at, cell in enumerate(row[1:], 1)),
        )
        for row in rows
    )
    inside = tag("thead", tag("tr", *top)) + tag("tbody", *body) if head else tag("tbody", *body)
    return tag("div", tag("table", Markup(inside), id=name), class_="wide")


def money_table(result: "Backtest", money: Money) -> Markup:
    """Write all amounts exactly."""
    credit = result.portfolio is not None and not result.portfolio.covered
    beginning = f"{amount(money.initial)} (unlimited credit)" if credit else amount(money.initial)
    rows = [
        ("collateral at the beginning", beginning),
        ("realised profit, fees taken off", change(money.realised)),
        ("unrealised profit", change(money.unrealised)),
        ("wealth at the end", amount(money.wealth)),
        ("of it collateral", amount(money.collateral)),
        ("fees paid", amount(money.fees)),
        ("largest drawdown", _drawdown(money)),
    ]
    if money.fee_tokens:
        rows.append(("fees paid in tokens", amount(money.fee_tokens)))
    rows += [
        (f"settled: {_market(result, market)}", f"YES at {number(price)} ticks")
        for market, price in sorted(result.outcome.items())
    ]
    return table("money", (), rows)


def _drawdown(money: Money) -> str:
    """Say how far wealth fell, and when."""
    if not money.drawdown:
        return "none"
    return f"{amount(money.drawdown)}, at {moment(money.drawdown_ns)}"


def _market(result: "Backtest", market: int) -> str:
    """Give the name of a market."""
    names = (one.market for one in result.setting.instruments if one.number // 2 == market)
    return next((name for name in names if name), f"market {market}")


def orders_table(result: "Backtest", orders: OwnOrders) -> Markup:
    """Write what became of the own orders, by side."""
    side = orders.rows["side"]
    everything = np.ones(len(side), np.bool_)
    parts = (side == 0, side == 1, everything)

    def counts(label: str, which: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> list[str]:
        """Write a row of numbers of orders."""
        return [label, *(number(int(np.count_nonzero(which & part))) for part in parts)]

    rows = [counts("sent", everything), counts("came to rest", orders.rested)]
    rows += [counts(fate, orders.which(fate)) for fate in FATES]
    for label, sizes in (("lots sent", orders.rows["size"]), ("lots filled", orders.filled)):
        rows.append([label, *(number(sum(sizes[part].tolist())) for part in parts)])
    rows.append(
        [
            "share of the lots filled",
            *(
                percent(sum(orders.filled[part].tolist()), sum(orders.rows["size"][part].tolist()))
                for part in parts
            ),
        ]
    )
    written = table("orders", ("Own orders", "buys", "sells", "all"), rows)
    if result.refusals:
        codes = ((tag("code", code), number(count)) for code, count in result.refusals.items())
        written = Markup(written + table("refusals", ("Refused with", "orders"), codes))
    return written


def ranks_table(found: list[Rank]) -> Markup:
    """Write what became of orders by what was in front of them when they began to rest."""
    rows = (
        (
            _range(rank.low, rank.high),
            number(rank.orders),
            _bar(
                ("whole", rank.whole, "whole"), ("partly", rank.partly, "in part"), of=rank.orders
            ),
            percent(rank.filled, rank.size),
            "-" if rank.wait_ns is None else duration(rank.wait_ns),
        )
        for rank in found
    )
    head = ("Lots ahead", "orders", "filled", "share of lots", "median wait")
    return table("ranks", head, rows, bars=2)


def waits_table(orders: OwnOrders) -> Markup:
    """Write how long resting orders waited for their first fill."""
    waits = waits_of(orders, orders.rested)
    rows, below = [], 0
    for limit in WAITS_NS:
        count = bisect.bisect_left(waits, limit) - below
        below += count
        if not below or (below == len(waits) and not count):
            continue
        bar = _bar(("whole", count, ""), of=len(waits))
        rows.append((f"under {duration(limit)}", bar, percent(below, len(waits))))
    if below < len(waits):
        bar = _bar(("whole", len(waits) - below, ""), of=len(waits))
        rows.append(("longer", bar, percent(1, 1)))
    head = ("Time to first fill", "orders", "share up to here")
    return table("waits", head, rows, bars=1)


def _range(low: int, high: int) -> str:
    """Write a range of lots."""
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _bar(*parts: tuple[str, int, str], of: int) -> Markup:
    """Draw parts of a whole as a bar, and say above it what they are."""
    told = ", ".join(f"{number(count)} {what}".strip() for _, count, what in parts if count)
    strips = (
        tag("i", class_=colour, style=f"width:{count * 100 // max(of, 1)}%")
        for colour, count, _ in parts
        if count
    )
    return together(
        [tag("span", told or "none"), tag("span", *strips, class_="bar", aria_hidden="true")]
    )


def check_table(check: "Comparison") -> Markup:
    """Write what was recorded and what was reproduced."""
    rows = [
        ("takers", check.takers, check.exact, check.first_difference),
        ("fills", check.recorded, check.matched, check.first_difference),
    ]
    if check.bests:
        rows.append(("best prices", check.bests, check.bests_equal, check.first_best_difference))
    return table(
        "check",
        ("", "recorded", "reproduced", "share", "first difference at event"),
        (
            (
                name,
                number(recorded),
                number(equal),
                percent(equal, recorded),
                "none" if first is None else number(first),
            )
            for name, recorded, equal, first in rows
        ),
    )


def divergence_table(divergence: Divergences) -> Markup:
    """Write how often the replay was not what history says, by kind, and the first of each."""
    ordered = sorted(divergence.counts.items(), key=lambda item: (-item[1], item[0]))
    rows = ((tag("code", kind), EXPLANATIONS[kind], number(count)) for kind, count in ordered)
    written = table("divergence", ("Kind", "what it means", "count"), rows, words=2)
    first = [tag("li", one) for one in divergence.kept]
    if first:
        told = tag("details", tag("summary", "The first of each kind"), tag("ol", *first))
        written = Markup(written + told)
    return written


def markets_table(result: "Backtest", flows: list[Flow], drawn: Iterable[int]) -> Markup:
    """Write a row for each book."""
    shown = set(drawn)
    head = ("Book", "trades", "volume, lots", "own fills", "own volume", "tokens held")
    rows = []
    for flow in flows:
        instrument = flow.instrument.number
        held = int(flow.positions["size"][-1]) if len(flow.positions) else 0
        book = result.books.get(instrument)
        ends = [book.best_bid, book.best_ask] if book else [None, None]
        name: object = flow.name
        if instrument in shown:
            name = tag("a", flow.name, href=f"#book-{instrument}")
        rows.append(
            (
                name,
                number(len(flow.trades)),
                number(flow.volume),
                number(len(flow.own_fills)),
                number(flow.own_volume),
                amount(held),
                *("-" if price is None else number(price) for price in ends),
            )
        )
    return table("books", (*head, "bid at the end", "ask at the end"), rows)


# MERGED clob.replay.report.tables: How a report writes numbers, amounts, shares, times and durations: exactly, from integers.
