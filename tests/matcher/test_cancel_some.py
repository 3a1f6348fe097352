"""``CancelSome`` cancels exactly the orders that pass every filter, in the order of acceptance."""

import itertools
import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob import AddMarket, CancelSome, Market, Mode, Side
from clob.events import RemovalReason
from clob.order import Order

MARKETS = (
    Market(id="m", yes="m-yes", no="m-no", lot_wei=100),
    Market(id="n", yes="n-yes", no="n-no", lot_wei=100, complementary=True),
)
MAKERS = ("a", "b")
SIZE = 1_000


def full_matcher(matcher_class, seed):
    """Return a matcher with orders of two makers in every book, on both sides, at many times."""
    matcher, rng, count = matcher_class(), random.Random(seed), itertools.count()
    for each in MARKETS:
        matcher.apply(AddMarket(market=each))
    for now_ms in range(1, 61):
        market, side = rng.choice(MARKETS), rng.choice(list(Side))
        is_yes = rng.random() < 0.5
        # Far enough apart that no orders match, not even YES with NO.
        price = 30 if side is Side.BUY else 80
        order = Order(
            id=next(count),
            token=market.yes if is_yes else market.no,
            maker=rng.choice(MAKERS),
            side=side,
            price=price,
            size=SIZE,
        )
        matcher.submit(market.id, order, now_ms)
    assert len(matcher) == 60
    return matcher


def passes(record, command):
    """Return whether an order passes the filters of a command, from their definition."""
    order = record.order
    return (
        command.maker in (None, order.maker)
        and command.market in (None, record.market)
        and command.token in (None, order.token)
        and command.side in (None, order.side)
        and (command.accepted_until_ms is None or record.accepted_ms <= command.accepted_until_ms)
    )


@pytest.mark.parametrize("seed", range(3))
def test_orders_that_pass_every_filter_are_cancelled_in_order(matcher_class, seed):
    matcher = full_matcher(matcher_class, seed)
    filters = itertools.product(
        (None, "a"),
        ((None, None), ("m", None), ("n", "n-no"), (None, "m-yes")),
        (None, *Side),
        (None, 0, 25, 99),
    )
    for maker, (market, token), side, until_ms in filters:
        command = CancelSome(
            maker=maker,
            market=market,
            token=token,
            side=side,
            accepted_until_ms=until_ms,
            now_ms=100,
        )
        fork, before = matcher.fork(), matcher.open_orders()
        chosen = [record.order.id for record in before if passes(record, command)]
        events = fork.apply(command)
        reason = RemovalReason.ADMIN if maker is None else RemovalReason.CANCELLED
        assert [event.order_id for event in events] == chosen
        assert {event.reason for event in events} <= {reason}
        left = [record.order.id for record in fork.open_orders()]
        assert left == [r.order.id for r in before if r.order.id not in chosen]
        fork.audit()


def test_markets_that_do_not_allow_cancels_are_skipped(matcher_class):
    matcher = full_matcher(matcher_class, 7)
    matcher.set_mode("m", Mode.HALTED, 100)
    matcher.cancel_some(100, maker="a", accepted_until_ms=100)
    left = {(record.order.maker, record.market) for record in matcher.open_orders()}
    assert left == {("a", "m"), ("b", "m"), ("b", "n")}
    # An operator's command reaches every market.
    matcher.cancel_some(100, token="m-yes")
    matcher.cancel_some(100, token="m-no", side=Side.SELL)
    left = {(record.order.token, record.order.side) for record in matcher.open_orders()}
    assert {pair for pair in left if pair[0].startswith("m")} == {("m-no", Side.BUY)}
