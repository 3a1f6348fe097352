"""Time in force, post-only and expiration at their limits."""

import pytest

from clob import SelfTrade, TimeInForce
from clob.errors import (
    FokNotFillableError,
    InvalidInstructionError,
    OrderExpiredError,
    PostOnlyWouldCrossError,
)
from clob.units import TIME_MAX
from tests.books import buy, event_lines, fill_book, rejected, sell

IOC, FOK, GTD, GTC = TimeInForce.IOC, TimeInForce.FOK, TimeInForce.GTD, TimeInForce.GTC
LAST_MS = 100_999  # of second 100


def test_gtc_rests(book_class):
    assert event_lines(book_class().submit(buy("a", 50, 5, time_in_force=GTC))) == ["added a 5"]


def test_gtd_rests_with_its_expiration(book_class):
    book = book_class()
    book.submit(buy("a", 50, 5, time_in_force=GTD, expiration_s=100))
    assert book.order("a").expiration_s == 100


def test_gtd_without_expiration_is_rejected(book_class):
    with rejected(book := book_class(), InvalidInstructionError, "expiration_s", 0):
        book.submit(buy("a", 50, 5, time_in_force=GTD))


def test_ioc_never_rests(book_class):
    book = fill_book(book_class(), sell("a", 50, 5))
    lines = event_lines(book.submit(buy("b", 50, 8, time_in_force=IOC)))
    assert lines == ["trade a b 5 @ 50", "removed a filled"]
    assert book.submit(buy("b", 50, 8, time_in_force=IOC)) == []
    assert len(book) == 0


@pytest.mark.parametrize("size", [1, 9, 10])
def test_fok_trades_its_whole_size(book_class, size):
    book = fill_book(book_class(), sell("a", 50, 5), sell("b", 52, 5), sell("c", 53, 5))
    trades = [
        e for e in event_lines(book.submit(buy("f", 52, size, time_in_force=FOK))) if "trade" in e
    ]
    assert sum(int(line.split()[3]) for line in trades) == size


def test_fok_with_one_wei_too_much_is_rejected(book_class):
    book = fill_book(book_class(), sell("a", 50, 5), sell("b", 52, 5), sell("c", 53, 5))
    with rejected(book, FokNotFillableError, 10, 11):
        book.submit(buy("f", 52, 11, time_in_force=FOK))


def test_fok_on_an_empty_book_is_rejected(book_class):
    with rejected(book := book_class(), FokNotFillableError, 0, 1):
        book.submit(sell("f", 1, 1, time_in_force=FOK))


@pytest.mark.parametrize(
    ("policy", "most"),
    [
        (None, 15),
        (SelfTrade.NONE, 15),
        (SelfTrade.CANCEL_RESTING, 10),
        (SelfTrade.CANCEL_INCOMING, 5),
        (SelfTrade.CANCEL_BOTH, 5),
        (SelfTrade.DECREMENT, 5),
    ],
)
def test_fok_counts_the_size_that_its_policy_reaches(book_class, policy, most):
    orders = [sell("a", 50, 5), sell("mine", 50, 5, maker="me"), sell("c", 50, 5)]
    book = fill_book(book_class(), *orders)
    fok = {"maker": "me", "self_trade": policy, "time_in_force": FOK}
    with rejected(book, FokNotFillableError, most, most + 1):
        book.submit(buy("f", 50, most + 1, **fok))
    trades = [
        line for line in event_lines(book.submit(buy("f", 50, most, **fok))) if "trade " in line
    ]
    assert sum(int(line.split()[3]) for line in trades if line.startswith("trade")) == most


@pytest.mark.parametrize("time_in_force", [IOC, FOK])
def test_ioc_and_fok_may_repeat_the_id_of_a_resting_order(book_class, time_in_force):
    book = fill_book(book_class(), sell("a", 50, 5), buy("b", 40, 5))
    lines = event_lines(book.submit(buy("b", 50, 5, time_in_force=time_in_force)))
    assert lines == ["trade a b 5 @ 50", "removed a filled"]
    assert book.order("b").remaining == 5
    book.check()


def test_an_order_may_trade_with_a_resting_order_of_the_same_id(book_class):
    book = fill_book(book_class(), sell("a", 50, 5))
    lines = event_lines(book.submit(buy("a", 50, 2, time_in_force=IOC)))
    assert lines == ["trade a a 2 @ 50"]


def test_post_only_rests_or_is_rejected(book_class):
    book = fill_book(book_class(), sell("a", 50, 5))
    with rejected(book, PostOnlyWouldCrossError, "BUY", 50, 55):
        book.submit(buy("b", 55, 5, post_only=True))
    assert event_lines(book.submit(buy("b", 49, 5, post_only=True))) == ["added b 5"]
    with rejected(book, PostOnlyWouldCrossError, "SELL", 49, 48):
        book.submit(sell("c", 48, 5, post_only=True))


@pytest.mark.parametrize("time_in_force", [IOC, FOK])
def test_post_only_with_ioc_or_fok_is_rejected(book_class, time_in_force):
    with rejected(book := book_class(), InvalidInstructionError, repr(time_in_force)):
        book.submit(buy("b", 55, 5, post_only=True, time_in_force=time_in_force))


@pytest.mark.parametrize("time_in_force", [IOC, FOK])
def test_rest_of_an_ioc_or_fok_order_is_rejected(book_class, time_in_force):
    with rejected(book := book_class(), InvalidInstructionError, repr(time_in_force)):
        book.rest(buy("b", 55, 5, time_in_force=time_in_force))


# ----- "Orders past their expiration are rejected from matching." ----------------------------


@pytest.mark.parametrize("time_in_force", TimeInForce)
def test_an_order_is_valid_in_the_second_of_its_expiration(book_class, time_in_force):
    book = fill_book(book_class(), sell("a", 50, 5, expiration_s=100))
    order = buy("b", 50, 5, expiration_s=100, time_in_force=time_in_force)
    with rejected(book, OrderExpiredError, 100, 101):
        book.submit(order, now_ms=LAST_MS + 1)
    assert event_lines(book.submit(order, now_ms=LAST_MS)) == [
        "trade a b 5 @ 50",
        "removed a filled",
    ]


def test_rest_of_an_expired_order_is_rejected(book_class):
    book = book_class()
    with rejected(book, OrderExpiredError, 100, 101):
        book.rest(buy("b", 50, 5, expiration_s=100), now_ms=LAST_MS + 1)
    assert event_lines(book.rest(buy("b", 50, 5, expiration_s=100), now_ms=LAST_MS)) == [
        "added b 5"
    ]


def test_an_expired_resting_order_on_the_path_is_removed(book_class):
    book = fill_book(book_class(), sell("a", 50, 5, expiration_s=100), sell("b", 50, 5))
    assert event_lines(book.submit(buy("c", 50, 3), now_ms=LAST_MS + 1)) == [
        "removed a expired 5",
        "trade b c 3 @ 50",
    ]


def test_an_expired_resting_order_off_the_path_stays(book_class):
    book = fill_book(book_class(), sell("a", 50, 5), sell("b", 50, 5, expiration_s=100))
    book.submit(buy("c", 50, 5), now_ms=LAST_MS + 1)
    assert "b" in book
    assert event_lines(book.expire(LAST_MS + 1)) == ["removed b expired 5"]


def test_an_expired_own_order_is_removed_as_expired(book_class):
    book = fill_book(book_class(), sell("a", 50, 5, expiration_s=100, maker="me"))
    order = buy("b", 50, 5, maker="me", self_trade=SelfTrade.CANCEL_BOTH)
    lines = event_lines(book.submit(order, now_ms=LAST_MS + 1))
    assert lines == ["removed a expired 5", "added b 5"]


def test_post_only_and_fok_skip_expired_orders(book_class):
    book = fill_book(book_class(), sell("a", 50, 5, expiration_s=100))
    with rejected(book, FokNotFillableError, 0, 5):
        book.submit(buy("b", 50, 5, time_in_force=FOK), now_ms=LAST_MS + 1)
    lines = event_lines(book.submit(buy("b", 50, 5, post_only=True), now_ms=LAST_MS + 1))
    assert lines == ["removed a expired 5", "added b 5"]


def test_expiration_zero_never_expires(book_class):
    book = fill_book(book_class(), sell("a", 50, 5))
    assert book.expire(TIME_MAX) == []
    assert event_lines(book.submit(buy("b", 50, 5), now_ms=TIME_MAX))[0] == "trade a b 5 @ 50"


@pytest.mark.parametrize("expiration_s", [2**62, 2**63 - 1, 2**63, 2**64, 10**30])
def test_an_expiration_beyond_the_time_limit_never_expires(book_class, expiration_s):
    book = book_class()
    book.submit(sell("a", 50, 5, expiration_s=expiration_s), now_ms=TIME_MAX)
    assert book.expire(TIME_MAX) == []
    book.check()
    assert book.fork().state_hash() == book.state_hash()
