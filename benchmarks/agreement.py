"""The same rule over the same day in three libraries: equal positions, cash and fills.

The rule takes a lot at the best price, from the side that has less, at fixed times. Its orders
never wait in a queue, and no library changes the recorded book for them, so that models of queues
and of the effect of own orders play no part.
"""

import os
from pathlib import Path
from typing import NamedTuple

from benchmarks import history
from clob.order import Side, TimeInForce
from clob.replay import Backtest, MarketView, Strategy, backtest, open_stream
from clob.replay.io.recording import CENTS, Records, join
from clob.replay.samples.synthetic import LOT_WEI

EVERY_NS, LIMIT = 100_000_007, 20
"""Interval of the decisions, and the largest position in lots, long or short."""


END_NS = 1_000_000_000
"""The rule stops this long before the last event, after which libraries differ in the time."""


RECORDED = "golden_esh4_1_99.npz"
"""A recorded hour of a future in the folder ``CLOB_DATA_DIR``, on prices from 1 to 99."""

RECORDED_EVERY_NS = 30_000_000_007
"""The interval over the recorded hour: a lot that was taken is rarely at the best price by then.

Its levels have few lots, and ``mode="shadow"`` does not take a recorded lot twice, but hftbacktest
does.
"""


def recorded() -> Records | None:
    """Return the events of the recorded hour, None if the file is missing."""
    path = Path(os.environ.get("CLOB_DATA_DIR", "."), RECORDED)
    return join(list(open_stream(path).chunks())) if path.exists() else None


class Taken(NamedTuple):
    """The end of a run."""

    position: int
    """In lots."""
    cash: int
    """Cents received less cents paid, per lot."""
    fills: int


def decision(bid_size: int, ask_size: int, position: int) -> int:
    """Return 1 to buy a lot at the best ask, -1 to sell one at the best bid, or 0."""
    way = (bid_size > ask_size) - (bid_size < ask_size)
    return way if abs(position + way) <= LIMIT else 0


class Taker(Strategy):
    """Takes by :func:`decision` at each wake-up at a time without an event."""

    def __init__(self, event_times: set[int]) -> None:
        self._event_times = event_times
        self._end_ns = max(event_times) - END_NS
        self.times: list[int] = []
        """The times of the decisions, for the other libraries."""

    def on_wake(self, market: MarketView) -> None:
        """Take a lot, or wait."""
        if market.now_ns in self._event_times or market.now_ns > self._end_ns:
            return
        self.times.append(market.now_ns)
        bids, asks = market.depth(1)
        if not (bids and asks):
            return
        way = decision(bids[0].size, asks[0].size, market.position)
        if way > 0:
            market.buy(asks[0].price, 1, time_in_force=TimeInForce.IOC)
        elif way < 0:
            market.sell(bids[0].price, 1, time_in_force=TimeInForce.IOC)


def taken(events: Records, every_ns: int = EVERY_NS) -> tuple[Taken, list[int]]:
    """Run the rule over a history; return its end, and the times of its decisions."""
    taker = Taker(set(events["ts_ns"].tolist()))
    result = backtest(
        history.stream_of(events), mode="shadow", strategy=taker, every_ns=every_ns, keep=()
    )
    return taken_of(result), taker.times


def taken_of(result: Backtest) -> Taken:
    """Return the end of a run: the position by its fills, the cash by its portfolio."""
    buys = {int(row["order_id"]): row["side"] == Side.BUY for row in result.orders}
    fills = result.own_fills[result.own_fills["size"] > 0]
    position = sum(int(fill["size"]) * (1 if buys[int(fill["order_id"])] else -1) for fill in fills)
    cash_wei = int(result.equity[-1]["collateral"]) if len(result.equity) else 0
    return Taken(position, cash_wei // (LOT_WEI // CENTS), len(fills))
