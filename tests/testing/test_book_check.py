"""``check_book``: equal books pass, and each wrong book is found with a short stream."""

import msgspec
import pytest

from clob import Cancel, Order, RejectedError, Side, Submit, TimeInForce
from clob.book._book_py import Book as PlainBook
from clob.errors import DuplicateOrderError
from clob.testing import BookDiffersError, ReferenceBook, check_book, compare
from tests.books import BOOKS, load


@pytest.mark.parametrize("name", BOOKS)
def test_books_of_the_package_equal_the_reference(name):
    check_book(load(name))


def test_grid_token_and_lot_are_those_of_the_caller():
    book = load("compiled")
    check_book(
        lambda: book(-3, 10, "7", 100, 0, "m"), lo=-3, hi=10, token="7", lot_wei=100, market="m",
        examples=50,
    )  # fmt: skip
    with pytest.raises(BookDiffersError):
        check_book(lambda: book(1, 99, "7"), token="8", examples=50)


def test_reference_is_the_plain_book():
    assert ReferenceBook is PlainBook


class NewestFirst(PlainBook):
    """Younger orders trade first."""

    def _add(self, order, events):
        super()._add(order, events)
        self._sides[order.side][order.price].move_to_end(order.id, last=False)


class RejectsLargerSizes(PlainBook):
    """A replacement with a larger size is rejected."""

    def replace(self, order_id, price, size, now_ms=0, post_only=False, self_trade=None):
        if order_id in self and size > self.order(order_id).remaining:
            raise DuplicateOrderError("larger")
        return super().replace(order_id, price, size, now_ms, post_only, self_trade)


class IgnoresPostOnly(PlainBook):
    """Post-only orders trade."""

    def submit(self, order, now_ms=0):
        return super().submit(msgspec.structs.replace(order, post_only=False), now_ms)


class RestsIoc(PlainBook):
    """The remainder of an immediate-or-cancel order rests."""

    def submit(self, order, now_ms=0):
        if order.time_in_force is TimeInForce.IOC:
            order = msgspec.structs.replace(order, time_in_force=TimeInForce.GTC)
        return super().submit(order, now_ms)


class NeverExpires(PlainBook):
    """Orders trade past their expiration."""

    def expire(self, now_ms):
        return []


class TradesWithItself(PlainBook):
    """Self-trade policies have no effect."""

    def submit(self, order, now_ms=0):
        return super().submit(msgspec.structs.replace(order, self_trade=None), now_ms)


class OtherCode(PlainBook):
    """An unknown order is rejected with another code."""

    def cancel(self, order_id, now_ms=0):
        try:
            return super().cancel(order_id, now_ms)
        except RejectedError:
            raise DuplicateOrderError("unknown") from None


class Crashes(PlainBook):
    """An unknown order ends in a KeyError."""

    def cancel(self, order_id, now_ms=0):
        if order_id not in self:
            raise KeyError(order_id)
        return super().cancel(order_id, now_ms)


class WrongDepth(PlainBook):
    """The depth counts an order too many."""

    def depth(self, levels=None):
        depth = super().depth(levels)
        bids = tuple(msgspec.structs.replace(x, num_orders=x.num_orders + 1) for x in depth.bids)
        return msgspec.structs.replace(depth, bids=bids)


@pytest.mark.parametrize(
    ("book", "commands_max"),
    [
        (NewestFirst, 3),
        (RejectsLargerSizes, 2),
        (IgnoresPostOnly, 2),
        (RestsIoc, 1),
        (NeverExpires, 2),
        (TradesWithItself, 3),
        (OtherCode, 1),
        (Crashes, 1),
        (WrongDepth, 1),
    ],
)
def test_wrong_book_is_found_with_few_commands(book, commands_max):
    with pytest.raises(BookDiffersError) as caught:
        check_book(book, examples=300, derandomize=True)
    assert len(caught.value.commands) <= commands_max
    assert caught.value.received != caught.value.expected


def test_message_has_commands_and_both_results():
    order = Order(id="a", token="", maker="0xA", side=Side.BUY, price=50, size=1)
    stream = [Submit(order=order, now_ms=1), Cancel(order_id="a", now_ms=2)]
    stream.append(Cancel(order_id="b", now_ms=3))
    with pytest.raises(BookDiffersError) as caught:
        compare(OtherCode(), ReferenceBook(), stream)
    lines = str(caught.value).splitlines()
    assert lines[0] == "result differs from the reference book after 3 commands:"
    assert lines[-3:] == [f"  {stream[-1]!r}", "received: 'DUPLICATE_ORDER'",
                          "expected: 'UNKNOWN_ORDER'"]  # fmt: skip
