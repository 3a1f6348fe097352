"""The parts of a report, each a heading's worth of figures and tables."""

from typing import TYPE_CHECKING

from clob.replay.report.axes import Scale
from clob.replay.report.columns import Columns, Span
from clob.replay.report.facts import Money, OwnOrders, Rank
from clob.replay.report.figure import figure
from clob.replay.report.flow import Flow
from clob.replay.report.heat import heat
from clob.replay.report.panels import (
    depth_panel,
    position_panel,
    price_lines,
    price_panel,
    price_range,
    volume_panel,
    wealth_panels,
)
from clob.replay.report.tables import (
    check_table,
    divergence_table,
    money_table,
    orders_table,
    ranks_table,
    waits_table,
)
from clob.replay.report.tags import Markup, tag, together
from clob.replay.report.words import number

if TYPE_CHECKING:
    from clob.replay.results import Backtest

DRAWN_MAX = 8
"""How many books are drawn; the others are in the table only."""

COLUMNS_MAX = 960
"""How many columns a figure has where there are few."""

COLUMNS_MIN = 320
"""How many a figure has where there are many."""


def span_of(result: "Backtest", drawn: int = 1) -> Span:
    """Give the time axis of all figures.

    Args:
        result: the run.
        drawn: how many books are drawn: the more, the fewer columns each has.
    """
    start = result.setting.start_ns
    count = max(COLUMNS_MAX * 2 // max(drawn, 2), COLUMNS_MIN)
    return Span(start, max(result.setting.last_ns, start), count)


def drawn_flows(flows: list[Flow]) -> list[Flow]:
    """Choose the books to draw: those with the most own fills, then with the most trades."""
    ordered = sorted(flows, key=lambda one: (-len(one.own_fills), -len(one.trades)))
    chosen = {one.instrument.number for one in ordered[:DRAWN_MAX]}
    return [one for one in flows if one.instrument.number in chosen]


def result_section(result: "Backtest", money: Money) -> Markup:
    """Write what was won or lost."""
    span = span_of(result)
    drawn = figure("wealth", "Wealth", span, wealth_panels(result, money, span))
    return together([drawn, money_table(result, money)])


def book_sections(
    result: "Backtest", flows: list[Flow], drawn: list[Flow]
) -> list[tuple[str, str, Markup]]:
    """Write the books that are drawn, and the positions of their markets.

    Returns:
        Id, heading and content of each.
    """
    span = span_of(result, len(drawn))
    sections = []
    for place, flow in enumerate(drawn):
        key, market = flow.instrument.number, flow.instrument.number // 2
        figures = [_prices(flow, span), _depth(result, flow, span)]
        following = drawn[place + 1].instrument.number // 2 if place + 1 < len(drawn) else None
        pair = [one for one in flows if one.instrument.number // 2 == market]
        panel = position_panel(pair, span) if following != market else None
        if panel is not None:
            figures.append(figure(f"position-{market}", "Position", span, [panel]))
        sections.append((f"book-{key}", flow.name, together(figures)))
    return sections


def _prices(flow: Flow, span: Span) -> Markup:
    """Draw prices and volume."""
    lines = price_lines(flow, span)
    shown = price_range(lines, flow)
    if shown is None:
        return tag("p", "Neither trades nor best prices were kept.", class_="faint")
    panels = [price_panel(flow, lines, *shown, span)]
    if len(flow.trades):
        panels.append(volume_panel(flow, span))
    note = "" if _all_shown(lines, panels[0].scale) else "Best prices far off are beyond the frame."
    return figure(f"price-{flow.instrument.number}", "Price", span, panels, note=note)


def _all_shown(lines: dict[str, Columns], scale: Scale) -> bool:
    """Tell whether all lines stay within the frame."""
    bounds = [one.bounds() for one in lines.values()]
    return all(b is None or (scale.low <= b[0] and b[1] <= scale.high) for b in bounds)


def _depth(result: "Backtest", flow: Flow, span: Span) -> Markup:
    """Draw the depth over time."""
    if result.depths is None:
        told = "The depth over time was not taken down; backtest(..., sample=256) does it."
        return tag("p", told, class_="faint")
    setting = result.setting
    shown = price_range(price_lines(flow, span), flow) or (setting.lo, setting.hi)
    air = max((shown[1] - shown[0]) // 3, 8)
    low, high = max(shown[0] - air, setting.lo), min(shown[1] + air, setting.hi)
    columns = span._replace(columns=min(span.columns, len(result.depths.times)))
    picture = heat(result.depths, flow.instrument.number, columns, low, high)
    if picture is None:
        return tag("p", "Nothing ever rested in this book.", class_="faint")
    told = f"From {number(picture.least)} lots, faint, to {number(picture.most)}, strong."
    if picture.band > 1:
        told += f" Each row adds up {picture.band} prices."
    panel = depth_panel(flow, picture, columns)
    name = f"depth-{flow.instrument.number}"
    return figure(name, "Depth", columns, [panel], note=told, more=picture.more)


def queue_section(orders: OwnOrders, found: list[Rank]) -> Markup:
    """Write what became of orders by their place in the queue."""
    if not found:
        return tag("p", "No own order ever rested.", class_="faint")
    lead = "How many lots stood in front of an own order when it began to rest, and what became."
    parts = [tag("p", lead, class_="faint"), ranks_table(found)]
    if (orders.resting_ns >= 0).any():
        parts.append(waits_table(orders))
    return together(parts)


def orders_section(result: "Backtest", orders: OwnOrders) -> Markup:
    """Write what became of the own orders."""
    if not len(orders.rows):
        return tag("p", "No order was sent.", class_="faint")
    return orders_table(result, orders)


def check_section(result: "Backtest") -> Markup:
    """Write how the run compares with what was recorded."""
    parts = []
    if result.check is None:
        parts.append(tag("p", "Nothing was compared with what was recorded.", class_="faint"))
    else:
        parts.append(check_table(result.check))
    if result.divergence.total:
        parts.append(divergence_table(result.divergence))
    else:
        parts.append(tag("p", "No divergence from history."))
    return together(parts)
