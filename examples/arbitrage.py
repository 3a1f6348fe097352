"""Arbitrage between a YES and a NO book, one file each.

    python examples/arbitrage.py [YES-FILE NO-FILE]

A pair of tokens is worth one unit of collateral: the strategy buys both where they cost less, and
splits and sells where they bring more. Without files it uses two days that know nothing of each
other, so it finds much more than a real market offers.
"""

import sys

from clob.replay import Stream, backtest, open_stream, pair, synthetic_day
from clob.replay.strategies import Arbitrage
from clob.units import format_tokens

if len(sys.argv) > 2:
    yes, no = open_stream(sys.argv[1]), open_stream(sys.argv[2])
else:
    yes, no = (Stream.of(synthetic_day(seed, 20_000)) for seed in (1, 2))
both = pair(yes, no, "rain")
for edge in (1, 3, 5):
    result = backtest(both, strategy=Arbitrage(edge=edge, size=500), every_ns=10 * 10**9)
    assert result.portfolio is not None
    profit = format_tokens(result.portfolio.realised)
    print(f"edge {edge}: {len(result.own_fills)} fills, {profit} realised")
