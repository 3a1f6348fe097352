"""Runs for reports: one book, several books, and a strategy with some rejected orders."""

from clob.replay import (
    CurveFees,
    Instrument,
    Latency,
    Stream,
    backtest,
    merge,
    synthetic_day,
)
from clob.replay.strategies import MarketMaker

MINUTE_NS = 60 * 10**9
NAME = 'Will <script>alert("it")</script> rain & snow?'
LATENCY = Latency(5 * 10**6, 5 * 10**6)


class Busy(MarketMaker):
    """Quotes, sometimes takes, and sometimes sends an invalid order."""

    def on_wake(self, market):
        super().on_wake(market)
        if market.now_ns // MINUTE_NS % 3 == 0:
            market.buy(120, 5)
            if market.best_ask:
                market.buy(market.best_ask, 40)


def stream_of(seed, orders, number, market, outcome="YES"):
    """Return a synthetic day with an instrument number."""
    day = Stream.of(synthetic_day(seed=seed, orders=orders))

    def blocks():
        for events in day.chunks():
            events["instrument"] = number
            yield events

    return Stream(
        blocks,
        lo=day.lo,
        hi=day.hi,
        lot_wei=day.lot_wei,
        instruments=[Instrument(number, market, outcome)],
        name=market,
    )


def run(stream, **arguments):
    """A run of the busy strategy."""
    mine = {"every_ns": 10 * MINUTE_NS, "latency": LATENCY, "fees": CurveFees(200), "sample": 64}
    return backtest(stream, strategy=Busy(size=300, limit=3_000), **mine | arguments)


def several_parts():
    """Return two markets, one with both outcomes, as one stream per book."""
    parts = [(4, 0, NAME, "YES"), (5, 1, NAME, "NO"), (6, 0, "frost", "YES")]
    return [stream_of(seed, 900, *rest) for seed, *rest in parts]


def several():
    """Two markets, one with both outcomes."""
    return merge(several_parts())
