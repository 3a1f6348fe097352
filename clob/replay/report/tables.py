"""The tables of a report: money, orders, queues, the check, the divergences, the markets."""

import bisect
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from clob.replay.check.compare import Comparison
from clob.replay.check.divergence import EXPLANATIONS, Divergences
from clob.replay.io.numerals import Mask
from clob.replay.metrics import DEFINITIONS, RunMetrics
from clob.replay.report.formats import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    amount,
    change,
    decimal,
    duration,
    moment,
    number,
    percent,
)
from clob.replay.report.run import ReportedRun
from clob.replay.report.summary import Flow, Money, OwnOrders, Rank, waits_of
from clob.replay.report.tags import Markup, tag, together
from clob.replay.sim.marks import MARKS

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
        name: the id of the table in the page.
        head: the names of the columns.
        rows: the cells; the first of each row is its heading.
        words: the number of text columns at the left; others are numbers.
        bars: the column of bars, or None.
    """

    def kind(column: int) -> str | None:
        if column == bars:
            return "bars"
        return "number" if column >= words else None

    top = (tag("th", cell, scope="col", class_=kind(at)) for at, cell in enumerate(head))
    body = []
    for first, *others in rows:
        cells = (tag("td", cell, class_=kind(at)) for at, cell in enumerate(others, 1))
        body.append(tag("tr", tag("th", first, scope="row"), *cells))
    inside = tag("thead", tag("tr", *top)) + tag("tbody", *body) if head else tag("tbody", *body)
    return tag("div", tag("table", Markup(inside), id=name), class_="wide")


def money_table(result: ReportedRun, money: Money) -> Markup:
    """Write all amounts, exactly."""
    credit = result.portfolio is not None and not result.portfolio.covered
    beginning = f"{amount(money.initial)} (unlimited credit)" if credit else amount(money.initial)
    rows = [
        ("positions valued by", f"{result.setting.mark}: {MARKS[result.setting.mark]}"),
        ("collateral at the start", beginning),
        ("realised profit after fees", change(money.realised)),
        ("unrealised profit", change(money.unrealised)),
        ("wealth at the end", amount(money.wealth)),
        ("collateral at the end", amount(money.collateral)),
        ("fees paid", amount(money.fees)),
        ("fee schedule", result.fees),
        ("largest drawdown", _drawdown(money)),
    ]
    if money.fee_tokens:
        rows.append(("fees paid in tokens", amount(money.fee_tokens)))
    rows += [
        (f"settled: {_market(result, market)}", f"YES at {number(price)} ticks")
        for market, price in sorted(result.outcome.items())
    ]
    return table("money", (), rows)


def metrics_table(metrics: RunMetrics) -> Markup:
    """Write return, risk and quality of the trading, with their definitions."""
    none = "-"
    closing = f"; {number(metrics.closing_fills)} closing fills"
    steps = f"; {number(metrics.steps)} steps of {duration(metrics.step_ns)}"
    wait = none if metrics.queue_ns is None else duration(metrics.queue_ns)
    written = {
        "total_return": ("total return", decimal(metrics.total_return), ""),
        "sharpe": ("Sharpe ratio", decimal(metrics.sharpe), steps),
        "sortino": ("Sortino ratio", decimal(metrics.sortino), steps),
        "turnover": ("turnover", amount(metrics.turnover), ""),
        "hit_rate": ("hit rate", decimal(metrics.hit_rate), closing),
        "fill_ratio": ("fill ratio", decimal(metrics.fill_ratio), ""),
        "queue_ns": ("time in queue", wait, ""),
    }
    rows = [
        (label, value, DEFINITIONS[key] + more) for key, (label, value, more) in written.items()
    ]
    for one in metrics.adverse:
        text = f"mean ticks of others' mid against {number(one.fills)} own fills, by lots"
        name = f"adverse selection after {duration(one.horizon_ns)}"
        rows.append((name, decimal(one.mean_ticks), text))
    for held in metrics.inventory:
        text = f"mean over time; largest {amount(held.highest)}, at the end {amount(held.last)}"
        rows.append((f"tokens held of instrument {held.instrument}", amount(held.mean), text))
    return table("metrics", (), rows)


def _drawdown(money: Money) -> str:
    if not money.drawdown:
        return "none"
    return f"{amount(money.drawdown)}, at {moment(money.drawdown_ns)}"


def _market(result: ReportedRun, market: int) -> str:
    names = (one.market for one in result.setting.instruments if one.number // 2 == market)
    return next((name for name in names if name), f"market {market}")


def orders_table(result: ReportedRun, orders: OwnOrders) -> Markup:
    """Write the results of own orders, by side."""
    side = orders.rows["side"]
    everything = np.ones(len(side), np.bool_)
    parts = (side == 0, side == 1, everything)

    def counts(label: str, which: Mask) -> list[str]:
        return [label, *(number(int(np.count_nonzero(which & part))) for part in parts)]

    rows = [counts("sent", everything), counts("rested", orders.rested)]
    rows += [counts(fate, mask) for fate, mask in orders.fates().items()]
    sent = [sum(orders.rows["size"][part].tolist()) for part in parts]
    filled = [sum(orders.filled[part].tolist()) for part in parts]
    rows += [["lots sent", *map(number, sent)], ["lots filled", *map(number, filled)]]
    rows.append(["share of the lots filled", *map(percent, filled, sent)])
    written = table("orders", ("Own orders", "buys", "sells", "all"), rows)
    if result.rejections:
        codes = ((tag("code", code), number(count)) for code, count in result.rejections.items())
        written = Markup(written + table("rejections", ("Rejected with", "orders"), codes))
    return written


def ranks_table(ranks: list[Rank]) -> Markup:
    """Write the results of orders by the size ahead of them when they started to rest."""
    rows = (
        (
            _range(rank.low, rank.high),
            number(rank.orders),
            _bar(
                ("whole", rank.whole, "fully"), ("partly", rank.partly, "partially"), of=rank.orders
            ),
            percent(rank.filled, rank.size),
            "-" if rank.wait_ns is None else duration(rank.wait_ns),
        )
        for rank in ranks
    )
    head = ("Lots ahead", "orders", "filled", "share of lots", "median wait")
    return table("ranks", head, rows, bars=2)


def waits_table(orders: OwnOrders) -> Markup:
    """Write the times that resting orders waited for their first fill."""
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
    head = ("Time to first fill", "orders", "cumulative share")
    return table("waits", head, rows, bars=1)


def _range(low: int, high: int) -> str:
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _bar(*parts: tuple[str, int, str], of: int) -> Markup:
    """Draw parts of a whole as a bar with a description above it."""
    text = ", ".join(f"{number(count)} {label}".strip() for _, count, label in parts if count)
    strips = (
        tag("i", class_=colour, style=f"width:{count * 100 // max(of, 1)}%")
        for colour, count, _ in parts
        if count
    )
    return together(
        [tag("span", text or "none"), tag("span", *strips, class_="bar", aria_hidden="true")]
    )


def check_table(check: Comparison) -> Markup:
    """Write recorded and reproduced counts."""
    rows = [
        ("takers", check.takers, check.exact, check.first_difference),
        ("fills", check.recorded, check.matched, check.first_difference),
    ]
    if check.bests:
        rows.append(("best prices", check.bests, check.bests_equal, check.first_best_difference))
    cells = []
    for name, recorded, equal, first in rows:
        place = "none" if first is None else number(first)
        cells.append((name, number(recorded), number(equal), percent(equal, recorded), place))
    source = "inferred" if check.inferred else "recorded"
    head = ("", source, "reproduced", "share", "first difference at event")
    return table("check", head, cells)


def divergence_table(divergence: Divergences) -> Markup:
    """Write the number of divergences by kind, and the first of each."""
    ordered = sorted(divergence.counts.items(), key=lambda item: (-item[1], item[0]))
    rows = ((tag("code", kind), EXPLANATIONS[kind], number(count)) for kind, count in ordered)
    written = table("divergence", ("Kind", "meaning", "count"), rows, words=2)
    first = [tag("li", one) for one in divergence.kept]
    if first:
        details = tag("details", tag("summary", "The first of each kind"), tag("ol", *first))
        written = Markup(written + details)
    return written


def markets_table(
    result: ReportedRun,
    flows: list[Flow],
    drawn: Iterable[int],
    price: Callable[[int], str] = number,
) -> Markup:
    """Write one row per book; ``price`` formats a price."""
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
                *("-" if end is None else price(end) for end in ends),
            )
        )
    return table("books", (*head, "bid at the end", "ask at the end"), rows)
