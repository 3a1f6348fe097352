"""A day of trading: the final balances follow exactly from the first ones and the trades.

Method: 500 makers trade in 50 markets with accounts and fees, by a seeded flow of submissions,
cancels, replacements, reductions and batches. The ledger of the test starts with the balances of
the makers and then gets only the events.
"""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import msgspec
import pytest

from clob import Funds, RejectedError, SetBalance, Side, Trade
from tests.books import Ledger
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import busy, market

START_BALANCE = 10**22
KINDS = {
    "submit": 620,
    "cancel": 120,
    "replace": 110,
    "reduce": 60,
    "batch": 80,
    "cancel_all": 2,
    "expire": 8,
}
BUSY = busy(markets=50, makers=500)
DAY = msgspec.structs.replace(
    BUSY,
    markets=tuple(
        market(
            f"m{n}",
            funds=Funds.ACCOUNTS,
            resting_fee_rate_bps=(0, 10, 250)[n % 3],
            incoming_fee_rate_bps=(35, 0, 1_000)[n % 3],
        )
        for n in range(50)
    ),
    smart_wallets=("",),
    wealth=START_BALANCE,
    largest_lots=10**20,
    broken=0.0,
)


class Bank:
    """Balances and books of all markets, by the events alone."""

    def __init__(self):
        self.balances, self.books, self.traded = Counter(), {}, Counter()
        self.collateral = {each.id: each.collateral for each in DAY.markets}

    def apply(self, events):
        """Apply the events of a command, which may be of several markets."""
        for name in dict.fromkeys(event.market for event in events):
            ledger = self.books.setdefault(name, Ledger())
            ledger.apply([event for event in events if event.market == name])
        for event in events:
            if isinstance(event, Trade):
                self.pay(event)

    def pay(self, trade):
        """Move collateral to the seller and tokens to the buyer, less the fees."""
        self.traded[trade.market] += trade.size
        cost, cash = trade.size * trade.price // 100, self.collateral[trade.market]
        self.balances[trade.buyer, cash] -= cost
        self.balances[trade.seller, cash] += cost - trade.seller_fee
        self.balances["fees", cash] += trade.seller_fee
        self.balances[trade.seller, trade.token] -= trade.size
        self.balances[trade.buyer, trade.token] += trade.size - trade.buyer_fee
        self.balances["fees", trade.token] += trade.buyer_fee

    def reserves(self):
        """Return the amounts that the resting orders need: collateral, and tokens by market."""
        needs = Counter()
        for name, ledger in self.books.items():
            for side, price, left in ledger.resting.values():
                if side is Side.BUY:
                    needs[self.collateral[name]] += left * price // 100
                else:
                    needs[name] += left
        return needs


def trade_for_a_day(matcher, commands):
    """Open the markets, fund the makers and trade; return the bank and the sum of each asset."""
    bank, flow = Bank(), Flow(random.Random("a day"), DAY, matcher)
    for command in flow.opening():
        matcher.apply(command)
        if isinstance(command, SetBalance):
            bank.balances[command.wallet, command.asset] = command.amount
    at_start, rejected = assets_of(bank.balances), 0
    for _ in range(commands):
        try:
            events = matcher.apply(flow.command(KINDS))
        except RejectedError:
            rejected += 1
            continue
        bank.apply([event for event in events if hasattr(event, "seq")])
    assert sum(book.seq for book in bank.books.values()) > commands
    assert rejected < commands / 3
    assert len(bank.traded) == len(DAY.markets), "not every market traded"
    return bank, at_start


def assets_of(balances):
    """Sum up each asset over all wallets."""
    sums = Counter()
    for (_, asset), amount in balances.items():
        sums[asset] += amount
    return sums


def check_a_day(matcher, commands):
    bank, at_start = trade_for_a_day(matcher, commands)
    at_end = {key: account.balance for key, account in matcher.balances().items()}
    assert at_end == {key: amount for key, amount in bank.balances.items() if amount}
    assert assets_of(at_end) == at_start, "an asset was created or lost"
    assert bank.balances["fees", "collateral"] > 0
    assert any(bank.balances["fees", each.yes] > 0 for each in DAY.markets)
    check_books(matcher, bank)
    check_reserves(matcher, bank)
    check_no_reserves_after_cancelling_all(matcher)


def check_books(matcher, bank):
    for name, ledger in bank.books.items():
        assert matcher.seq(name) == ledger.seq
        records = matcher.open_orders(market=name)
        resting = {x.order.id: (x.order.side, x.price, x.remaining) for x in records}
        assert resting == ledger.resting


def check_reserves(matcher, bank):
    reserved, of_market = Counter(), {t: m.id for m in DAY.markets for t in (m.yes, m.no)}
    for (_, asset), account in matcher.balances().items():
        reserved[of_market.get(asset, asset)] += account.reserved
        assert account.unsettled == 0
        assert account.available >= 0
    assert +reserved == bank.reserves()


def check_no_reserves_after_cancelling_all(matcher):
    matcher.cancel_all(now_ms=matcher.now_ms)
    assert not any(account.reserved for account in matcher.balances().values())
    matcher.audit()


def test_balances_follow_from_the_trades_of_a_day(matcher_class):
    check_a_day(matcher_class(), 15_000)


@pytest.mark.long
def test_balances_follow_from_the_trades_of_a_long_day(matcher_class):
    check_a_day(matcher_class(), 80_000)
