"""The specification's "States and transitions": a test for each row of its table and its notes.

The table itself is ``clob.status.TRANSITIONS``; the last tests apply random commands to a matcher
and check that every row of the table occurs, and no other transition.
"""

import random  # noqa: TID251 - seeded, and outside the engine

import pytest

from clob import (
    Cancel,
    CancelAll,
    Expire,
    OrderAdded,
    OrderRemoved,
    OrderStatus,
    Reduce,
    RejectedError,
    RemovalReason,
    Replace,
    SelfTrade,
    SetNonce,
    Submit,
    TimeInForce,
    Trade,
)
from clob.errors import NotTheMakerError, OrderExpiredError, OrderNotOpenError
from clob.status import TRANSITIONS, Transition, Trigger
from tests.books import event_lines
from tests.matchers import buy, opened, rejected, sell

OPEN, PARTIAL = OrderStatus.OPEN, OrderStatus.PARTIAL
FILLED, CANCELLED = OrderStatus.FILLED, OrderStatus.CANCELLED


@pytest.fixture
def matcher(matcher_class):
    """A matcher with a market called ``m``."""
    return opened(matcher_class)


def test_status_values():
    """Order status values: open, partial, filled, cancelled."""
    assert [status.value for status in OrderStatus] == ["open", "partial", "filled", "cancelled"]


# ----- the rows ------------------------------------------------------------------------------


def test_order_creation_accepted_is_open(matcher):
    """(none) | order creation | accepted | open | filledAmount is '0'"""
    (added,) = matcher.apply(buy("a", 50, 10))
    assert type(added) is OrderAdded
    record = matcher.order("a")
    assert (record.status, record.filled, record.filled_amount) == (OPEN, 0, 0)


def test_order_creation_is_matched_at_once_if_prices_cross(matcher):
    """(none) | order creation | accepted | open | the order is matched at once if prices cross."""
    matcher.apply(sell("s", 50, 4))
    events = matcher.apply(buy("a", 50, 10))
    assert event_lines(events) == ["trade s a 4 @ 50", "removed s filled", "added a 6"]
    assert (matcher.order("a").status, matcher.order("a").filled_amount) == (PARTIAL, 4)


def test_matching_part_of_taker_amount_is_partial(matcher):
    """open | matching | part of takerAmount filled | partial | filledAmount increases; the
    remainder stays in the book."""
    matcher.apply(buy("a", 50, 10))
    matcher.apply(sell("s", 50, 4))
    record = matcher.order("a")
    assert (record.status, record.filled_amount, record.remaining) == (PARTIAL, 4, 6)
    assert [level.size for level in matcher.depth("m").bids] == [6]


@pytest.mark.parametrize("parts", [(10,), (4, 6), (1, 2, 7)])
def test_matching_until_filled_amount_equals_taker_amount_is_filled(matcher, parts):
    """open or partial | matching | filledAmount equals takerAmount | filled | Removal from the book
    is announced on the real-time channel."""
    matcher.apply(buy("a", 50, 10))
    for number, size in enumerate(parts):
        assert matcher.order("a").status is (PARTIAL if number else OPEN)
        events = matcher.apply(sell(number, 50, size))
    assert events[-1] == OrderRemoved(events[-1].seq, "m", "m-yes", "a", RemovalReason.FILLED, 0)
    record = matcher.order("a")
    assert (record.status, record.filled_amount, record.remaining) == (FILLED, 10, 0)
    assert record.removal is RemovalReason.FILLED


@pytest.mark.parametrize("sold", [0, 4])
def test_cancellation_by_the_maker_is_cancelled(matcher, sold):
    """open or partial | cancellation by the maker | request made by the maker | cancelled | Removal
    from the book is announced on the real-time channel."""
    matcher.apply(buy("a", 50, 10))
    if sold:
        matcher.apply(sell("s", 50, sold))
    assert matcher.order("a").status is (PARTIAL if sold else OPEN)
    with rejected(matcher, NotTheMakerError, "'a'", "'S'"):
        matcher.apply(Cancel(order_id="a", maker="S"))
    (removed,) = matcher.apply(Cancel(order_id="a", maker="B"))
    assert (removed.reason, removed.remaining) == (RemovalReason.CANCELLED, 10 - sold)
    record = matcher.order("a")
    assert (record.status, record.filled_amount, record.remaining) == (CANCELLED, sold, 0)


def test_orders_past_their_expiration_are_rejected_from_matching(matcher):
    """Orders past their expiration are rejected from matching. The status an order takes on expiry:
    not shown."""
    matcher.apply(sell("met", 50, 1, expiration_s=5))
    matcher.apply(sell("swept", 60, 1, expiration_s=5))
    assert event_lines(matcher.apply(buy("b", 50, 1, now_ms=6_000))) == [
        "removed met expired 1",
        "added b 1",
    ]
    assert event_lines(matcher.apply(Expire(now_ms=6_000))) == ["removed swept expired 1"]
    for name in ("met", "swept"):
        record = matcher.order(name)
        assert (record.status, record.removal) == (CANCELLED, RemovalReason.EXPIRED)
    with rejected(matcher, OrderExpiredError):
        matcher.apply(sell("late", 50, 1, expiration_s=5, now_ms=6_000))


@pytest.mark.parametrize(
    "command",
    [
        Cancel(order_id="x", maker="B"),
        Cancel(order_id="x"),
        Reduce(order_id="x", size=1),
        Replace(order_id="x", price=50, size=1),
    ],
)
@pytest.mark.parametrize("status", ["filled", "cancelled"])
def test_filled_and_cancelled_are_final(matcher, command, status):
    """filled (fully executed), cancelled (cancelled by the maker): no row starts from them."""
    matcher.apply(buy("x", 50, 2))
    matcher.apply(sell("s", 50, 2) if status == "filled" else Cancel(order_id="x"))
    before = matcher.order("x")
    with rejected(matcher, OrderNotOpenError, "'x'", "finished"):
        matcher.apply(command)
    matcher.apply(sell("t", 50, 2))
    assert matcher.order("x") == before


def test_remainder_of_an_ioc_order_is_cancelled_without_an_event(matcher):
    """cancelled: it never rested, so no event announces a removal."""
    matcher.apply(sell("s", 50, 4))
    events = matcher.apply(buy("i", 50, 10, time_in_force=TimeInForce.IOC))
    assert event_lines(events) == ["trade s i 4 @ 50", "removed s filled"]
    record = matcher.order("i")
    assert (record.status, record.removal) == (CANCELLED, RemovalReason.CANCELLED)
    assert (record.filled, record.remaining) == (4, 0)


# ----- the table -----------------------------------------------------------------------------


AFTER = {
    Trigger.ACCEPTED: OPEN,
    Trigger.TRADED_IN_PART: PARTIAL,
    Trigger.TRADED_WHOLE: FILLED,
    Trigger.REMOVED: CANCELLED,
}
"""Status after each trigger, independent of the table."""


class TransitionRecorder:
    """Tracks the status of every order by the events."""

    def __init__(self, matcher):
        self.matcher = matcher
        self.status = {}
        self.remaining = {}
        self.transitions = set()

    def step(self, order_id, trigger):
        """Record a transition."""
        before, after = self.status.get(order_id), AFTER[trigger]
        self.status[order_id] = after
        self.transitions.add(Transition(before, trigger, after))

    def trade(self, order_id, size):
        """Record the transition of a trade."""
        self.remaining[order_id] -= size
        self.step(
            order_id, Trigger.TRADED_IN_PART if self.remaining[order_id] else Trigger.TRADED_WHOLE
        )

    def apply(self, command):
        """Execute a command and record its transitions."""
        try:
            events = self.matcher.apply(command)
        except RejectedError:
            return
        if isinstance(command, Submit):
            self.remaining[command.order.id] = command.order.size
            self.step(command.order.id, Trigger.ACCEPTED)
        for event in events:
            if isinstance(event, Trade):
                self.trade(event.incoming_order_id, event.size)
                self.trade(event.resting_order_id, event.size)
            elif isinstance(event, OrderRemoved):
                if event.reason not in (RemovalReason.FILLED, RemovalReason.REPLACED):
                    self.step(event.order_id, Trigger.REMOVED)
            else:
                self.remaining[event.order_id] = event.remaining
            if isinstance(command, Replace) and event is events[0]:
                self.remaining[command.order_id] = command.size
        # A remainder that never rested is dropped without an event.
        gone = command.order.id if isinstance(command, Submit) else getattr(command, "order_id", "")
        if gone in self.status and self.status[gone] in (OPEN, PARTIAL):
            record = self.matcher.order(gone)
            if record.status is CANCELLED:
                self.step(gone, Trigger.REMOVED)
        for order_id, status in self.status.items():
            assert self.matcher.order(order_id).status is status, (order_id, command)


def draw(rng, number, now_ms):
    """Draw a command."""
    write = rng.choice((buy, sell))
    some_id = rng.randrange(max(1, number - 12), number + 1)
    match rng.randrange(14):
        case 0:
            return Cancel(order_id=some_id, maker=rng.choice(("B", "S", None)), now_ms=now_ms)
        case 1:
            return Reduce(order_id=some_id, size=rng.randint(1, 6), now_ms=now_ms)
        case 2 | 3:
            fields = {"price": rng.randint(47, 53), "size": rng.randint(1, 9)}
            policy = rng.choice((None, SelfTrade.CANCEL_INCOMING, SelfTrade.DECREMENT))
            return Replace(order_id=some_id, self_trade=policy, now_ms=now_ms, **fields)
        case 4:
            return Expire(now_ms=now_ms)
        case 5 if rng.random() < 0.2:
            return CancelAll(maker=rng.choice(("B", "S")), now_ms=now_ms)
        case 6 if rng.random() < 0.3:
            return SetNonce(maker=rng.choice("BS"), nonce=number, now_ms=now_ms)
    tif = rng.choices(list(TimeInForce)[:1] + list(TimeInForce)[2:], (8, 1, 1))[0]
    return write(
        number,
        rng.randint(47, 53),
        rng.randint(1, 9),
        maker=rng.choice("BS"),
        nonce=number,
        now_ms=now_ms,
        time_in_force=tif,
        self_trade=rng.choice(list(SelfTrade)),
        expiration_s=rng.choice((0, 0, now_ms // 1000 + 1)),
    )


def test_random_commands_take_every_transition_of_the_table_and_no_other(matcher):
    rng, recorder, now_ms = random.Random(7), TransitionRecorder(matcher), 0
    for number in range(1, 700):
        now_ms += rng.choice((0, 100, 700))
        recorder.apply(draw(rng, number, now_ms))
    assert recorder.transitions == set(TRANSITIONS)
    assert len(TRANSITIONS) == len(set(TRANSITIONS)) == 7
    matcher.audit()


def test_each_trigger_leads_to_one_status():
    assert {(row.trigger, row.after) for row in TRANSITIONS} == set(AFTER.items())
    assert not {row.before for row in TRANSITIONS} & {FILLED, CANCELLED}


@pytest.mark.parametrize("rests", [True, False])
def test_order_reduced_by_self_trade_is_filled_once_the_rest_trades(matcher, rests):
    for number, maker in enumerate("AB"):
        matcher.apply(sell(f"s{number}", 50 + number, 4, maker=maker))
    own = buy("own", 60, 10 if rests else 8, maker="A", self_trade=SelfTrade.DECREMENT)
    matcher.apply(own)
    if rests:
        matcher.apply(sell("last", 60, 2))
    record = matcher.order("own")
    assert (record.status, record.removal) == (FILLED, RemovalReason.FILLED)
    assert (record.size, record.filled, record.order.size) == (own.order.size - 4,) * 2 + (
        own.order.size,
    )
