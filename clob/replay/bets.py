"""The money of bets: profit and commission of a run whose prices are odds, as at Betfair.

A portfolio multiplies sizes by ticks, which are steps of a ladder of odds there and not money. A
bet of a stake at odds wins ``stake * (odds - 1)`` or loses the stake. A sold lot is a back of the
runner, a bought lot is a lay.
"""

from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

from clob.order import Side
from clob.replay.errors import PortfolioError
from clob.replay.results import Backtest
from clob.replay.sim.fees import Commission


class BetMoney(NamedTuple):
    """The settled bets of a run, in wei of the currency of the stakes."""

    profit: int
    """Sum over all bets before commission."""
    commission: int
    """Commission on the net winnings of each market or group of runners."""

    @property
    def net(self) -> int:
        """Profit after commission."""
        return self.profit - self.commission


def settle_bets(
    result: Backtest, winners: Collection[int], commission: Commission | None = None
) -> BetMoney:
    """Settle the own fills of a run as bets; every runner without an entry has lost.

    Args:
        result: a run of a stream whose prices have labels of decimal odds.
        winners: market numbers of the runners that won.
        commission: rate, and groups of runners whose winnings count together, such as a race; None
            charges nothing.

    Returns:
        The money; each bet is rounded down to the wei.

    Raises:
        PortfolioError: the prices of the run are not odds.

    A back of 10 at odds of 3.0 wins 20 or loses 10; a lay of 10 at 3.0 wins 10 or loses 20.
    """
    labels, lo = result.setting.labels, result.setting.lo
    if not labels:
        raise PortfolioError(f"{result.name}: bets need prices that are odds; they are ticks")
    profits: dict[int, int] = {}
    fields = ("instrument", "side", "price", "size")
    for instrument, side, price, size in result.own_fills[list(fields)].tolist():
        stake = size * result.setting.lot_wei
        gain = stake * (Fraction(labels[price - lo]) - 1)
        backs = gain if instrument // 2 in winners else Fraction(-stake)
        profits[instrument // 2] = (
            profits.get(instrument // 2, 0) + (backs if side == Side.SELL else -backs).__floor__()
        )
    charged = 0
    if commission is not None:
        groups = {commission.group(market) for market in profits}
        charged = sum(
            commission.of(sum(profits.get(market, 0) for market in group)) for group in groups
        )
    return BetMoney(sum(profits.values()), charged)
