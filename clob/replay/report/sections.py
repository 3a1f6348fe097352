"""The sections of a report: headline tiles, figures and tables."""

from typing import Any

import numpy as np

from clob.replay.report.figure import Unit, figure
from clob.replay.report.formats import amount, change, cut, number, percent
from clob.replay.report.heatmap import heat
from clob.replay.report.lines import Columns, Scale, Span, scale_of
from clob.replay.report.panels import (
    depth_panel,
    own_data,
    position_panel,
    price_lines,
    price_panel,
    price_range,
    price_unit,
    volume_panel,
    wealth_panels,
)
from clob.replay.report.run import ReportedRun
from clob.replay.report.summary import Flow, Money, OwnOrders, Rank
from clob.replay.report.tables import (
    check_table,
    divergence_table,
    metrics_table,
    money_table,
    orders_table,
    ranks_table,
    waits_table,
)
from clob.replay.report.tags import Markup, tag, together

DRAWN_MAX = 8
"""How many books have figures; the others are only in the table."""

COLUMNS_MAX = 960
"""The number of columns of a figure if there are few books."""

COLUMNS_MIN = 320
"""The number of columns of a figure if there are many books."""

DETAIL = 16
"""The number of fine columns in each, which readers see by zooming in."""


def _faint(text: str) -> Markup:
    return tag("p", text, class_="faint")


def span_of(result: ReportedRun, drawn: int = 1) -> Span:
    """Return the time axis of all figures; it has fewer columns if more books are drawn."""
    start = result.setting.start_ns
    count = max(COLUMNS_MAX * 2 // max(drawn, 2), COLUMNS_MIN)
    span = Span(start, max(result.setting.last_ns, start), count)
    # A column shorter than a nanosecond would show the value before it.
    return span._replace(detail=min(max(span.width_ns // count, 1), DETAIL))


def drawn_flows(flows: list[Flow]) -> list[Flow]:
    """Choose the books to draw: by number of own fills, then of trades."""
    ordered = sorted(flows, key=lambda one: (-len(one.own_fills), -len(one.trades)))
    chosen = {one.instrument.number for one in ordered[:DRAWN_MAX]}
    return [one for one in flows if one.instrument.number in chosen]


def result_section(result: ReportedRun, money: Money) -> Markup:
    """Write profit and loss."""
    span = span_of(result)
    drawn = figure("wealth", "Wealth", span, wealth_panels(result, money, span))
    tables = [money_table(result, money)]
    if result.metrics is not None:
        tables.append(metrics_table(result.metrics))
    return together([drawn, *tables])


def book_sections(
    result: ReportedRun, flows: list[Flow], drawn: list[Flow]
) -> list[tuple[str, str, Markup]]:
    """Write the figures of books and the positions of their markets.

    Returns:
        Id, heading and content of each book. Of several books, the first with own fills is open,
        or the first; the others are folded.
    """
    span = span_of(result, len(drawn))
    opened = next((one for one in drawn if len(one.own_fills)), drawn[0] if drawn else None)
    sections = []
    for place, flow in enumerate(drawn):
        key, market = flow.instrument.number, flow.instrument.number // 2
        figures = _book_figures(result, flow, span)
        before = drawn[place - 1].instrument.number // 2 if place else None
        pair = [one for one in flows if one.instrument.number // 2 == market]
        panel = position_panel(pair, span) if before != market else None
        if panel is not None:
            figures.append(figure(f"position-{market}", "Position", span, [panel]))
        content = together(figures)
        if len(drawn) > 1:
            content = _folded(flow, content, opened=flow is opened)
        sections.append((f"book-{key}", flow.name, content))
    return sections


def _folded(flow: Flow, content: Markup, *, opened: bool) -> Markup:
    """Put the figures of a book behind its name, with a summary."""
    facts = f"{number(len(flow.trades))} trades, {number(len(flow.own_fills))} own fills"
    heading = tag("summary", tag("h2", flow.name), tag("span", facts, class_="faint"))
    return tag("details", heading, content, class_="book", open=opened)


def _book_figures(result: ReportedRun, flow: Flow, span: Span) -> list[Markup]:
    lines = price_lines(flow, span)
    return [_prices(result, flow, lines, span), _depth(result, flow, lines, span)]


def _prices(result: ReportedRun, flow: Flow, lines: dict[str, Columns], span: Span) -> Markup:
    shown = price_range(lines, flow)
    if shown is None:
        return _faint("Trades and best prices were not kept.")
    unit = unit_of_prices(result)
    panels = [price_panel(flow, lines, scale_of(*shown), unit, span)]
    if len(flow.trades):
        panels.append(volume_panel(flow, span))
    note = "" if _all_shown(lines, panels[0].scale) else "Some best prices are outside the frame."
    more = _labels(result) | {"own": own_data(flow, span)}
    return figure(_key("price", flow), "Price", span, panels, note=note, more=more)


def unit_of_prices(result: ReportedRun) -> Unit:
    """Return the unit of the prices of a run: odds where the recording has them, or ticks."""
    return price_unit(result.setting.labels, result.setting.lo)


def _labels(result: ReportedRun) -> dict[str, Any]:
    """Return the texts of prices as the script reads them."""
    setting = result.setting
    return {"labels": {"low": setting.lo, "texts": setting.labels}} if setting.labels else {}


def _key(name: str, flow: Flow) -> str:
    return f"{name}-{flow.instrument.number}"


def _all_shown(lines: dict[str, Columns], scale: Scale) -> bool:
    """Return whether all lines stay within the frame."""
    bounds = [one.bounds() for one in lines.values()]
    return all(b is None or (scale.low <= b[0] and b[1] <= scale.high) for b in bounds)


def _depth(result: ReportedRun, flow: Flow, lines: dict[str, Columns], span: Span) -> Markup:
    if result.depths is None:
        return _faint("The depth was not sampled; run backtest(..., sample=256).")
    setting = result.setting
    shown = price_range(lines, flow) or (setting.lo, setting.hi)
    air = max((shown[1] - shown[0]) // 3, 8)
    low, high = max(shown[0] - air, setting.lo), min(shown[1] + air, setting.hi)
    columns = span._replace(columns=min(span.columns, len(result.depths.times)))
    picture = heat(result.depths, flow.instrument.number, columns, low, high)
    if picture is None:
        return _faint("No order rested in this book.")
    note = f"From {number(picture.least)} lots (faint) to {number(picture.most)} (strong)."
    if picture.band > 1:
        note += f" Each row is the sum of {picture.band} prices."
    panel = depth_panel(flow, picture, unit_of_prices(result), span)
    more = picture.more | _labels(result) | {"own": f"price-{flow.instrument.number}"}
    return figure(_key("depth", flow), "Depth", span, [panel], note=note, more=more)


def queue_section(orders: OwnOrders, queue_ranks: list[Rank]) -> Markup:
    """Write the results of orders by their place in the queue."""
    if not queue_ranks:
        return _faint("No own order rested.")
    lead = "Results of own orders by the lots ahead of them when they started to rest."
    parts = [_faint(lead), ranks_table(queue_ranks)]
    if (orders.resting_ns >= 0).any():
        parts.append(waits_table(orders))
    return together(parts)


def orders_section(result: ReportedRun, orders: OwnOrders) -> Markup:
    """Write the results of own orders."""
    if not len(orders.rows):
        return _faint("No order was sent.")
    return orders_table(result, orders)


def check_section(result: ReportedRun) -> Markup:
    """Write the comparison of the run with the records."""
    compared = _faint("The run was not compared with the records.")
    if result.check is not None:
        compared = check_table(result.check)
    diverged = tag("p", "No divergence from the records.")
    if result.divergence.total:
        diverged = divergence_table(result.divergence)
    return together([compared, diverged])


def tile(name: str, label: str, value: str, more: str = "", mood: str = "") -> Markup:
    """Write one tile of the headline.

    Args:
        name: the key of the value, for scripts and tests.
        label: the label.
        value: the value; long decimals are cut, the tooltip has all of them.
        more: a second line.
        mood: ``good``, ``bad`` or empty.
    """
    return tag(
        "div",
        tag("dt", label),
        tag("dd", cut(value), class_=f"value {mood}".strip(), title=value, data_figure=name),
        tag("dd", more, class_="faint") if more else Markup(""),
        class_="tile",
    )


def tiles(result: ReportedRun, money: Money | None, orders: OwnOrders, flows: list[Flow]) -> Markup:
    """Write the headline."""
    volume = sum(result.fills["size"].tolist())
    kept = result.counts["fills"] == len(result.fills)
    parts: list[Markup] = []
    if money is not None:
        parts += _own(result, money, orders)
    parts.append(tile("events", "Events", number(result.events)))
    wei = volume * result.setting.lot_wei
    traded = f"{number(volume)} lots, {cut(amount(wei))} tokens" if kept else "not kept"
    parts.append(tile("fills", "Trades", number(result.counts["fills"]), traded))
    check = result.check
    if check is not None:
        exact = f"{number(check.exact)} of {number(check.takers)} "
        exact += "inferred takers exact" if check.inferred else "recorded takers exact"
        parts.append(tile("exact", "Reproduced", percent(check.exact, check.takers), exact))
    parts.append(tile("divergences", "Divergences", number(result.divergence.total)))
    return tag("dl", *parts, class_="tiles")


def _own(result: ReportedRun, money: Money, orders: OwnOrders) -> list[Markup]:
    fills = result.own_fills
    resting = int(np.count_nonzero(fills["resting"]))
    lots = sum(fills["size"].tolist())
    share = percent(lots, sum(orders.rows["size"].tolist()))
    settled = f"; {number(len(result.outcome))} markets settled" if len(result.outcome) > 1 else ""
    if len(result.outcome) == 1:
        settled = f"; settled, YES at {number(next(iter(result.outcome.values())))}"
    parts = f"{cut(change(money.realised))} realised, {cut(change(money.unrealised))} unrealised"
    tokens = f"and {cut(amount(money.fee_tokens))} tokens" if money.fee_tokens else ""
    roles = f"{number(resting)} resting, {number(len(fills) - resting)} incoming; "
    roles += f"{number(lots)} lots"
    mood = "good" if money.profit > 0 else "bad" if money.profit < 0 else ""
    return [
        tile("profit", "Profit", change(money.profit), parts + settled, mood),
        tile("drawdown", "Largest drawdown", amount(money.drawdown)),
        tile("fees", "Fees", amount(money.fees), tokens),
        tile("own_fills", "Own fills", number(len(fills)), roles),
        tile("own_orders", "Own orders", number(len(orders.rows)), f"{share} of the lots filled"),
    ]


def status(result: ReportedRun) -> Markup:
    """Write whether the run matches the records, as a badge."""
    if result.check is None:
        return tag("span", "not compared", class_="badge")
    if result.check.ok and not result.divergence.total:
        return tag("span", "as recorded", class_="badge good")
    return tag("span", f"{number(result.divergence.total)} divergences", class_="badge warn")
