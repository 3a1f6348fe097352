"""Atomic batches: all commands or none, also for state that is not visible at once."""

import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob import Batch, Cancel, CancelAll, Reduce, Rejected, Replace, Submit
from clob.errors import UnknownOrderError
from tests.matcher.test_queries import draw, outcome, world
from tests.matchers import buy, rejected, sell

KINDS = (Submit, Cancel, CancelAll, Reduce, Replace)


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
