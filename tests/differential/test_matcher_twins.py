"""The compiled matcher against its plain-Python twin, and both against a naive one.

Method: a seeded flow of all commands over markets of every kind, valid ones and broken ones, goes
into both. Results must be equal, error texts included, and every 500 commands the snapshots. The
naive matcher shares no code with them; it gets the commands whose fields are of the right type, and
must have the same events, fees included, the same rejection codes and the same accounts.

``CLOB_DIFF_SEED`` sets the seed, ``CLOB_DIFF_OPS`` the number of commands in all.
"""

import os
import random  # noqa: TID251 - seeded, and outside the engine
from itertools import chain

import msgspec
import pytest

from clob import Limits, RejectedError, Trade
from tests import matchers
from tests.books import event_lines
from tests.matcher_model.flow import EVERYTHING, Flow
from tests.matcher_model.naive_pairs import NaiveOfBoth
from tests.matcher_model.pair import Pair
from tests.matcher_model.worlds import PAIRED, SMALL, TIGHT, busy

SEED = os.environ.get("CLOB_DIFF_SEED", "1")
OPS = os.environ.get("CLOB_DIFF_OPS")
SHORT, LONG = int(OPS or 10_000), int(OPS or 150_000)
WORLDS = {
    "small": SMALL,
    "tight": TIGHT,
    "paired": PAIRED,
    "busy": busy(markets=6, makers=40),
}
COMPARE_EVERY, RESTART_EVERY = 500, 2_000

NAIVE_KINDS = {
    kind: max(weight, 10)
    for kind, weight in EVERYTHING.items()
    if kind not in ("batch", "set_market", "add_market", "remove_market")
}
"""The commands that the naive matcher supports."""
TAME_LIMITS = (Limits(), Limits(orders_max=5), Limits(trades_max=2), Limits(batch_max=3))
"""Limits that the naive matcher supports; it keeps all finished orders."""


def drive(world, seed, commands):
    """Apply commands to both kinds; count the trades and rejections."""
    pair = Pair(matchers.load("python"), matchers.load("compiled"))
    flow = Flow(random.Random(seed), world, pair.compiled)
    for command in flow.opening():
        pair.step(command)
    for done in range(1, commands + 1):
        pair.step(flow.command())
        if done % COMPARE_EVERY == 0 or done == commands:
            pair.compare()
        if done % RESTART_EVERY == 0:
            pair.restart()
            flow.matcher = pair.compiled
    return pair.witness.trades, sum(pair.rejected.values())


def drive_all(world, commands):
    """Start new matchers regularly, so that most commands are for open markets."""
    length = 1_000 if WORLDS[world].small else 5_000
    parts = [
        drive(WORLDS[world], f"{world} {SEED} {part}", min(length, commands - part))
        for part in range(0, commands, length)
    ]
    check_mixture(parts, commands)


def check_mixture(parts, commands):
    """Check that enough commands traded, and a plausible share was rejected."""
    trades, rejected = (sum(counts) for counts in zip(*parts, strict=True))
    assert trades > commands / 20, "this flow hardly trades"
    assert commands / 20 < rejected < commands * 0.7, "too few or too many rejections"


worlds = pytest.mark.parametrize("world", WORLDS)


@worlds
def test_both_kinds_of_matcher_agree(world):
    drive_all(world, SHORT // len(WORLDS))


@pytest.mark.long
@worlds
def test_both_kinds_of_matcher_agree_on_long_flows(world):
    drive_all(world, LONG // len(WORLDS))


# ----- the naive matcher ---------------------------------------------------------------------


def lines(events):
    """Return events as the naive matcher does: lines with numbers, tokens and fees."""
    texts = []
    for event, line in zip(events, event_lines(events), strict=True):
        fees = f" fees {event.buyer_fee} {event.seller_fee}" if isinstance(event, Trade) else ""
        texts.append(f"{event.seq} {event.market} {event.token} {line}{fees}")
    return texts


def drive_naive(matcher, world, seed, commands):
    """Apply commands to a matcher and the naive one; count the trades and rejections."""
    naive = NaiveOfBoth()
    tame = msgspec.structs.replace(world, broken=0.0, limits=TAME_LIMITS)
    flow = Flow(random.Random(seed), tame, matcher)
    rejected = trades = 0
    for command in chain(flow.opening(), (flow.command(NAIVE_KINDS) for _ in range(commands))):
        try:
            result = lines(matcher.apply(command))
            trades += sum(" fees " in line for line in result)
        except RejectedError as error:
            result = error.code
            rejected += 1
        assert result == naive.apply(command), command
        for (wallet, asset), account in matcher.balances().items():
            expected = naive.account((wallet, asset))
            assert (account.balance, account.reserved, account.unsettled) == expected, command
    for order_id, order in naive.orders.items():
        assert matcher.order(order_id).removal == order["removal"], order_id
    return trades, rejected


def drive_naive_often(matcher_class, world, runs, commands):
    """Run several seeds, each on new matchers."""
    seeds = (f"{world} {SEED} {run}" for run in range(runs))
    parts = [drive_naive(matcher_class(), WORLDS[world], seed, commands) for seed in seeds]
    check_mixture(parts, runs * commands)


small_worlds = pytest.mark.parametrize("world", ["small", "tight", "paired"])


@small_worlds
def test_matcher_agrees_with_a_naive_one(matcher_class, world):
    drive_naive_often(matcher_class, world, 20, 300)


@pytest.mark.long
@small_worlds
def test_matcher_agrees_with_a_naive_one_on_long_flows(matcher_class, world):
    drive_naive_often(matcher_class, world, 40, 400)
