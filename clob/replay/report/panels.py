"""The panels of a report: wealth and drawdown, positions, prices with own fills, depth."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clob.replay.report import lines as strokes
from clob.replay.report.figure import AMOUNT, CHANGE, NUMBER, LegendEntry, Panel, Unit
from clob.replay.report.formats import number
from clob.replay.report.heatmap import Heat
from clob.replay.report.lines import (
    Columns,
    Scale,
    Span,
    add_up,
    reduce_steps,
    scale_of,
)
from clob.replay.report.run import ReportedRun
from clob.replay.report.summary import Flow, Money, drawdowns

TOOLTIP_FILLS_MAX = 4
"""How many own fills of a column the tooltip lists."""

MANY = 300
"""The number of own fills above which dots are small."""

KINDS = (
    ("buy", "bought, resting"),
    ("sell", "sold, resting"),
    ("buy taker", "bought, incoming"),
    ("sell taker", "sold, incoming"),
)
"""The kinds of own fills, resting ones first, buys before sells: CSS class and label."""


def wealth_panels(result: ReportedRun, money: Money, span: Span) -> list[Panel]:
    """Draw wealth, drawdown and collateral."""
    rows, fine = result.equity, span.fine
    wealth = reduce_steps(rows["ts_ns"], rows["wealth"], fine)
    low, high = wealth.bounds() or (0, 0)
    scale = scale_of(min(low, money.initial), max(high, money.initial))
    first = Panel("wealth, in collateral", 220, scale, AMOUNT, span)
    first.add_level(money.initial)
    first.add_line("wealth", "wealth", wealth)
    falls = reduce_steps(rows["ts_ns"], drawdowns(rows["wealth"]), fine)
    second = Panel("drawdown", 90, scale_of(-money.drawdown, 0), CHANGE, span, zero=True)
    second.add_band("drawdown", None, second.add_line("drawdown", "drawdown", falls), "low")
    held = reduce_steps(rows["ts_ns"], rows["collateral"], fine)
    scale = scale_of(*(held.bounds() or (0, 0)), zero=True)
    third = Panel("collateral", 90, scale, AMOUNT, span, zero=True)
    third.add_line("collateral", "collateral", held)
    return [first, second, third]


def position_panel(flows: list[Flow], span: Span) -> Panel | None:
    """Draw the tokens of one market; None if there were no positions."""
    positions = [
        (flow, reduce_steps(flow.positions["ts_ns"], flow.positions["size"], span.fine))
        for flow in flows
        if len(flow.positions)
    ]
    if not positions:
        return None
    bounds = [columns.bounds() or (0, 0) for _, columns in positions]
    scale = scale_of(min(low for low, _ in bounds), max(high for _, high in bounds), zero=True)
    panel = Panel("position, in tokens", 150, scale, AMOUNT, span, zero=True)
    panel.add_level(0)
    for flow, columns in positions:
        colour = "no" if flow.instrument.number % 2 else "yes"
        series = panel.add_line(colour, flow.instrument.outcome, columns)
        if len(positions) == 1:
            panel.add_band(colour, None, series)
    return panel


def price_lines(flow: Flow, span: Span) -> dict[str, Columns]:
    """Reduce the kept best bids, best asks and trades of a book to fine columns."""
    lines = {}
    if len(flow.bests):
        for side in ("bid", "ask"):
            exists = flow.bests[f"{side}_size"] > 0
            lines[side] = reduce_steps(flow.bests["ts_ns"], flow.bests[side], span.fine, exists)
    if len(flow.trades):
        lines["trade"] = reduce_steps(flow.trades["ts_ns"], flow.trades["price"], span.fine)
    return lines


def price_range(lines: dict[str, Columns], flow: Flow) -> tuple[int, int] | None:
    """Choose the prices to show: all trades, and best prices except those of a few columns.

    Distant best prices, as before a book has filled, would flatten everything else.
    """
    values = [int(price) for price in flow.own_fills["price"]]
    values += lines["trade"].bounds() or () if "trade" in lines else ()
    for name in ("bid", "ask"):
        known = sorted(one for one in lines[name].last if one is not None) if name in lines else []
        if known:
            beyond = len(known) // 50
            values += [known[beyond], known[-1 - beyond]]
    return (min(values), max(values)) if values else None


def price_unit(labels: Sequence[str], low: int) -> Unit:
    """Return the unit of prices: ticks, or the texts of the ticks from ``low`` on, such as odds."""
    if not labels:
        return NUMBER

    def write(price: int) -> str:
        return labels[price - low] if 0 <= price - low < len(labels) else ""

    return Unit("price", write)


def price_title(unit: Unit) -> str:
    """Return the title of a panel of prices."""
    return "price, in ticks" if unit is NUMBER else "price, as odds"


def price_panel(
    flow: Flow, lines: dict[str, Columns], scale: Scale, unit: Unit, span: Span
) -> Panel:
    """Draw best prices, trades and own fills."""
    panel = Panel(price_title(unit), 260, scale, unit, span)
    numbers = {}
    for name, label in (("trade", "trades"), ("bid", "best bid"), ("ask", "best ask")):
        if name in lines:
            numbers[name] = panel.add_line(name, label, lines[name])
    if "bid" in lines and "ask" in lines:
        panel.add_band("spread", numbers["bid"], numbers["ask"])
    _add_own(panel, flow)
    return panel


def volume_panel(flow: Flow, span: Span) -> Panel:
    """Draw the traded volume of each column."""
    sums: list[int | None] = [*add_up(flow.trades["ts_ns"], flow.trades["size"], span.fine)]
    panel = Panel("volume, in lots", 60, Scale(0, 1), NUMBER, span, zero=True)
    panel.summary = f"{number(flow.volume)} lots in all."
    series = panel.add_series("volume", "volume", Columns(sums, sums, sums), adds=True)
    # No margin below zero, a small one above.
    panel.scale = Scale(0, max(one or 0 for one in panel.wide[series].last) * 17 // 16 + 1)
    panel.add_band("volume", None, series)
    return panel


def depth_panel(flow: Flow, heat: Heat, unit: Unit, span: Span) -> Panel:
    """Draw own fills over the heat map of the depth."""
    panel = Panel(price_title(unit), 300, heat.scale, unit, span, image=heat.image, factor=2)
    panel.summary = f"Sizes from {number(heat.least)} to {number(heat.most)} lots."
    panel.keys += [LegendEntry("bids", "bids", "block"), LegendEntry("asks", "asks", "block")]
    _add_own(panel, flow)
    return panel


def _add_own(panel: Panel, flow: Flow) -> None:
    """Draw own fills."""
    fills, span = flow.own_fills, panel.span
    if not len(fills):
        return
    columns = [span.column(ts_ns) for ts_ns in fills["ts_ns"].tolist()]
    heights = [panel.scale.y(panel.factor * price) for price in fills["price"].tolist()]
    many = " many" if len(fills) > MANY else ""
    for kind, (colour, label) in enumerate(KINDS):
        mine = np.flatnonzero(_kinds(flow) == kind).tolist()
        if mine:
            places = strokes.thin([(columns[one], heights[one]) for one in mine], span.columns)
            classes = ["rim", colour.removesuffix(" taker"), *(["taker"] if kind > 1 else [])]
            colours = [f"{each}{many}" for each in classes]
            panel.layers += [strokes.dots(places, each) for each in colours]
            panel.plan.append({"dots": kind, "colours": colours})
            panel.keys.append(LegendEntry(colour, label, "dot"))


def _kinds(flow: Flow) -> npt.NDArray[np.int64]:
    """Return the index in :data:`KINDS` of each own fill."""
    kinds: npt.NDArray[np.int64] = 2 * (flow.own_fills["resting"] != 1).astype(np.int64)
    kinds += ~flow.buys
    return kinds


def own_data(flow: Flow, span: Span) -> dict[str, Any]:
    """Return the own fills of a book for the script: the first of each fine column, all counted."""
    fills, kinds = flow.own_fills, _kinds(flow)
    columns = [span.fine.column(ts_ns) for ts_ns in fills["ts_ns"].tolist()]
    counts: Counter[int] = Counter()
    kept = []
    for place, column in enumerate(columns):
        counts[column] += 1
        if counts[column] <= TOOLTIP_FILLS_MAX:
            kept.append(place)
    known = [columns[place] for place in kept]
    more = {at: count - TOOLTIP_FILLS_MAX for at, count in sorted(counts.items())}
    return {
        "columns": [after - before for before, after in itertools.pairwise([0, *known])],
        "kinds": kinds[kept].tolist(),
        "prices": fills["price"][kept].tolist(),
        "sizes": fills["size"][kept].tolist(),
        "more": [[at, count] for at, count in more.items() if count > 0],
    }
