"""Return, risk and quality of the trading of a backtest.

Amounts are whole wei and sizes whole lots; ratios are floats. A figure that a run does not have,
such as a return on unlimited credit, is None, and never a NaN.
"""

# ruff: noqa: D102 - the members of the protocols are documented by Backtest and Setting

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from clob.replay.io.recording import Records
from clob.replay.io.streams import OWN_ID
from clob.replay.sim.markouts import NO_MID
from clob.replay.sim.marks import EQUITY_EVERY_NS
from clob.replay.sim.orders import OrderState
from clob.replay.sim.portfolio import Portfolio

NS_PER_S = 10**9
YEAR_NS = 365 * 24 * 3_600 * NS_PER_S
"""The year of annual figures: 365 days, since prediction markets do not close."""

HORIZONS_NS = (NS_PER_S, 10 * NS_PER_S, 60 * NS_PER_S)
"""Times after an own fill at which adverse selection is measured."""


@dataclasses.dataclass(frozen=True)
class AdverseSelection:
    """How far the middle of others moved against own fills, some time after them."""

    horizon_ns: int
    """The time after each fill."""
    fills: int
    """Number of fills with a middle before the fill and at the horizon."""
    lots: int
    """Their size."""
    mean_ticks: float | None
    """The mean move in ticks by lots, positive against the own order: down after a buy, up after a
    sell. None without such fills."""


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The holding of one token over the run, in wei of the token; negative if owed."""

    instrument: int
    """Number of the token."""
    mean: int
    """Mean holding over the time of the run, rounded towards zero."""
    highest: int
    """Largest holding, in either direction, as an amount of 0 or more."""
    last: int
    """Holding at the end."""


@dataclasses.dataclass(frozen=True)
class RunMetrics:
    """The metrics of one run. :data:`DEFINITIONS` defines each ratio in words."""

    profit: int
    """Final wealth minus the initial collateral, in wei."""
    total_return: float | None
    """Profit divided by the initial collateral; None with unlimited credit or no collateral."""
    sharpe: float | None
    """Annual Sharpe ratio of the profit per step; None with fewer than two steps or no variance."""
    sortino: float | None
    """Annual Sortino ratio of the profit per step; None with fewer than two steps or no losing
    one."""
    step_ns: int
    """The step of both ratios."""
    steps: int
    """Number of whole steps of the run."""
    drawdown: int
    """Largest fall of the wealth below an earlier peak or the initial collateral, in wei."""
    turnover: int
    """Sum of size times price of all own fills, in wei."""
    hit_rate: float | None
    """Share of closing fills, those that realised an amount, with a profit after fees."""
    closing_fills: int
    """Number of fills that realised a profit or a loss."""
    fill_ratio: float | None
    """Filled lots divided by the lots of accepted orders; None without such an order."""
    adverse: tuple[AdverseSelection, ...]
    """The move against own fills at each of the ``horizons_ns`` of the run; empty without any."""
    queue_ns: int | None
    """Median time from resting to the first fill of orders that rested and were filled; None
    without one. Of two middle values it is the lower one."""
    inventory: tuple[Inventory, ...]
    """The holding of each token that changed."""

    def rows(self) -> Iterator[tuple[str, int | float | None]]:
        """Iterate over all figures as flat pairs of name and value, for tables.

        Adverse selection has a row per horizon, such as ``adverse_1s``. Inventory is summed over
        the absolute amounts of all tokens.
        """
        for name in SCALARS:
            yield name, getattr(self, name)
        for one in self.adverse:
            yield f"adverse_{one.horizon_ns // NS_PER_S}s", one.mean_ticks
        for name in ("mean", "highest", "last"):
            yield f"inventory_{name}", sum(abs(getattr(one, name)) for one in self.inventory)


SCALARS = (
    "profit",
    "total_return",
    "sharpe",
    "sortino",
    "step_ns",
    "steps",
    "drawdown",
    "turnover",
    "hit_rate",
    "closing_fills",
    "fill_ratio",
    "queue_ns",
)
"""The figures that are one value."""

DEFINITIONS: Mapping[str, str] = {
    "total_return": "profit / initial collateral",
    "sharpe": "mean / standard deviation (n - 1) of the profit per step, times the square root of "
    "the steps in 365 days; the risk-free rate is 0",
    "sortino": "mean / root of the mean square of the losing steps over all steps, times the "
    "square root of the steps in 365 days; the target is 0",
    "drawdown": "largest fall of the wealth below an earlier peak",
    "turnover": "sum of size times price of own fills",
    "hit_rate": "closing fills with a profit after fees / closing fills",
    "fill_ratio": "filled lots / lots of accepted orders",
    "queue_ns": "median time from resting to the first fill",
}
"""The definition of each figure, as the report prints it."""


class MeasuredSetting(Protocol):
    """The part of a setting that metrics read."""

    @property
    def start_ns(self) -> int: ...

    @property
    def last_ns(self) -> int: ...

    @property
    def lot_wei(self) -> int: ...

    @property
    def equity_every_ns(self) -> int | None: ...


class MeasuredRun(Protocol):
    """The part of a backtest that metrics read."""

    @property
    def portfolio(self) -> Portfolio | None: ...

    @property
    def setting(self) -> MeasuredSetting: ...

    @property
    def orders(self) -> Records: ...

    @property
    def own_fills(self) -> Records: ...

    @property
    def equity(self) -> Records: ...

    @property
    def positions(self) -> Records: ...

    @property
    def horizons_ns(self) -> tuple[int, ...]: ...

    @property
    def mids(self) -> npt.NDArray[np.int64]: ...


def metrics_of(result: MeasuredRun) -> RunMetrics | None:
    """Compute the metrics of a run; None without a strategy.

    Args:
        result: the run.
    """
    portfolio, setting = result.portfolio, result.setting
    if portfolio is None:
        return None
    equity, fills = result.equity, result.own_fills
    step_ns = setting.equity_every_ns or EQUITY_EVERY_NS
    wealth = np.concatenate([np.array([portfolio.initial], object), equity["wealth"]])
    profits = step_profits(equity, portfolio.initial, setting.start_ns, setting.last_ns, step_ns)
    profit = int(wealth[-1]) - portfolio.initial
    closing = [amount for amount in fills["realised"].tolist() if amount]
    return RunMetrics(
        profit=profit,
        total_return=_ratio(profit, portfolio.initial),
        sharpe=sharpe(profits, step_ns),
        sortino=sortino(profits, step_ns),
        step_ns=step_ns,
        steps=len(profits),
        drawdown=int((np.maximum.accumulate(wealth) - wealth).max()),
        turnover=_turnover(fills, setting.lot_wei, portfolio.scale),
        hit_rate=_ratio(sum(amount > 0 for amount in closing), len(closing)),
        closing_fills=len(closing),
        fill_ratio=_fill_ratio(result.orders, fills),
        adverse=tuple(_adverse(fills, result.mids, result.horizons_ns)),
        queue_ns=_queue_ns(result.orders, fills),
        inventory=tuple(_inventories(result.positions, setting.start_ns, setting.last_ns)),
    )


# ----- return and risk -----------------------------------------------------------------------


def step_profits(
    equity: Records, initial: int, start_ns: int, last_ns: int, step_ns: int
) -> list[int]:
    """Return the change of the wealth over each whole step of a run, in wei.

    Args:
        equity: rows of equity; a row holds until the next.
        initial: the wealth before the first step.
        start_ns: the start of the first step.
        last_ns: the end of the run; a step that it cuts is left out.
        step_ns: the step.
    """
    ends = np.arange(start_ns + step_ns, last_ns + 1, step_ns, dtype=np.int64)
    places = np.searchsorted(equity["ts_ns"], ends, side="right").tolist()
    values = [initial, *equity["wealth"].tolist()]
    at_ends = [initial, *(values[place] for place in places)]
    return [after - before for before, after in itertools.pairwise(at_ends)]


def sharpe(profits: list[int], step_ns: int) -> float | None:
    """Return the annual Sharpe ratio of profits per step; None if it is not defined.

    It is the mean divided by the standard deviation (n - 1), times the square root of the steps in
    :data:`YEAR_NS`. Profits are amounts, so it exists without collateral; the risk-free rate is 0.

    Args:
        profits: of each step, in wei.
        step_ns: the step.

    >>> round(sharpe([3, 1], 365 * 24 * 3_600 * 10**9), 6)
    1.414214
    """
    count, total = len(profits), sum(profits)
    if count < 2:
        return None
    # n * sum of squares - (sum)^2 is n * (n - 1) times the variance, exactly.
    spread = count * sum(one * one for one in profits) - total * total
    if not spread:
        return None
    return _signed_root(total, spread, count - 1, count * step_ns)


def sortino(profits: list[int], step_ns: int) -> float | None:
    """Return the annual Sortino ratio of profits per step; None if no step lost.

    It is the mean divided by the root of the mean square of the losses over all steps, times the
    square root of the steps in :data:`YEAR_NS`. The target is 0.

    Args:
        profits: of each step, in wei.
        step_ns: the step.

    >>> sortino([3, -1], 365 * 24 * 3_600 * 10**9) == 2**0.5
    True
    """
    losses = sum(one * one for one in profits if one < 0)
    if len(profits) < 2 or not losses:
        return None
    return _signed_root(sum(profits), losses, 1, len(profits) * step_ns)


def _signed_root(total: int, squares: int, factor: int, time_ns: int) -> float:
    """Return ``total * sqrt(factor * YEAR_NS / (squares * time_ns))``, from exact integers."""
    square = total * total * factor * YEAR_NS / (squares * time_ns)
    return math.copysign(math.sqrt(square), total)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _turnover(fills: Records, lot_wei: int, scale: int) -> int:
    """Sum up size times price, each fill as the portfolio rounds it."""
    pairs = zip(fills["size"].tolist(), fills["price"].tolist(), strict=True)
    return sum(abs(size * lot_wei * price // scale) for size, price in pairs)


def _adverse(
    fills: Records, mids: npt.NDArray[np.int64], horizons_ns: tuple[int, ...]
) -> Iterator[AdverseSelection]:
    """Return the mean move of the middle against the fills, by lots, at each horizon."""
    signs = np.where(fills["side"] == 0, 1, -1)
    for place, horizon_ns in enumerate(horizons_ns, 1):
        known = (mids[:, 0] != NO_MID) & (mids[:, place] != NO_MID)
        moves = (signs * (mids[:, 0] - mids[:, place]))[known].tolist()
        sizes = fills["size"][known].tolist()
        lots = sum(sizes)
        half_ticks = sum(move * size for move, size in zip(moves, sizes, strict=True))
        yield AdverseSelection(horizon_ns, len(sizes), lots, _ratio(half_ticks, 2 * lots))


# ----- orders --------------------------------------------------------------------------------


def _places(fills: Records) -> npt.NDArray[np.int64]:
    """Return the place of the order of each fill."""
    places: npt.NDArray[np.int64] = (fills["order_id"] - np.uint64(OWN_ID)).astype(np.int64)
    return places


def _fill_ratio(orders: Records, fills: Records) -> float | None:
    arrived = (orders["arrived_ns"] >= 0) & (orders["state"] != int(OrderState.REJECTED))
    return _ratio(sum(fills["size"].tolist()), sum(orders["size"][arrived].tolist()))


def _queue_ns(orders: Records, fills: Records) -> int | None:
    """Return the lower median of the times from resting to the first fill."""
    resting = fills[fills["resting"] == 1]
    places, first = np.unique(_places(resting), return_index=True)
    waits = sorted((resting["ts_ns"][first] - orders["arrived_ns"][places]).tolist())
    return waits[(len(waits) - 1) // 2] if waits else None


def _inventories(positions: Records, start_ns: int, last_ns: int) -> Iterator[Inventory]:
    """Return the holding of each token, weighted by time."""
    for instrument in np.unique(positions["instrument"]).tolist():
        rows = positions[positions["instrument"] == instrument]
        sizes = rows["size"].tolist()
        ends = [*rows["ts_ns"].tolist()[1:], max(last_ns, int(rows["ts_ns"][-1]))]
        spans = zip(sizes, rows["ts_ns"].tolist(), ends, strict=True)
        total = sum(size * (end - begin) for size, begin, end in spans)
        passed = max(last_ns - start_ns, 1)
        mean = abs(total) // passed * (1 if total >= 0 else -1)
        yield Inventory(instrument, mean, max(map(abs, sizes)), sizes[-1])
