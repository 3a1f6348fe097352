"""What a notebook shows of a run: the headline as a small table, and the line of its wealth."""

from typing import TYPE_CHECKING

from clob.replay.report.axes import HEIGHT, scale_of
from clob.replay.report.columns import Span, reduce_steps
from clob.replay.report.facts import Money, money_of
from clob.replay.report.strokes import steps
from clob.replay.report.tags import Markup, tag
from clob.replay.report.words import amount, change, number

if TYPE_CHECKING:
    from clob.replay.results import Backtest

COLUMNS = 240
"""How many columns the line has."""


def notebook(result: "Backtest") -> str:
    """Write a run as a small table, with the line of its wealth if it had a strategy.

    Args:
        result: the run.
    """
    money = money_of(result)
    rows = [
        ("events", number(result.events)),
        ("trades", number(result.counts["fills"])),
        ("check", str(result.check) if result.check else "nothing recorded"),
        *((kind, number(count)) for kind, count in result.divergence.counts.items()),
    ]
    if money is not None:
        rows += [
            ("profit", change(money.profit)),
            ("realised", change(money.realised)),
            ("fees", amount(money.fees)),
            ("largest drawdown", amount(money.drawdown)),
            ("own orders", number(len(result.orders))),
            ("own fills", number(len(result.own_fills))),
        ]
    rows.append(("digest", result.digest[:16]))
    cells = (tag("tr", tag("th", name), tag("td", value)) for name, value in rows)
    line = Markup("") if money is None else _line(result, money)
    return tag("div", tag("table", tag("caption", result.name or "replay"), *cells), line)


def _line(result: "Backtest", money: Money) -> Markup:
    """Draw the wealth in the colour of the text around it."""
    start, last = result.setting.start_ns, result.setting.last_ns
    span = Span(start, max(last, start), COLUMNS)
    wealth = reduce_steps(result.equity["ts_ns"], result.equity["wealth"], span)
    scale = scale_of(*(wealth.bounds() or (money.initial, money.initial)))
    path = tag(
        "path",
        d=steps(wealth, scale),
        fill="none",
        stroke="currentColor",
        stroke_width=1,
        vector_effect="non-scaling-stroke",
    )
    return tag(
        "svg",
        path,
        viewBox=f"0 0 {2 * COLUMNS} {HEIGHT}",
        preserveAspectRatio="none",
        style="width:100%;max-width:30rem;height:4rem",
        role="img",
        aria_label=f"wealth, ending at {amount(money.wealth)}",
    )
