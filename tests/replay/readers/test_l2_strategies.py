"""Strategies on derived orders: the level rule decides which orders are ahead in the queue."""

import pytest

from clob.replay import Strategy, backtest
from clob.replay.readers.polymarket import read_polymarket
from tests.replay.readers.polymarket_messages import LOT, START, YES, T, book, change, trade

SECOND_NS = 10**9


class OneBid(Strategy):
    """Bids once, at the first event, at the end of the queue."""

    def on_start(self, market):
        self.sent = False

    def on_wake(self, market):
        if not self.sent:
            self.sent = market.buy(48, 5 * LOT) is not None


@pytest.fixture
def path(dump):
    """Ten tokens are ahead of the bid and ten after it; ten are cancelled and ten filled."""
    return dump(
        book(T, bids=[("0.48", "10")]),
        change(T + 3000, (YES, "BUY", "0.48", "20")),
        change(T + 6000, (YES, "BUY", "0.48", "10")),
        trade(T + 9000, "SELL", "0.48", "10"),
        change(T + 9000, (YES, "BUY", "0.48", "0")),
        change(T + 19_000, (YES, "BUY", "0.10", "1")),
    )


@pytest.mark.parametrize(("rule", "filled"), [("tail", 0), ("pro-rata", 5), ("head", 5)])
def test_level_rule_decides_whether_the_bid_is_filled(path, rule, filled):
    stream = read_polymarket(path, level_rule=rule)
    result = backtest(stream, strategy=OneBid(), every_ns=SECOND_NS)
    assert result.orders["filled"].tolist() == [filled * LOT]
    assert result.orders["ahead"].tolist() == [10 * LOT]


def test_digest_does_not_depend_on_chunks_or_book_class(path, book_class, dump):
    result = {
        backtest(read_polymarket(path), chunk=chunk, book_class=book_class).digest
        for chunk in (1, 7, 10**6)
    }
    assert result == {backtest(read_polymarket(path)).digest}
    other = backtest(read_polymarket(dump(START, name="other.jsonl")))
    assert other.digest not in result
