"""The headline of a report: the few figures one looks for first."""

from typing import TYPE_CHECKING

import numpy as np

from clob.replay.report.facts import Money, OwnOrders
from clob.replay.report.flow import Flow
from clob.replay.report.tags import Markup, tag
from clob.replay.report.words import amount, change, cut, number, percent

if TYPE_CHECKING:
    from clob.replay.results import Backtest


def tile(name: str, label: str, value: str, more: str = "", mood: str = "") -> Markup:
    """Write one figure of the headline.

    Args:
        name: its key, by which tests and people's scripts find it.
        label: what it is.
        value: the figure; long decimals are cut, the title has all of them.
        more: what stands below it.
        mood: ``good``, ``bad`` or nothing.
    """
    return tag(
        "div",
        tag("dt", label),
        tag("dd", cut(value), class_=f"value {mood}".strip(), title=value, data_figure=name),
        tag("dd", more, class_="faint") if more else Markup(""),
        class_="tile",
    )


def tiles(result: "Backtest", money: Money | None, orders: OwnOrders, flows: list[Flow]) -> Markup:
    """Write the headline."""
    volume = sum(result.fills["size"].tolist())
    kept = result.counts["fills"] == len(result.fills)
    found: list[Markup] = []
    if money is not None:
        found += _own(result, money, orders)
    found.append(tile("events", "Events", number(result.events)))
    wei = volume * result.setting.lot_wei
    traded = f"{number(volume)} lots, {cut(amount(wei))} tokens" if kept else "not kept"
    found.append(tile("fills", "Trades", number(result.counts["fills"]), traded))
    check = result.check
    if check is not None:
        told = f"{number(check.exact)} of {number(check.takers)} recorded takers exact"
        found.append(tile("exact", "Reproduced", percent(check.exact, check.takers), told))
    found.append(tile("divergences", "Divergences", number(result.divergence.total)))
    return tag("dl", *found, class_="tiles")


def _own(result: "Backtest", money: Money, orders: OwnOrders) -> list[Markup]:
    """Write the figures of a strategy."""
    fills = result.own_fills
    resting = int(np.count_nonzero(fills["resting"]))
    lots = sum(fills["size"].tolist())
    share = percent(lots, sum(orders.rows["size"].tolist()))
    settled = f"; {number(len(result.outcome))} markets settled" if len(result.outcome) > 1 else ""
    if len(result.outcome) == 1:
        settled = f"; settled, YES at {number(next(iter(result.outcome.values())))}"
    parts = f"{cut(change(money.realised))} realised, {cut(change(money.unrealised))} unrealised"
    tokens = f"and {cut(amount(money.fee_tokens))} tokens" if money.fee_tokens else ""
    mood = "good" if money.profit > 0 else "bad" if money.profit < 0 else ""
    return [
        tile("profit", "Profit", change(money.profit), parts + settled, mood),
        tile("drawdown", "Largest drawdown", amount(money.drawdown)),
        tile("fees", "Fees", amount(money.fees), tokens),
        tile(
            "own_fills",
            "Own fills",
            number(len(fills)),
            f"{number(resting)} resting, {number(len(fills) - resting)} incoming; "
            f"{number(lots)} lots",
        ),
        tile("own_orders", "Own orders", number(len(orders.rows)), f"{share} of the lots filled"),
    ]


def status(result: "Backtest") -> Markup:
    """Write whether the run is what history says, as a badge."""
    if result.check is None:
        return tag("span", "not compared", class_="badge")
    if result.check.ok and not result.divergence.total:
        return tag("span", "as recorded", class_="badge good")
    return tag("span", f"{number(result.divergence.total)} divergences", class_="badge warn")
