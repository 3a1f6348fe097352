"""Cancel, reduce, replace, expire and clear: events, remaining orders and queue priority."""

import pytest

from clob import OrderReduced, OrderRemoved, RemovalReason
from clob.errors import (
    InvalidAmountError,
    InvalidInstructionError,
    SizeNotReducedError,
    UnknownOrderError,
)
from tests.books import buy, event_lines, fill_book, rejected, sell


def waiting(book):
    return [order.order_id for order in book.orders()]


def test_cancel_reports_the_remaining_size(book_class):
    book = fill_book(book_class(token="t", market="m"), buy("a", 50, 10, token="t"))
    book.submit(sell("s", 50, 4, token="t"))
    assert book.cancel("a") == [OrderRemoved(3, "m", "t", "a", RemovalReason.CANCELLED, 6)]
    assert (len(book), book.best_bid) == (0, None)


@pytest.mark.parametrize("reason", RemovalReason)
def test_cancel_and_clear_report_the_given_reason(book_class, reason):
    book = fill_book(book_class(), buy("a", 50, 1), buy("b", 50, 1))
    assert [event.reason for event in book.cancel("a", reason=reason)] == [reason]
    assert [event.reason for event in book.clear(reason)] == [reason]


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_cancel_keeps_the_order_of_the_queue(book_class, which):
    ids = ["first", "middle", "last"]
    book = fill_book(book_class(), *(buy(order_id, 50, 1) for order_id in ids))
    book.cancel(which)
    assert waiting(book) == [order_id for order_id in ids if order_id != which]
    book.check()


def test_cancel_accepts_the_number_of_a_text_id(book_class):
    book = fill_book(book_class(), buy("a", 50, 1), buy("b", 50, 1))
    assert event_lines(book.cancel(book.number_of("b"))) == ["removed b cancelled 1"]


def test_cancel_and_reduce_work_on_expired_orders(book_class):
    book = fill_book(book_class(), buy("a", 50, 5, expiration_s=1))
    assert event_lines(book.reduce("a", size=4, now_ms=9_000)) == ["reduced a 4"]
    assert event_lines(book.cancel("a", now_ms=9_000)) == ["removed a cancelled 4"]


def test_reduce_keeps_queue_priority(book_class):
    book = fill_book(book_class(market="m"), buy("a", 50, 10), buy("b", 50, 10))
    assert book.reduce("a", size=3) == [OrderReduced(3, "m", "", "a", 3)]
    assert waiting(book) == ["a", "b"]
    assert book.ahead("b").size == 3


def test_reduce_to_a_size_not_smaller_is_rejected(book_class):
    book = fill_book(book_class(), buy("a", 50, 10))
    for size in (10, 11):
        with rejected(book, SizeNotReducedError, 10, size):
            book.reduce("a", size=size)
    with rejected(book, InvalidAmountError, 0):
        book.reduce("a", size=0)


def test_replace_with_a_smaller_size_keeps_queue_priority(book_class):
    book = fill_book(book_class(), buy("a", 50, 10), buy("b", 50, 10))
    assert event_lines(book.replace("a", price=50, size=9)) == ["reduced a 9"]
    assert waiting(book) == ["a", "b"]


@pytest.mark.parametrize(("price", "size"), [(50, 10), (50, 11), (49, 5), (51, 10)])
def test_replace_with_another_price_or_a_larger_size_queues_last(book_class, price, size):
    book = fill_book(book_class(), buy("a", 50, 10), *(buy(p, p, 1) for p in (49, 50, 51)))
    assert event_lines(book.replace("a", price=price, size=size)) == [
        "removed a replaced 10",
        f"added a {size}",
    ]
    assert [o.order_id for o in book.orders() if o.price == price] == [price, "a"]
    book.check()


def test_replace_keeps_maker_expiration_and_number(book_class):
    book = fill_book(book_class(), buy("a", 50, 10, maker="alice", expiration_s=9), buy("b", 5, 1))
    number = book.number_of("a")
    book.replace("a", price=40, size=20)
    order = book.order("a")
    assert (order.maker, order.expiration_s, book.number_of("a")) == ("alice", 9, number)


def test_replace_trades_and_rests_the_remainder(book_class):
    book = fill_book(book_class(), sell("a", 50, 4), sell("b", 51, 4), buy("c", 40, 10))
    assert event_lines(book.replace("c", price=50, size=12)) == [
        "removed c replaced 10",
        "trade a c 4 @ 50",
        "removed a filled",
        "added c 8",
    ]


def test_replace_that_fills_completely_removes_the_order(book_class):
    book = fill_book(book_class(), sell("a", 50, 4), buy("c", 40, 10))
    assert event_lines(book.replace("c", price=50, size=4))[-1] == "removed a filled"
    assert len(book) == 0
    with rejected(book, UnknownOrderError):
        book.cancel("c")


def test_expire_removes_bids_first_best_price_first_oldest_first(book_class):
    orders = [
        sell("a", 60, 1, expiration_s=5),
        sell("b", 55, 1, expiration_s=5),
        buy("c", 40, 1, expiration_s=5),
        buy("d", 45, 1, expiration_s=5),
        buy("e", 45, 1, expiration_s=4),
        buy("f", 45, 1),
    ]
    book = fill_book(book_class(), *orders)
    assert book.expire(4_999) == []
    assert event_lines(book.expire(5_000)) == ["removed e expired 1"]
    assert event_lines(book.expire(6_000)) == [
        f"removed {order_id} expired 1" for order_id in "dcba"
    ]
    assert waiting(book) == ["f"]


def test_clear_removes_bids_first_best_price_first_oldest_first(book_class):
    book = fill_book(book_class(), sell("a", 60, 1), sell("b", 55, 2), buy("c", 40, 3))
    assert event_lines(book.clear()) == [
        "removed c cancelled 3",
        "removed b cancelled 2",
        "removed a cancelled 1",
    ]
    assert (len(book), book.clear(), book.best_bid, book.best_ask) == (0, [], None, None)
    book.check()


@pytest.mark.parametrize("reason", [None, "cancelled", 1, RemovalReason])
def test_a_reason_of_another_type_is_rejected(book_class, reason):
    book = fill_book(book_class(), buy("a", 50, 1))
    with rejected(book, InvalidInstructionError, "RemovalReason"):
        book.cancel("a", reason=reason)
    with rejected(book, InvalidInstructionError, "RemovalReason"):
        book.clear(reason)
