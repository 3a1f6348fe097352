"""The panels of a report: wealth and drawdown, positions, prices with own fills, depth."""

from collections import Counter, defaultdict

import numpy as np

from clob.replay.report import lines as strokes
from clob.replay.report.figure import LegendEntry, Panel, Tooltip, summary_of, texts_of
from clob.replay.report.formats import amount, change, number
from clob.replay.report.heatmap import Heat
from clob.replay.report.lines import Columns, Scale, Span, add_up, reduce_steps, scale_of
from clob.replay.report.run import ReportedRun
from clob.replay.report.summary import Flow, Money, drawdowns

TOOLTIP_FILLS_MAX = 4
"""How many own fills of a column the tooltip lists."""

MANY = 300
"""The number of own fills above which dots are small."""

KINDS = (
    ("buy", "bought, resting", True, True),
    ("sell", "sold, resting", False, True),
    ("buy taker", "bought, incoming", True, False),
    ("sell taker", "sold, incoming", False, False),
)
"""The kinds of own fills: CSS class, label, whether they buy, and whether they rested."""


def wealth_panels(result: ReportedRun, money: Money, span: Span) -> list[Panel]:
    """Draw wealth, drawdown and collateral."""
    rows = result.equity
    wealth = reduce_steps(rows["ts_ns"], rows["wealth"], span)
    low, high = wealth.bounds() or (0, 0)
    scale = scale_of(min(low, money.initial), max(high, money.initial))
    first = Panel("wealth, in collateral", 220, scale, amount, "")
    first.layers.append(strokes.level(scale.y(money.initial), 2 * span.columns))
    _add_line(first, wealth, "wealth", "wealth")
    zero = [0] * span.columns
    falls = reduce_steps(rows["ts_ns"], drawdowns(rows["wealth"]), span)
    second = Panel("drawdown", 90, scale_of(-money.drawdown, 0), change, "")
    second.layers.append(strokes.band(zero, falls.low, second.scale, "drawdown"))
    _add_line(second, falls, "drawdown", "drawdown")
    held = reduce_steps(rows["ts_ns"], rows["collateral"], span)
    third = Panel("collateral", 90, scale_of(*(held.bounds() or (0, 0)), zero=True), amount, "")
    _add_line(third, held, "collateral", "collateral")
    return [first, second, third]


def position_panel(flows: list[Flow], span: Span) -> Panel | None:
    """Draw the tokens of one market; None if there were no positions."""
    positions = [
        (flow, reduce_steps(flow.positions["ts_ns"], flow.positions["size"], span))
        for flow in flows
        if len(flow.positions)
    ]
    if not positions:
        return None
    bounds = [columns.bounds() or (0, 0) for _, columns in positions]
    scale = scale_of(min(low for low, _ in bounds), max(high for _, high in bounds), zero=True)
    panel = Panel("position, in tokens", 150, scale, amount, "")
    panel.layers.append(strokes.level(scale.y(0), 2 * span.columns))
    zero = [0] * span.columns
    for flow, columns in positions:
        colour = "no" if flow.instrument.number % 2 else "yes"
        if len(positions) == 1:
            panel.layers.append(strokes.band(zero, columns.last, scale, colour))
        _add_line(panel, columns, colour, flow.instrument.outcome)
    return panel


def _add_line(panel: Panel, columns: Columns, colour: str, label: str) -> None:
    """Add a line with its legend entry, tooltip and description."""
    panel.layers.append(strokes.line(columns, panel.scale, colour))
    panel.keys.append(LegendEntry(colour, label))
    panel.tooltips.append(Tooltip(colour, label, texts_of(columns, panel.write)))
    panel.summary = f"{panel.summary} {summary_of(label, columns, panel.write)}".strip()


def price_lines(flow: Flow, span: Span) -> dict[str, Columns]:
    """Reduce the kept best bids, best asks and trades of a book to columns."""
    lines = {}
    if len(flow.bests):
        for side in ("bid", "ask"):
            exists = flow.bests[f"{side}_size"] > 0
            lines[side] = reduce_steps(flow.bests["ts_ns"], flow.bests[side], span, exists)
    if len(flow.trades):
        lines["trade"] = reduce_steps(flow.trades["ts_ns"], flow.trades["price"], span)
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


def price_panel(flow: Flow, lines: dict[str, Columns], low: int, high: int, span: Span) -> Panel:
    """Draw best prices, trades and own fills."""
    scale = scale_of(low, high)
    panel = Panel("price, in ticks", 260, scale, number, "")
    if "bid" in lines and "ask" in lines:
        panel.layers.append(strokes.band(lines["bid"].last, lines["ask"].last, scale, "spread"))
    for name, label in (("trade", "trades"), ("bid", "best bid"), ("ask", "best ask")):
        if name in lines:
            _add_line(panel, lines[name], name, label)
    _add_own(panel, flow, span, 1)
    return panel


def volume_panel(flow: Flow, span: Span) -> Panel:
    """Draw the traded volume of each column."""
    sums = add_up(flow.trades["ts_ns"], flow.trades["size"], span)
    # No margin below zero, a small one above.
    scale = Scale(0, max(*sums, 1) * 17 // 16 + 1)
    panel = Panel("volume, in lots", 60, scale, number, f"{number(flow.volume)} lots in all.")
    panel.layers.append(strokes.band([0] * span.columns, sums, scale, "volume"))
    panel.tooltips.append(Tooltip("volume", "volume", [number(size) for size in sums]))
    return panel


def depth_panel(flow: Flow, heat: Heat, span: Span) -> Panel:
    """Draw own fills over the heat map of the depth."""
    panel = Panel(
        "price, in ticks",
        300,
        heat.scale,
        number,
        f"Sizes from {number(heat.least)} to {number(heat.most)} lots.",
        image=heat.image,
        twofold=True,
    )
    panel.keys += [LegendEntry("bids", "bids", "block"), LegendEntry("asks", "asks", "block")]
    _add_own(panel, flow, span, 2)
    return panel


def _add_own(panel: Panel, flow: Flow, span: Span, factor: int) -> None:
    """Draw own fills on a panel whose scale counts prices times a factor."""
    fills = flow.own_fills
    if not len(fills):
        return
    columns = [span.column(ts_ns) for ts_ns in fills["ts_ns"].tolist()]
    heights = [panel.scale.y(factor * price) for price in fills["price"].tolist()]
    many = " many" if len(fills) > MANY else ""
    for colour, label, buys, rests in KINDS:
        mine = np.flatnonzero((flow.buys == buys) & ((fills["resting"] == 1) == rests)).tolist()
        if mine:
            places = strokes.thin([(columns[one], heights[one]) for one in mine], span.columns)
            classes = ["rim", colour.removesuffix(" taker"), *([] if rests else ["taker"])]
            panel.layers += [strokes.dots(places, f"{each}{many}") for each in classes]
            panel.keys.append(LegendEntry(colour, label, "dot"))
    panel.tooltips.append(Tooltip("own", "own fills", own_texts(flow, columns, span.columns)))


def own_texts(flow: Flow, columns: list[int], count: int) -> list[str | None]:
    """Describe the own fills of each of ``count`` columns, from the column of each fill."""
    texts: dict[int, list[str]] = defaultdict(list)
    counts: Counter[int] = Counter()
    sizes, prices = (flow.own_fills[field].tolist() for field in ("size", "price"))
    for column, buys, size, price in zip(columns, flow.buys.tolist(), sizes, prices, strict=True):
        counts[column] += 1
        if counts[column] <= TOOLTIP_FILLS_MAX:
            word = "bought" if buys else "sold"
            texts[column].append(f"{word} {number(size)} at {number(price)}")
    described: list[str | None] = [None] * count
    for column, some in texts.items():
        more = counts[column] - len(some)
        described[column] = ", ".join(some) + (f" and {number(more)} more" if more else "")
    return described
