"""Withdrawn results: a trade that settled or failed waits for settlement again."""

import random  # noqa: TID251 - seeded

import pytest

from clob import Balance, Funds, OrderRemoved
from tests.matcher_model.flow import terms_of
from tests.matchers import buy, funded, market, opened, sell

TERMS = market(
    "m", funds=Funds.ACCOUNTS, settles=True, resting_fee_rate_bps=100, incoming_fee_rate_bps=50
)
PAIRED = market("m", funds=Funds.ACCOUNTS, settles=True, complementary=True, lot_wei=100)


def traded(matcher_class, terms=TERMS, size=400):
    """Return a matcher with one pending trade, or the two of a mint."""
    matcher = funded(opened(matcher_class, terms), ("B", "S"), 10_000)
    if terms is PAIRED:
        matcher.apply(buy("ask", 40, size, maker="S", token="m-no"))
    else:
        matcher.apply(sell("ask", 60, size))
    matcher.apply(buy("taker", 60, size))
    return matcher


def terms_in(matcher):
    """Return the terms of the pending trades."""
    pending = matcher._engine.markets["m"].pending
    return [terms_of(seq, pending[seq]) for seq in matcher.unsettled("m")]


@pytest.mark.parametrize("terms", [TERMS, PAIRED], ids=["direct", "pair"])
def test_withdrawn_settlement_restores_the_state_before_it(matcher_class, terms):
    matcher = traded(matcher_class, terms)
    waiting = terms_in(matcher)
    before = {
        key: account for key, account in matcher.balances().items() if account != Balance(0, 0, 0)
    }
    matcher.settled("m", [each.seq for each in waiting])
    assert matcher.balances() != before
    assert matcher.reopen("m", waiting, settled=True) == []
    after = {
        key: account for key, account in matcher.balances().items() if account != Balance(0, 0, 0)
    }
    assert after == before
    assert terms_in(matcher) == waiting
    matcher.audit()
    assert matcher_class.restore(matcher.snapshot()).snapshot() == matcher.snapshot()


@pytest.mark.parametrize("terms", [TERMS, PAIRED], ids=["direct", "pair"])
def test_withdrawn_failure_holds_the_amounts_again(matcher_class, terms):
    matcher = traded(matcher_class, terms)
    waiting, before = terms_in(matcher), matcher.snapshot()
    matcher.settle_failed("m", waiting[-1].seq)
    matcher.reopen("m", waiting, settled=False)
    assert matcher.snapshot() == before


def test_orders_that_a_withdrawn_failure_uncovers_are_removed_newest_first(matcher_class):
    matcher = traded(matcher_class)
    waiting = terms_in(matcher)
    matcher.settle_failed("m", waiting[0].seq)
    for name in ("old", "mid", "new"):
        matcher.apply(buy(name, 50, 6_600))  # 3,300 each of 10,000; the trade holds 240
    events = matcher.reopen("m", waiting, settled=False)
    assert [event.order_id for event in events] == ["new"]
    assert all(type(event) is OrderRemoved for event in events)
    matcher.audit()


@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_results_conserves_every_asset(matcher_class, seed):
    rng = random.Random(seed)
    matcher = funded(opened(matcher_class, TERMS), ("A", "B", "S"), 100_000)
    total = total_of(matcher)
    ended = {}
    for step in range(300):
        kind = rng.choice(("trade", "settle", "fail", "reopen", "reopen"))
        waiting = terms_in(matcher)
        if kind == "trade":
            price, size = rng.randint(1, 99), rng.randint(1, 50)
            matcher.apply(sell(f"s{step}", price, size, maker="S"))
            matcher.apply(buy(f"b{step}", price, size, maker=rng.choice("AB")))
        elif kind == "reopen" and ended:
            terms, settled = ended.pop(rng.choice(list(ended)))
            matcher.reopen("m", [terms], settled=settled)
        elif kind != "reopen" and waiting:
            terms = rng.choice(waiting)
            ended[terms.seq] = terms, kind == "settle"
            if kind == "settle":
                matcher.settled("m", [terms.seq])
            else:
                matcher.settle_failed("m", terms.seq)
        assert total_of(matcher) == total
        matcher.audit()
    for seq, (terms, settled) in ended.items():
        matcher.reopen("m", [terms], settled=settled)
        matcher.settle_failed("m", seq)
    for terms in terms_in(matcher):
        matcher.settle_failed("m", terms.seq)
    assert all(
        account.balance == (100_000 if wallet in "ABS" else 0)
        for (wallet, _), account in matcher.balances().items()
    )


def total_of(matcher):
    """Return the sum of each asset over all wallets."""
    total = {}
    for (_, asset), account in matcher.balances().items():
        total[asset] = total.get(asset, 0) + account.balance
    return total
