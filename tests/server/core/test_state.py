"""ServerState: matcher and registry in one sequence, shared counts and signature records."""

import random  # noqa: TID251 - seeded, and outside the engine

import msgspec
import pytest

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    Expire,
    Limits,
    Matcher,
    Rejected,
    Replace,
    SetLimits,
    Submit,
    TimeInForce,
)
from clob.errors import (
    DuplicateOrderError,
    InvalidCommandError,
    InvalidSnapshotError,
    UnknownOrderError,
)
from clob_server.core.commands import Budgets, OrderCharge, SetBudgets
from clob_server.core.state import CHARGE_MS, Charged, ServerState, outcome_of
from tests.differential.mutation import mutant
from tests.matchers import buy, market, rejected, sell
from tests.server.engines import attachment, record, signed

NOW_MS = 1_700_000_000_000


def opened(*markets, **limits):
    """Return a state with these markets, or with one named ``m``."""
    exchange = ServerState()
    if limits:
        exchange.apply(SetLimits(limits=Limits(**limits), now_ms=1))
    for each in markets or (market(),):
        exchange.apply(AddMarket(market=each, now_ms=1))
    return exchange


def do(exchange, kind, **fields):
    """Execute a command a millisecond later."""
    return exchange.apply(kind(now_ms=exchange.now_ms + 1, **fields))


def put(exchange, make, *arguments, now_ms=None, **fields):
    """Submit a signed order, a millisecond later if no time is given; return the events."""
    now_ms = now_ms or exchange.now_ms + 1
    return exchange.apply(signed(make)(*arguments, now_ms=now_ms, **fields))


def kept(exchange):
    """Return the ids of the orders whose signature records are kept."""
    return set(exchange._attachments)


# ----- counts --------------------------------------------------------------------------------


def test_new_state_has_zero_counts():
    exchange = ServerState()
    counts = (exchange.now_ms, exchange.num_orders, exchange.num_trades, exchange.changed_ms)
    assert counts == (0, 0, 0, {})


def test_rejected_orders_are_counted_too():
    exchange = opened()
    put(exchange, sell, "a", 50, 10)
    outcome_of(exchange, sell("a", 50, 10, now_ms=2))
    assert exchange.num_orders == 2
    inner = (sell("b", 50, 10), sell("a", 50, 10), Cancel(order_id="a"), sell("c", 50, 10))
    exchange.apply(Batch(commands=inner, now_ms=3))
    assert exchange.num_orders == 5
    assert isinstance(
        outcome_of(exchange, Batch(commands=inner, now_ms=3, atomic=True)), DuplicateOrderError
    )
    assert exchange.num_orders == 8


def test_trades_of_a_batch_are_counted():
    exchange = opened()
    for name in "abc":
        put(exchange, sell, name, 50, 10)
    put(exchange, buy, "d", 50, 15)
    assert exchange.num_trades == 2
    exchange.apply(Batch(commands=(buy("e", 50, 3), buy("e", 50, 3), buy("f", 50, 12)), now_ms=9))
    assert exchange.num_trades == 5
    assert exchange.changed_ms == {"m": 9}


def test_changed_ms_is_the_time_of_the_last_event_of_a_market():
    exchange = opened(market("m"), market("n"), market("o"))
    put(exchange, sell, "a", 50, 10, now_ms=5)
    put(exchange, sell, "b", 50, 10, now_ms=6, market="n", token="n-yes")
    assert exchange.changed_ms == {"m": 5, "n": 6}
    outcome_of(exchange, Cancel(order_id="nobody's", market="m", now_ms=7))
    put(exchange, buy, "c", 1, 10, now_ms=8, time_in_force=TimeInForce.IOC)
    assert exchange.changed_ms == {"m": 5, "n": 6}
    exchange.apply(CancelAll(maker="S", now_ms=9))
    assert exchange.changed_ms == {"m": 9, "n": 9}


def test_time_is_the_latest_of_matcher_and_registry():
    exchange = opened()
    assert exchange.now_ms == 1
    exchange.apply(SetBudgets(budgets=Budgets(), now_ms=9))
    assert (exchange.now_ms, exchange.matcher.now_ms) == (9, 1)
    exchange.apply(Expire(now_ms=11))
    assert exchange.now_ms == 11


# ----- events of the matcher -----------------------------------------------------------------


@pytest.mark.parametrize("atomic", [False, True])
def test_batch_returns_the_events_of_the_matcher(atomic):
    exchange, matcher = opened(), Matcher()
    matcher.apply(AddMarket(market=market(), now_ms=1))
    inner = (sell("a", 50, 10), sell("b", 50, 10), buy("c", 50, 15), Cancel(order_id="b"))
    if not atomic:
        inner += (Cancel(order_id="b"), sell("a", 50, 10))
    batch = Batch(commands=inner, atomic=atomic, now_ms=2)
    found = exchange.apply(batch)
    assert found == matcher.apply(batch)
    assert [each.index for each in found if isinstance(each, Rejected)] == (
        [] if atomic else [4, 5]
    )
    assert exchange.matcher.snapshot() == matcher.snapshot()


def test_invalid_batch_is_rejected_as_by_the_matcher():
    exchange = opened()
    for commands in ([sell("a", 50, 10)], None):
        with rejected(exchange.matcher, InvalidCommandError, "commands must be a tuple"):
            exchange.apply(Batch(commands=commands, now_ms=2))
    assert exchange.num_orders == 0


# ----- signature records ---------------------------------------------------------------------


def test_signature_record_of_an_accepted_order_is_kept():
    exchange = opened()
    exchange.apply(signed(sell, salt="9")("a", 50, 10, now_ms=2))
    exchange.apply(sell("b", 50, 10, now_ms=2))
    assert exchange.signature("a") == record(salt="9")
    assert exchange.signature("b") is None
    assert exchange.signature("c") is None


def test_signature_record_of_a_rejected_order_is_dropped():
    exchange = opened()
    with pytest.raises(InvalidCommandError):
        exchange.apply(Submit(order=None, attachment=attachment(), now_ms=2))
    outcome_of(exchange, signed(sell)("b", 100, 10, now_ms=2))
    assert not kept(exchange)


def test_rejected_duplicate_order_keeps_the_record_of_the_original():
    exchange = opened()
    put(exchange, sell, "a", 50, 10)
    again = signed(sell, salt="another")("a", 50, 10, now_ms=2)
    assert isinstance(outcome_of(exchange, again), DuplicateOrderError)
    assert exchange.signature("a") == record()


def test_each_order_of_a_batch_has_its_own_signature_record():
    exchange = opened()
    inner = tuple(
        signed(sell, salt=f"{number}")(name, price, 1)
        for number, (name, price) in enumerate((("a", 50), ("b", 100), ("c", 50), ("a", 50)))
    )
    exchange.apply(Batch(commands=(*inner, sell("d", 50, 1)), now_ms=2))
    assert kept(exchange) == {"a", "c"}
    assert [exchange.signature(name).salt for name in "ac"] == ["0", "2"]
    inner = tuple(signed(sell)(name, price, 1) for name, price in (("e", 50), ("f", 100)))
    outcome_of(exchange, Batch(commands=inner, now_ms=2, atomic=True))
    assert kept(exchange) == {"a", "c"}


def replaced(exchange):
    """Finish an order by a replacement that trades all of it."""
    put(exchange, sell, "r", 60, 10)
    put(exchange, buy, "other", 50, 10)
    do(exchange, Replace, order_id="r", price=50, size=10)


def traded(exchange):
    """Finish a resting and an incoming order by one trade."""
    put(exchange, sell, "r", 60, 10)
    put(exchange, buy, "other", 60, 10)


def cancelled(exchange):
    """Finish an order by a cancel."""
    put(exchange, sell, "r", 60, 10)
    do(exchange, Cancel, order_id="r")


def killed(exchange):
    """Finish an IOC order without a trade."""
    put(exchange, buy, "r", 60, 10, time_in_force=TimeInForce.IOC)


def expired(exchange):
    """Finish an order by its expiry."""
    put(exchange, sell, "r", 60, 10, time_in_force=TimeInForce.GTD, expiration_s=1)
    exchange.apply(Expire(now_ms=3_000))


ENDS = [replaced, traded, cancelled, killed, expired]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_signature_record_is_kept_while_the_order_is_readable(end):
    exchange = opened(finished_max=3)
    end(exchange)
    for number in range(5):
        put(exchange, sell, f"o{number}", 70, 10, now_ms=4_000)
        exchange.apply(Cancel(order_id=f"o{number}", now_ms=4_000))
        for order_id in ("r", "other", *(f"o{n}" for n in range(number + 1))):
            assert (order_id in kept(exchange)) == is_readable(exchange.matcher, order_id)
    assert kept(exchange) == {"o2", "o3", "o4"}


def is_readable(matcher, order_id):
    try:
        matcher.order(order_id)
    except UnknownOrderError:
        return False
    return True


def test_resting_replacement_drops_no_signature_records():
    exchange = opened(finished_max=1)
    for name in "abc":
        put(exchange, sell, name, 60, 10)
    for size in (20, 5):
        do(exchange, Replace, order_id="a", price=61, size=size)
    do(exchange, Cancel, order_id="b")
    assert kept(exchange) == {"a", "b", "c"}
    do(exchange, Cancel, order_id="c")
    assert kept(exchange) == {"a", "c"}


def test_lower_finished_limit_drops_signature_records_immediately():
    exchange = opened(finished_max=10)
    for name in "abcd":
        put(exchange, sell, name, 60, 10)
    for name in "cab":
        do(exchange, Cancel, order_id=name)
    do(exchange, SetLimits, limits=Limits(finished_max=1))
    assert kept(exchange) == {"b", "d"}


def test_rejected_replacement_or_limit_drops_no_signature_records():
    exchange = opened(finished_max=1)
    for name in "ac":
        put(exchange, sell, name, 60, 10)
    put(exchange, buy, "b", 40, 10)
    do(exchange, Cancel, order_id="c")
    outcome_of(exchange, Replace(order_id="a", price=40, size=10, post_only=True, now_ms=9))
    outcome_of(exchange, SetLimits(limits=Limits(finished_max=-1), now_ms=9))
    assert kept(exchange) == {"a", "b", "c"}


# ----- snapshots -----------------------------------------------------------------------------


def busy():
    """Return a state with an entry of every kind."""
    exchange = opened(finished_max=3)
    for number, make in enumerate((sell, buy, sell, sell, buy, sell)):
        put(exchange, make, f"o{number}", 60, 10)
    do(exchange, CancelAll)
    put(exchange, sell, "stays", 60, 10)
    return exchange


def test_snapshot_restores_the_state():
    exchange = busy()
    again = ServerState.restore(exchange.snapshot())
    assert again.snapshot() == exchange.snapshot()
    for name in ("now_ms", "num_orders", "num_trades", "changed_ms"):
        assert getattr(again, name) == getattr(exchange, name)
    for each in (again, exchange):
        each.apply(signed(sell)("waits", 60, 10, now_ms=1_000))
        each.apply(Cancel(order_id="stays", now_ms=1_000))
        each.apply(Cancel(order_id="waits", now_ms=1_000))
        each.apply(SetLimits(limits=Limits(finished_max=1), now_ms=1_000))
        assert kept(each) == {"waits"}
    assert again.snapshot() == exchange.snapshot()


def test_snapshot_supports_any_market_name_and_order_id():
    exchange = opened(market("\ud800", yes="y", no="n"), finished_max=2)
    for order_id in ("\udfff", 7):
        exchange.apply(sell(order_id, 50, 10, market="\ud800", token="y", now_ms=2))
        exchange.apply(Cancel(order_id=order_id, now_ms=2))
    again = ServerState.restore(exchange.snapshot())
    assert again.changed_ms == {"\ud800": 2}
    assert len(again._finished) == 2
    assert again.snapshot() == exchange.snapshot()


def test_signature_records_of_restored_orders_are_kept_through_changes():
    state = opened()
    for name in ("a", "b"):
        put(state, buy, name, 40, 5)
    put(state, sell, "c", 60, 5)
    records = {name: state.signature(name) for name in ("a", "b", "c")}
    again = ServerState.restore(state.snapshot())
    assert not kept(again)
    for each in (state, again):
        put(each, sell, "d", 40, 2)
        each.apply(Cancel(order_id="c", now_ms=each.now_ms))
        assert {name: each.signature(name) for name in records} == records
    assert kept(again) == {"a", "c", "d"}
    assert again.snapshot() == state.snapshot()


def test_truncated_or_extended_snapshot_is_rejected():
    state = busy().snapshot()
    for length in range(len(state)):
        with pytest.raises(InvalidSnapshotError):
            ServerState.restore(state[:length])
    with pytest.raises(InvalidSnapshotError):
        ServerState.restore(state + b"\x00")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, 1, "the server's snapshot has version 1; this version reads 3 to 5"),
        (0, 6, "the server's snapshot has version 6; this version reads 3 to 5"),
        (1, b"none", "snapshot"),
        (2, b"none", "not a snapshot of a server"),
        (3, "many", "not a snapshot of a server"),
        (6, {}, "not a snapshot of a server"),
        (6, [(b"\xff", 1)], "not a snapshot of a server"),
        (8, [(b"\xff", b"")], "not a snapshot of a server"),
    ],
)
def test_invalid_snapshot_is_rejected(place, value, words):
    parts = msgspec.msgpack.decode(busy().snapshot())
    parts[place] = value
    with pytest.raises(InvalidSnapshotError, match=words):
        ServerState.restore(msgspec.msgpack.encode(parts))


def test_newer_snapshot_is_rejected_with_its_version():
    parts = msgspec.msgpack.decode(busy().snapshot())
    parts[0] = 6
    with pytest.raises(InvalidSnapshotError, match="has version 6; this version reads 3 to 5"):
        ServerState.restore(msgspec.msgpack.encode([*parts, "more"]))


@pytest.mark.parametrize("data", [b"", b"\xc0", b"\x90", b"\x81\xa1a\x01", b"no snapshot"])
def test_bytes_that_are_not_a_snapshot_are_rejected(data):
    with pytest.raises(InvalidSnapshotError, match=r"not a snapshot of a server|version"):
        ServerState.restore(data)


# ----- charges -------------------------------------------------------------------------------


def charge(now_ms, *charges):
    """Return a charge of orders."""
    return OrderCharge(charges=charges, now_ms=now_ms)


def test_charges_are_kept_for_a_minute_and_in_snapshots():
    state = opened()
    state.apply(charge(1_000, (b"a", 1), (b"b", 2)))
    state.apply(charge(2_000, (b"a", 3)))
    late = 1_000 + CHARGE_MS
    state.apply(charge(late))
    assert list(state.charges) == [Charged(2_000, b"a", 3)]
    assert ServerState.restore(state.snapshot()).charges == state.charges
    state.apply(charge(late + CHARGE_MS, (b"d", 1)))
    assert list(state.charges) == [Charged(late + CHARGE_MS, b"d", 1)]


def test_damaged_snapshot_is_rejected_or_restored_to_the_same_bytes():
    states = [ServerState().snapshot(), busy().snapshot()]
    rng = random.Random(1)
    restored = 0
    for _ in range(3_000):
        state = mutant(rng, rng.choice(states), states)
        try:
            again = ServerState.restore(state)
        except InvalidSnapshotError:
            continue
        # The number of an older version may be a mutation.
        assert again.snapshot() == state[:1] + b"\x05" + state[2:]
        restored += 1
    assert restored
    with pytest.raises(InvalidSnapshotError):
        ServerState.restore(b"\x91" * 100_000)
