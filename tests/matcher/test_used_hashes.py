"""Decision 23: a signed order is executed at most once; its hash is kept while it could be valid.

"That a hash was used is forgotten only when the order can no longer be valid (expired, or nonce
below the maker's): it is part of the state, not a cache bounded by count, because anyone can read
a signature and post it again."
"""

import msgspec
import pytest

from clob import (
    Cancel,
    Expire,
    Limits,
    OrderStatus,
    Reduce,
    Replace,
    ResetClock,
    SelfTrade,
    SetLimits,
    SetNonce,
    SpentHash,
    TimeInForce,
)
from clob.errors import (
    ClientIdConflictError,
    ClockWentBackError,
    InvalidCommandError,
    NonceTooLowError,
    OrderAlreadyUsedError,
    OrderExpiredError,
    UnknownOrderError,
)
from tests.matchers import buy, market, opened, rejected, sell


def hash_of(number):
    """Return the hash of a signed order."""
    return number.to_bytes(32, "big")


HASH = hash_of(1)
SIGNED = buy("a", 50, 10, order_hash=HASH, nonce=3, expiration_s=100)
STRANGER = msgspec.structs.replace(
    SIGNED, order=msgspec.structs.replace(SIGNED.order, id="b"), client_id="of a stranger"
)
"""The same signed order under another id."""


@pytest.fixture
def matcher(matcher_class):
    """A matcher that keeps one finished order."""
    matcher = opened(matcher_class)
    matcher.apply(SetLimits(limits=Limits(finished_max=1)))
    return matcher


def finish(matcher, *, ids=("x",), now_ms=0):
    """Submit and cancel other orders until the earlier ones are evicted."""
    for order_id in ids:
        matcher.apply(buy(order_id, 40, 1, maker="other", now_ms=now_ms))
        matcher.apply(Cancel(order_id=order_id, now_ms=now_ms))


def again(command, *, now_ms):
    return msgspec.structs.replace(command, now_ms=now_ms)


# ----- repeated orders -----------------------------------------------------------------------


def test_resting_order_is_not_accepted_again(matcher):
    matcher.apply(SIGNED)
    with rejected(matcher, OrderAlreadyUsedError, "'a'") as caught:
        matcher.apply(STRANGER)
    assert caught.value.order_id == "a"
    assert matcher.is_used(HASH)


@pytest.mark.parametrize("end", ["filled", "cancelled", "ioc"])
def test_finished_order_is_not_accepted_again(matcher, end):
    if end == "ioc":
        order = msgspec.structs.replace(SIGNED.order, time_in_force=TimeInForce.IOC)
        matcher.apply(msgspec.structs.replace(SIGNED, order=order))
    else:
        matcher.apply(SIGNED)
        matcher.apply(sell("s", 50, 10, time_in_force=TimeInForce.IOC) if end == "filled"
                      else Cancel(order_id="a"))  # fmt: skip
    with rejected(matcher, OrderAlreadyUsedError):
        matcher.apply(STRANGER)
    finish(matcher)
    with rejected(matcher, OrderAlreadyUsedError, "an order no longer kept") as caught:
        matcher.apply(STRANGER)
    assert caught.value.order_id is None


def test_evicted_order_is_not_accepted_again_from_another_maker(matcher_class):
    matcher = opened(matcher_class)
    matcher.apply(SetLimits(limits=Limits(finished_max=100)))
    matcher.apply(SIGNED)
    matcher.cancel("a")
    for number in range(2, 20_002):
        matcher.apply(buy(number, 50, 1, order_hash=hash_of(number), maker=str(number % 50)))
        matcher.cancel(number)
    for posted in (STRANGER, buy("c", 1, 99, maker="thief", order_hash=HASH)):
        with rejected(matcher, OrderAlreadyUsedError):
            matcher.apply(posted)
    assert all(matcher.is_used(hash_of(number)) for number in range(1, 20_002))
    assert len(matcher) == 0


@pytest.mark.parametrize("evicted", [False, True])
def test_order_is_not_accepted_again_after_restore(matcher, evicted):
    matcher.apply(SIGNED)
    matcher.cancel("a")
    if evicted:
        finish(matcher)
    restarted = matcher.restore(matcher.snapshot())
    assert restarted.is_used(HASH)
    with rejected(restarted, OrderAlreadyUsedError):
        restarted.apply(STRANGER)
    finish(restarted, ids=("y", "z"))
    with rejected(restarted, OrderAlreadyUsedError):
        restarted.apply(STRANGER)
    assert restarted.apply(Expire(now_ms=101_000)) == []
    assert not restarted.is_used(HASH)


@pytest.mark.parametrize("evicted", [False, True])
def test_expired_order_is_rejected_as_expired(matcher, evicted):
    matcher.apply(SIGNED)
    if evicted:
        matcher.cancel("a")
        finish(matcher)
    with rejected(matcher, OrderAlreadyUsedError):
        matcher.apply(again(STRANGER, now_ms=100_999))
    matcher.apply(Expire(now_ms=101_000))
    finish(matcher, ids=("y", "z"), now_ms=101_000)
    assert not matcher.is_used(HASH)
    with rejected(matcher, OrderExpiredError):
        matcher.apply(again(STRANGER, now_ms=101_000))


@pytest.mark.parametrize("evicted", [False, True])
def test_order_below_the_nonce_is_rejected_for_its_nonce(matcher, evicted):
    matcher.apply(SIGNED)
    if evicted:
        matcher.cancel("a")
        finish(matcher)
    matcher.apply(SetNonce(maker="B", nonce=3))
    with rejected(matcher, OrderAlreadyUsedError):
        matcher.apply(STRANGER)
    matcher.apply(SetNonce(maker="B", nonce=4))
    finish(matcher, ids=("y", "z"))
    assert not matcher.is_used(HASH)
    with rejected(matcher, NonceTooLowError):
        matcher.apply(STRANGER)


def test_order_of_a_rolled_back_batch_is_accepted_later(matcher):
    with rejected(matcher, UnknownOrderError):
        matcher.batch([SIGNED, Cancel(order_id="nobody")], atomic=True)
    assert not matcher.is_used(HASH)
    with rejected(matcher, OrderAlreadyUsedError):
        matcher.batch([SIGNED, STRANGER], atomic=True)
    results = matcher.batch([SIGNED, STRANGER])
    assert [type(result) for result in results] == [list, OrderAlreadyUsedError]


def test_rejected_order_is_accepted_later(matcher):
    with rejected(matcher, InvalidCommandError):
        matcher.apply(msgspec.structs.replace(SIGNED, client_id=""))
    assert not matcher.is_used(HASH)
    matcher.apply(SIGNED)


# ----- dropped hashes ------------------------------------------------------------------------


def test_hash_is_kept_through_the_second_of_expiration(matcher):
    matcher.apply(SIGNED)
    matcher.cancel("a")
    finish(matcher)
    assert matcher.next_expiry_s == 100
    matcher.apply(Expire(now_ms=100_999))
    assert matcher.is_used(HASH)
    matcher.apply(Expire(now_ms=101_000))
    assert not matcher.is_used(HASH)
    assert matcher.next_expiry_s is None


def test_hash_without_expiration_is_kept_until_the_nonce_is_raised(matcher):
    matcher.apply(buy("a", 50, 1, order_hash=HASH, nonce=7))
    matcher.cancel("a")
    finish(matcher)
    matcher.apply(Expire(now_ms=2**62))
    matcher.apply(SetNonce(maker="B", nonce=7, now_ms=2**62))
    matcher.apply(SetNonce(maker="other", nonce=100, now_ms=2**62))
    assert matcher.is_used(HASH)
    matcher.apply(SetNonce(maker="B", nonce=8, now_ms=2**62))
    assert not matcher.is_used(HASH)


@pytest.mark.parametrize("way", ["expiry", "nonce"])
def test_hash_of_an_invalid_order_is_not_kept_on_eviction(matcher, way):
    matcher.apply(SIGNED)
    if way == "expiry":
        matcher.apply(Expire(now_ms=101_000))
    else:
        matcher.apply(SetNonce(maker="B", nonce=4, now_ms=101_000))
    assert matcher.order_by_hash(HASH).status is OrderStatus.CANCELLED
    finish(matcher, now_ms=101_000)
    assert not matcher.is_used(HASH)
    assert matcher.snapshot() == matcher.restore(matcher.snapshot()).snapshot()


def test_dropped_hashes_leave_no_state(matcher):
    finish(matcher)
    matcher.apply(SetNonce(maker="B", nonce=1, now_ms=10_000))
    before = matcher.snapshot()
    for number in range(2, 50):
        expires = {"expiration_s": 20} if number % 2 else {}
        matcher.apply(
            buy(number, 50, 1, order_hash=hash_of(number), now_ms=10_000, nonce=number, **expires)
        )
        matcher.apply(Cancel(order_id=number, now_ms=10_000))
    finish(matcher, now_ms=10_000)
    assert len(matcher.snapshot()) > len(before) + 48 * 32
    matcher.apply(Expire(now_ms=21_000))
    assert [matcher.is_used(hash_of(number)) for number in (2, 3, 48, 49)] == [
        *(True, False, True, False)
    ]
    matcher.apply(SetNonce(maker="B", nonce=40, now_ms=21_000))
    assert [matcher.is_used(hash_of(number)) for number in (38, 40)] == [False, True]
    matcher.apply(SetNonce(maker="B", nonce=100, now_ms=21_000))
    assert abs(len(matcher.snapshot()) - len(before)) < 10


# ----- a clock that was wrong ----------------------------------------------------------------


def test_reset_takes_the_time_back(matcher):
    matcher.apply(buy("early", 50, 10, expiration_s=100))
    matcher.apply(Expire(now_ms=99_000_000))
    with rejected(matcher, ClockWentBackError):
        matcher.apply(buy("b", 50, 1, now_ms=50_000))
    assert matcher.apply(ResetClock(now_ms=50_000)) == []
    assert matcher.now_ms == 50_000
    assert matcher.restore(matcher.snapshot()).state_hash() == matcher.state_hash()
    matcher.apply(buy("b", 50, 1, expiration_s=100, now_ms=50_000))
    assert matcher.next_expiry_s == 100
    assert [event.order_id for event in matcher.expire(101_000)] == ["b"]


@pytest.mark.parametrize("restart", [False, True])
def test_order_that_a_wrong_time_expired_is_not_executed_again(matcher, restart):
    matcher.apply(SIGNED)
    matcher.apply(sell("s", 50, 10, time_in_force=TimeInForce.IOC))
    finish(matcher)
    matcher.apply(Expire(now_ms=99_000_000))
    assert not matcher.is_used(HASH)
    spent = SpentHash(HASH, "B", 3, 100)
    matcher.apply(ResetClock(now_ms=50_000, spent=(spent,)))
    if restart:
        matcher = matcher.restore(matcher.snapshot())
    with rejected(matcher, OrderAlreadyUsedError):
        matcher.apply(again(STRANGER, now_ms=50_000))
    before = matcher.snapshot()
    matcher.apply(ResetClock(now_ms=50_000, spent=(spent,)))
    assert matcher.snapshot() == before
    matcher.apply(Expire(now_ms=101_000))
    assert not matcher.is_used(HASH)


def test_reset_keeps_the_order_of_a_hash_that_is_known(matcher):
    matcher.apply(SIGNED)
    matcher.apply(ResetClock(now_ms=0, spent=(SpentHash(HASH, "B", 3, 100),)))
    assert matcher.order_by_hash(HASH).order.id == "a"


# ----- client ids ----------------------------------------------------------------------------

NAMED = buy("a", 50, 10, client_id="mine", expiration_s=50)


def test_same_client_id_and_body_is_the_same_order(matcher):
    matcher.apply(NAMED)
    for order_id in ("a", "b"):
        order = msgspec.structs.replace(NAMED.order, id=order_id)
        with rejected(matcher, OrderAlreadyUsedError, "'mine'", "'a'") as caught:
            matcher.apply(msgspec.structs.replace(NAMED, order=order))
        assert caught.value.order_id == "a"


@pytest.mark.parametrize(
    "change",
    [
        Reduce(order_id="a", size=5),
        Replace(order_id="a", price=40, size=20),
        sell("s", 50, 4),
        sell("s", 50, 4, maker="B", self_trade=SelfTrade.DECREMENT),
        Cancel(order_id="a"),
    ],
    ids=lambda command: type(command).__name__,
)
@pytest.mark.parametrize("restart", [False, True])
def test_same_body_is_recognized_after_changes(matcher, change, restart):
    matcher.apply(NAMED)
    matcher.apply(change)
    if restart:
        matcher = matcher.restore(matcher.snapshot())
    with rejected(matcher, OrderAlreadyUsedError, "'mine'"):
        matcher.apply(NAMED)


@pytest.mark.parametrize(
    "other",
    [
        {"price": 51},
        {"size": 11},
        {"expiration_s": 51},
        {"token": "m-no"},
        {"time_in_force": TimeInForce.IOC},
        {"nonce": 1},
        {"post_only": True},
        {"self_trade": SelfTrade.NONE},
        {"collateral": 5},
        {"fee_rate_bps": 0},
        {"smart_wallet": "w"},
    ],
    ids=str,
)
def test_same_client_id_with_another_body_is_a_conflict(matcher, other):
    matcher.apply(NAMED)
    order = msgspec.structs.replace(NAMED.order, id="b", **other)
    with rejected(matcher, ClientIdConflictError, "'mine'", "'a'", "differs") as caught:
        matcher.apply(msgspec.structs.replace(NAMED, order=order))
    assert caught.value.order_id == "a"


def test_same_client_id_in_another_market_is_a_conflict(matcher):
    matcher.add_market(market("n"))
    matcher.apply(NAMED)
    with rejected(matcher, ClientIdConflictError):
        matcher.apply(buy("b", 50, 10, client_id="mine", market="n", token="n-yes"))


def test_client_ids_are_per_maker(matcher):
    matcher.apply(NAMED)
    matcher.apply(buy("b", 50, 10, client_id="mine", maker="other"))
    assert matcher.order_by_client_id("B", "mine").order.id == "a"
    assert matcher.order_by_client_id("other", "mine").order.id == "b"


# ----- lookup --------------------------------------------------------------------------------


def test_orders_are_found_by_hash_and_client_id_until_evicted(matcher):
    matcher.apply(msgspec.structs.replace(SIGNED, client_id="mine"))
    ways = (
        lambda: matcher.order("a"),
        lambda: matcher.order_by_hash(HASH),
        lambda: matcher.order_by_client_id("B", "mine"),
    )
    assert {way().status for way in ways} == {OrderStatus.OPEN}
    matcher.cancel("a")
    assert {way().status for way in ways} == {OrderStatus.CANCELLED}
    assert {(way().client_id, way().order_hash) for way in ways} == {("mine", HASH)}
    finish(matcher)
    for way in ways:
        with rejected(matcher, UnknownOrderError):
            way()
    assert matcher.is_used(HASH)
    # The id and the client id are free again, the hash is not.
    matcher.apply(buy("a", 50, 1, client_id="mine", order_hash=hash_of(2)))
    assert {way().order_hash for way in (ways[0], ways[2])} == {hash_of(2)}


def test_lowered_limit_evicts_the_first_finished(matcher_class):
    matcher = opened(matcher_class)
    for number in (3, 1, 2):
        matcher.apply(buy(number, 50, 1, order_hash=hash_of(number)))
    for number in (2, 3, 1):
        matcher.cancel(number)
    matcher.apply(SetLimits(limits=Limits(finished_max=2)))
    known = []
    for number in (1, 2, 3):
        try:
            known.append(matcher.order(number).order.id)
        except UnknownOrderError:
            assert matcher.is_used(hash_of(number))
    assert known == [1, 3]
