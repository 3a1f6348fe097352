"""Orders of one maker in many markets, which an index of makers finds without the others."""

import random  # noqa: TID251 - seeded, and outside the engine
import subprocess
import sys

import pytest

from clob import (
    Cancel,
    CancelAll,
    Funds,
    Mode,
    RemovalReason,
    RemoveMarket,
    SetBalance,
    SetMode,
    SetNonce,
)
from clob.errors import InvalidMarketError, UnknownOrderError
from tests.matchers import buy, load, market, opened, rejected, sell

NAMES = [f"m{number}" for number in range(6)]

EMPTY_MARKETS = """
import os, sys
from clob import AddMarket, Market, Matcher

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

matcher, count = Matcher(), 20_000
before = resident()
for number in range(count):
    token = 10**76 + 2 * number
    market = Market(id=f"market {number}", yes=str(token), no=str(token + 1))
    matcher.apply(AddMarket(market=market))
print((resident() - before) / count)
"""


@pytest.fixture
def matcher(matcher_class):
    """A matcher with six markets."""
    return opened(matcher_class, *map(market, NAMES))


def rest(matcher, order_id, name, maker, price=50, size=100, **fields):
    """Rest a buy order for YES of a market."""
    token = matcher.market(name).yes
    matcher.apply(buy(order_id, price, size, maker=maker, token=token, market=name, **fields))


def removed_ids(events):
    """Return the ids of removed orders, in order."""
    return [event.order_id for event in events]


def test_cancel_all_removes_a_makers_orders_of_all_markets_in_the_order_of_acceptance(matcher):
    for number, name in enumerate(["m3", "m0", "m5", "m3", "m1"]):
        rest(matcher, f"a{number}", name, "alice")
        rest(matcher, f"b{number}", name, "bob")
    events = matcher.cancel_all(maker="alice")
    assert removed_ids(events) == ["a0", "a1", "a2", "a3", "a4"]
    assert [each.order.id for each in matcher.open_orders()] == ["b0", "b1", "b2", "b3", "b4"]
    matcher.audit()


def test_cancel_all_without_a_maker_removes_every_order_in_the_order_of_acceptance(matcher):
    for number, name in enumerate(["m3", "m0", "m5", "m3", "m1"]):
        rest(matcher, number, name, f"maker {number % 2}")
    assert removed_ids(matcher.cancel_all()) == [0, 1, 2, 3, 4]
    assert len(matcher) == 0
    matcher.audit()


def test_raised_nonce_removes_lower_orders_of_all_markets_in_the_order_of_acceptance(matcher):
    for number, name in enumerate(["m4", "m2", "m4", "m0"]):
        rest(matcher, number, name, "alice", nonce=number % 2)
    events = matcher.set_nonce("alice", 1)
    assert [(each.order_id, each.reason) for each in events] == [
        (0, RemovalReason.NONCE),
        (2, RemovalReason.NONCE),
    ]
    matcher.audit()


def test_cancel_all_of_a_maker_keeps_orders_in_halted_markets(matcher):
    for number, name in enumerate(NAMES[:3]):
        rest(matcher, number, name, "alice")
    matcher.apply(SetMode(market="m1", mode=Mode.HALTED))
    assert removed_ids(matcher.cancel_all(maker="alice")) == [0, 2]
    assert [each.market for each in matcher.open_orders("alice")] == ["m1"]


def test_reduced_balance_removes_orders_of_all_markets_that_it_no_longer_covers(matcher_class):
    markets = [market(name, funds=Funds.ACCOUNTS, collateral="usd") for name in NAMES]
    matcher = opened(matcher_class, *markets)
    matcher.apply(SetBalance(wallet="alice", asset="usd", amount=10**6))
    for number, name in enumerate(NAMES):
        rest(matcher, number, name, "alice", price=50, size=100)
    events = matcher.set_balance("alice", "usd", 120)
    assert removed_ids(events) == [5, 4, 3, 2]
    matcher.audit()


def test_index_of_makers_follows_random_commands_and_rolled_back_batches(matcher):
    rng = random.Random(23)
    for number in range(600):
        name, maker = rng.choice(NAMES), f"maker {rng.randrange(4)}"
        token = matcher.market(name).yes
        terms = {"maker": maker, "token": token, "market": name, "nonce": number}
        submit = rng.choice([buy, sell])(number, rng.randint(45, 55), 100, **terms)
        commands = [submit, CancelAll(maker=maker)]
        if rng.random() < 0.2:
            resting = [each.order.id for each in matcher.open_orders(maker)]
            commands[:0] = [Cancel(order_id=each) for each in resting[:2]]
            with rejected(matcher, UnknownOrderError):
                matcher.batch([*commands, Cancel(order_id="unknown")], atomic=True)
        elif rng.random() < 0.1:
            matcher.apply(rng.choice([CancelAll(maker=maker), SetNonce(maker=maker, nonce=number)]))
        else:
            matcher.apply(commands[0])
        if number % 20 == 0:
            matcher.audit()
    matcher.audit()
    assert type(matcher).restore(matcher.snapshot()).state_hash() == matcher.state_hash()


def test_number_of_orders_counts_resting_ones_only(matcher):
    rest(matcher, 1, "m0", "alice")
    rest(matcher, 2, "m1", "alice")
    matcher.cancel(1)
    assert (len(matcher), len(matcher.open_orders())) == (1, 1)


def test_token_that_is_the_collateral_of_another_market_is_rejected_until_that_is_removed(matcher):
    matcher.add_market(market("c", collateral="coin"))
    matcher.add_market(market("d", collateral="coin"))
    wanted = market("e", yes="coin", collateral="usd")
    for name in ("c", "d"):
        with pytest.raises(InvalidMarketError) as caught:
            matcher.add_market(wanted)
        assert str(caught.value) == f"token 'coin' is the collateral of market {name!r}"
        matcher.apply(SetMode(market=name, mode=Mode.RESOLVED))
        matcher.apply(RemoveMarket(market=name))
    matcher.add_market(wanted)
    matcher.audit()


def test_open_markets_are_those_with_resting_orders_of_the_maker(matcher):
    for number, name in enumerate(["m4", "m2", "m4"]):
        rest(matcher, number, name, "alice")
    rest(matcher, 9, "m1", "bob")
    assert (matcher.open_markets("alice"), matcher.open_markets("carol")) == (["m2", "m4"], [])
    matcher.cancel(1)
    assert matcher.open_markets("alice") == ["m4"]


def test_market_of_a_token_is_found_until_it_is_removed(matcher):
    assert matcher.market_of("m3-no") is matcher.market("m3")
    assert matcher.market_of("usd") is None
    matcher.apply(SetMode(market="m3", mode=Mode.RESOLVED))
    matcher.apply(RemoveMarket(market="m3"))
    assert matcher.market_of("m3-no") is None


def test_balances_of_a_wallet_are_its_own_part_of_all(matcher):
    for wallet, asset, amount in (("a", "usd", 5), ("b", "usd", 6), ("a", "eur", 7), ("a", "x", 0)):
        matcher.set_balance(wallet, asset, amount)
    assert list(matcher.balances("a")) == [("a", "eur"), ("a", "usd")]
    assert matcher.balances("a") | matcher.balances("b") == matcher.balances()
    assert matcher.balances("c") == {}


@pytest.mark.skipif(sys.platform != "linux", reason="not here: reads memory as Linux reports it")
def test_empty_market_takes_at_most_4_kb_of_memory():
    load("compiled")
    done = subprocess.run(
        [sys.executable, "-c", EMPTY_MARKETS], check=True, capture_output=True, text=True
    )
    assert float(done.stdout) < 4_096
