"""A day of trading: in the end everybody has what the trades say, to the last wei.

Method: 500 makers trade in 50 markets with accounts and fees, by a seeded flow of submissions,
cancels, replacements, reductions and batches. The ledger of the test knows what everybody had in
the morning, and then hears the events and nothing else.
"""

import random  # noqa: TID251 - seeded, and outside the engine
from collections import Counter

import msgspec
import pytest

from clob import Funds, RejectedError, SetBalance, Side, Trade
from tests.books import Ledger
from tests.matcher_model.flow import Flow
from tests.matcher_model.worlds import busy, market

WEALTH = 10**22
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
    wealth=WEALTH,
    largest_lots=10**20,
    broken=0.0,
)


class Bank:
    """Who has what, by the events alone; and the books of each market, too."""

    def __init__(self):
        self.had, self.books, self.traded = Counter(), {}, Counter()
        self.collateral = {each.id: each.collateral for each in DAY.markets}

    def hear(self, events):
        """Take in the events of a command, which may concern several markets."""
        for name in dict.fromkeys(event.market for event in events):
            ledger = self.books.setdefault(name, Ledger())
            ledger.apply([event for event in events if event.market == name])
        for event in events:
            if isinstance(event, Trade):
                self.pay(event)

    def pay(self, trade):
        """Let a trade change hands: its price at the seller's, its size at the buyer's."""
        self.traded[trade.market] += trade.size
        cost, cash = trade.size * trade.price // 100, self.collateral[trade.market]
        self.had[trade.buyer, cash] -= cost
        self.had[trade.seller, cash] += cost - trade.seller_fee
        self.had["fees", cash] += trade.seller_fee
        self.had[trade.seller, trade.token] -= trade.size
        self.had[trade.buyer, trade.token] += trade.size - trade.buyer_fee
        self.had["fees", trade.token] += trade.buyer_fee

    def held(self):
        """Sum up what the resting orders need: collateral, and tokens of each market."""
        needs = Counter()
        for name, ledger in self.books.items():
            for side, price, left in ledger.resting.values():
                if side is Side.BUY:
                    needs[self.collateral[name]] += left * price // 100
                else:
                    needs[name] += left
        return needs


def trade_for_a_day(matcher, commands):
    """Open the markets, fund everybody, trade; give the matcher's day to its bank."""
    bank, flow = Bank(), Flow(random.Random("a day"), DAY, matcher)
    for command in flow.opening():
        matcher.apply(command)
        if isinstance(command, SetBalance):
            bank.had[command.wallet, command.asset] = command.amount
    morning, refused = assets_of(bank.had), 0
    for _ in range(commands):
        try:
            events = matcher.apply(flow.command(KINDS))
        except RejectedError:
            refused += 1
            continue
        bank.hear([event for event in events if hasattr(event, "seq")])
    assert sum(book.seq for book in bank.books.values()) > commands
    assert refused < commands / 3
    assert len(bank.traded) == len(DAY.markets), "not every market traded"
    return bank, morning


def assets_of(had):
    """Sum up each asset over all wallets."""
    found = Counter()
    for (_, asset), amount in had.items():
        found[asset] += amount
    return found


def everybody_has_what_the_trades_say(matcher, commands):
    bank, morning = trade_for_a_day(matcher, commands)
    evening = {key: account.balance for key, account in matcher.balances().items()}
    assert evening == {key: amount for key, amount in bank.had.items() if amount}
    assert assets_of(evening) == morning, "an asset was made or lost"
    assert bank.had["fees", "collateral"] > 0
    assert any(bank.had["fees", each.yes] > 0 for each in DAY.markets)
    in_books_there_is_what_the_events_say(matcher, bank)
    reserves_are_what_the_books_need(matcher, bank)
    after_the_last_cancel_nothing_is_held(matcher)


def in_books_there_is_what_the_events_say(matcher, bank):
    for name, ledger in bank.books.items():
        assert matcher.seq(name) == ledger.seq
        found = matcher.open_orders(market=name)
        shown = {x.order.id: (x.order.side, x.price, x.remaining) for x in found}
        assert shown == ledger.resting


def reserves_are_what_the_books_need(matcher, bank):
    reserved, of_market = Counter(), {t: m.id for m in DAY.markets for t in (m.yes, m.no)}
    for (_, asset), account in matcher.balances().items():
        reserved[of_market.get(asset, asset)] += account.reserved
        assert account.unsettled == 0
        assert account.available >= 0
    assert +reserved == bank.held()


def after_the_last_cancel_nothing_is_held(matcher):
    matcher.cancel_all(now_ms=matcher.now_ms)
    assert not any(account.reserved for account in matcher.balances().values())
    matcher.audit()


def test_after_a_day_everybody_has_what_the_trades_say(matcher_class):
    everybody_has_what_the_trades_say(matcher_class(), 15_000)


@pytest.mark.long
def test_after_a_long_day_everybody_has_what_the_trades_say(matcher_class):
    everybody_has_what_the_trades_say(matcher_class(), 200_000)
