"""Bets at odds: stakes, winnings and commission, computed by hand."""

import pytest

from clob.replay import Commission, Instrument, PortfolioError, Strategy, Stream, backtest
from clob.replay.bets import settle_bets
from clob.replay.readers.betfair import odds_of, tick_of
from tests.books import ask, batch, bid
from tests.replay.streams import stream_of

POUND = 10**18
RUNNERS = (Instrument(0, "one"), Instrument(2, "two"))


class Bets(Strategy):
    """Sends one bet of ten pounds on each runner: a side and odds by market."""

    def __init__(self, **bets):
        self.bets = {int(name.removeprefix("runner_")): bet for name, bet in bets.items()}

    def on_start(self, market):
        if market.number in self.bets:
            side, odds = self.bets[market.number]
            (market.sell if side == "back" else market.buy)(tick_of(odds), 10)


def run(**bets):
    """Run bets against a lay at 3.00 and a back at 3.05 of both runners."""
    rows = []
    for instrument in (0, 2):
        rows.append(bid(1 + instrument, tick_of("3.00"), 50, instrument=instrument))
        rows.append(ask(2 + instrument, tick_of("3.05"), 50, instrument=instrument))
    events = batch(*rows)
    stream = Stream(
        lambda: [events.copy()],
        lo=1,
        hi=350,
        lot_wei=POUND,
        instruments=RUNNERS,
        labels=[str(odds_of(tick)) for tick in range(1, 351)],
    )
    return backtest(stream, strategy=Bets(**bets))


@pytest.mark.parametrize(
    ("bet", "won", "pounds"),
    [
        (("back", "3.00"), True, 20),
        (("back", "3.00"), False, -10),
        (("lay", "3.05"), True, "-20.5"),
        (("lay", "3.05"), False, 10),
    ],
)
def test_ten_pounds_at_about_three(bet, won, pounds):
    money = settle_bets(run(runner_0=bet), {0} if won else (), Commission(500))
    profit = round(float(pounds) * 10) * POUND // 10
    assert money.profit == profit
    assert money.commission == max(profit, 0) // 20
    assert money.net == profit - max(profit, 0) // 20


def test_runners_of_a_race_count_together():
    result = run(runner_0=("back", "3.00"), runner_1=("back", "3.00"))
    alone = settle_bets(result, {1}, Commission(500))
    race = settle_bets(result, {1}, Commission(500, together=((0, 1),)))
    assert (alone.profit, alone.commission) == (10 * POUND, POUND)
    assert (race.profit, race.commission) == (10 * POUND, POUND // 2)
    assert settle_bets(result, {1}) == (10 * POUND, 0)


def test_money_prices_are_no_odds():
    result = backtest(stream_of(bid(1, 40, 1)), strategy=Bets())
    with pytest.raises(PortfolioError, match="bets need prices that are odds"):
        settle_bets(result, ())
