"""Atomic batches: all commands or none, also for state that is not visible at once."""

import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob import (
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Limits,
    PairedTrade,
    Reduce,
    Rejected,
    Replace,
    SetLimits,
    Submit,
    Trade,
)
from clob.errors import TooManyTradesError, UnknownOrderError
from tests.matcher.test_queries import draw, outcome, world
from tests.matchers import buy, market, opened, rejected, sell

KINDS = (Submit, Cancel, CancelAll, CancelSome, Reduce, Replace)


def bundle(rng, matcher, number, now_ms):
    """Draw commands that are valid now one by one, but not always in sequence."""
    commands = []
    for place in range(rng.randint(1, 12)):
        command = draw(rng, rng.choice((number, 1_000 * number + place)), now_ms)
        if isinstance(command, KINDS) and matcher.check(command) is None:
            commands.append(command)
    return tuple(commands)


@pytest.mark.parametrize("seed", range(4))
def test_rejected_atomic_batch_changes_nothing(matcher_class, seed):
    """A batch that ends in a rejection is applied to one of two matchers; they stay equal."""
    rng, now_ms, taken_back, trades = random.Random(seed), 1_000, 0, 0
    tried, spared = world(matcher_class), world(matcher_class)
    for number in range(150):
        now_ms += rng.choice((0, 10, 600))
        commands = bundle(rng, spared, number, now_ms)
        doomed = Batch(commands=(*commands, Cancel(order_id="nobody")), atomic=True, now_ms=now_ms)
        before = (tried.snapshot(), tried.balances(), tried.open_orders())
        rejection, _ = outcome(tried, doomed)
        assert rejection is not None
        assert rejection.index <= len(commands)
        taken_back += rejection.index > 1
        assert (tried.snapshot(), tried.balances(), tried.open_orders()) == before
        tried.audit()
        alone = draw(rng, number, now_ms)
        results = [outcome(matcher, alone) for matcher in (tried, spared)]
        assert str(results[0][0]) == str(results[1][0])
        assert results[0][1] == results[1][1]
        trades += sum(hasattr(event, "incoming_side") for event in results[0][1])
        assert tried.snapshot() == spared.snapshot()
    assert taken_back > 30
    assert trades > 5


@pytest.mark.parametrize("seed", range(4))
def test_executed_batch_equals_its_commands_in_sequence(matcher_class, seed):
    rng, now_ms, done = random.Random(seed), 1_000, 0
    whole, single = world(matcher_class), world(matcher_class)
    for number in range(150):
        now_ms += rng.choice((0, 10, 600))
        commands = bundle(rng, whole, number, now_ms)
        if not commands:
            continue
        atomic = rng.random() < 0.5
        rejection, events = outcome(whole, Batch(commands=commands, atomic=atomic, now_ms=now_ms))
        if rejection is not None:
            assert atomic
            continue
        expected = []
        for index, command in enumerate(commands):
            alone, told = outcome(single, command)
            assert not (atomic and alone)
            expected += told if alone is None else [Rejected(index, alone.code, str(alone))]
        assert events == expected
        assert whole.snapshot() == single.snapshot()
        done += 1
    assert done > 30


def test_check_rolls_an_atomic_batch_back(matcher_class):
    matcher = world(matcher_class)
    matcher.apply(sell("s", 50, 40))
    before = matcher.snapshot()
    good = (buy("b", 50, 30), Replace(order_id="s", price=51, size=40), Cancel(order_id="s"))
    assert matcher.check(Batch(commands=good, atomic=True)) is None
    assert matcher.snapshot() == before
    bad = Batch(commands=(*good, Cancel(order_id="nobody")), atomic=True)
    expected = matcher.check(bad)
    assert (type(expected), expected.index) == (UnknownOrderError, 3)
    with rejected(matcher, UnknownOrderError):
        matcher.apply(bad)
    assert matcher.snapshot() == before
    assert matcher.apply(Batch(commands=good, atomic=True))
    matcher.audit()


SHARED = "the orders of a batch may make 5 trades together, and each of them one"


def with_sells(matcher_class, count, **fields):
    """Return a matcher with sell orders of 10 wei each, and a limit of 5 trades."""
    matcher = opened(matcher_class, market(**fields))
    matcher.apply(SetLimits(limits=Limits(trades_max=5)))
    for number in range(count):
        matcher.apply(sell(f"s{number}", 50, 100))
    return matcher


def test_orders_of_a_batch_share_the_limit_of_trades(matcher_class):
    matcher = with_sells(matcher_class, 20)
    sizes = (300, 300, 200, 200, 100)
    commands = tuple(buy(f"b{n}", 50, size) for n, size in enumerate(sizes))
    events = matcher.apply(Batch(commands=commands))
    trades = [e.incoming_order_id for e in events if type(e) is Trade]
    # b1 would make three trades of the two that are left, b3 two of one, b4 the one in any case.
    assert trades == ["b0"] * 3 + ["b2"] * 2 + ["b4"]
    reasons = {e.index: (e.code, e.message) for e in events if type(e) is Rejected}
    assert reasons == {
        1: (
            "TOO_MANY_TRADES",
            "an order may make at most 2 trades; got 3, a size of 200 wei fits; " + SHARED,
        ),
        3: (
            "TOO_MANY_TRADES",
            "an order may make at most 1 trades; got 2, a size of 100 wei fits; " + SHARED,
        ),
    }
    assert len(matcher.apply(buy("alone", 50, 500))) == 10  # the next command has the whole limit
    matcher.audit()


def test_atomic_batch_with_too_many_trades_together_is_rejected_whole(matcher_class):
    matcher = with_sells(matcher_class, 20)
    before = matcher.snapshot()
    batch = Batch(commands=(buy("b", 50, 300), buy("c", 50, 300)), atomic=True)
    assert SHARED in str(matcher.check(batch))
    with rejected(matcher, TooManyTradesError):
        matcher.apply(batch)
    assert matcher.snapshot() == before
    assert len(matcher.apply(buy("alone", 50, 500))) == 10


def test_first_order_of_a_batch_beyond_the_limit_gets_the_rule_of_one_order(matcher_class):
    matcher = with_sells(matcher_class, 20)
    [event] = matcher.apply(Batch(commands=(buy("b", 50, 600),)))
    assert event.message == "an order may make at most 5 trades; got 6, a size of 500 wei fits"


def test_both_trades_of_a_mint_count_once_against_the_limit_of_a_batch(matcher_class):
    matcher = with_sells(matcher_class, 0, complementary=True, lot_wei=100)
    for number in range(5):
        matcher.apply(buy(f"y{number}", 50, 100))
    no = tuple(buy(f"n{n}", 50, 300 - 100 * n, token="m-no") for n in range(2))
    events = matcher.apply(Batch(commands=no))
    assert sum(type(each) is PairedTrade for each in events) == 10
    assert not any(type(each) is Rejected for each in events)
