"""A strategy of your own over a recording: its fills and its profit as tables.

    python examples/backtest.py [FILE]

Without a file it uses the sample day of the package. Needs `pip install 'clob[replay]'`.
"""

import sys

from clob.replay import Fill, Latency, MarketView, Strategy, backtest, open_stream, sample_path
from clob.units import format_tokens


class Reverter(Strategy):
    """Bids and offers around a slow average of the middle price, up to a limit of position."""

    def __init__(self, size: int = 200, limit: int = 2_000, edge: float = 1.5) -> None:
        self.size, self.limit, self.edge = size, limit, edge
        self.average: float | None = None
        self.num_fills = 0

    def on_wake(self, market: MarketView) -> None:
        """Replace both orders; called every minute."""
        for order in market.open_orders:
            market.cancel(order)
        if not (market.best_bid and market.best_ask):
            return
        middle = (market.best_bid + market.best_ask) / 2
        self.average = middle if self.average is None else 0.98 * self.average + 0.02 * middle
        bid = min(int(self.average - self.edge), market.best_bid)
        ask = max(int(self.average + self.edge) + 1, market.best_ask)
        if market.position < self.limit and bid >= 1:
            market.buy(bid, self.size, post_only=True)
        if market.position > -self.limit and ask <= 99:
            market.sell(ask, self.size, post_only=True)

    def on_fill(self, market: MarketView, fill: Fill) -> None:
        """Count a fill."""
        self.num_fills += 1


stream = open_stream(sys.argv[1] if len(sys.argv) > 1 else sample_path())
result = backtest(
    stream,
    strategy=(strategy := Reverter()),
    mode="shadow",
    every_ns=60 * 10**9,
    latency=Latency(order_ns=5_000_000, reply_ns=5_000_000),
)
print(result)
assert strategy.num_fills == len(result.own_fills)
print("side  price    size  time")
for fill in result.own_fills[:5]:
    order = result.orders[result.orders["order_id"] == fill["order_id"]][0]
    side = "sell" if order["side"] else "buy"
    print(f"{side:4}  {fill['price']:5}  {fill['size']:6}  {fill['ts_ns'] / 1e9:.3f} s")
profit = int(result.equity["wealth"][-1])
print("profit", ("-" if profit < 0 else "") + format_tokens(abs(profit)), "of collateral")
