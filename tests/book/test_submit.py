"""Submitting and resting orders: events field by field, and the resulting book."""

import pytest

from clob import (
    SIZE_MAX,
    Level,
    Order,
    OrderAdded,
    OrderRemoved,
    RemovalReason,
    Side,
    Trade,
    tokens,
)
from clob.errors import DuplicateOrderError, InvalidBookError, SeedWouldCrossError
from clob.units import TICKS_MAX
from tests.books import Ledger, buy, event_lines, fill_book, rejected, sell


def test_an_order_without_a_match_rests(book_class):
    book = book_class(token="101", market="m")
    assert book.submit(buy("a", 50, 60, token="101")) == [
        OrderAdded(1, "m", "101", "a", Side.BUY, 50, 60)
    ]


def test_a_trade_describes_both_orders(book_class):
    book = book_class(token="101", market="m")
    book.submit(sell("a", 50, 60, token="101", maker="alice"))
    assert book.submit(buy("b", 55, 100, token="101", maker="bob")) == [
        Trade(2, "m", "101", "a", "b", 50, 60, "bob", "alice", 0, 40, Side.BUY),
        OrderRemoved(3, "m", "101", "a", RemovalReason.FILLED, 0),
        OrderAdded(4, "m", "101", "b", Side.BUY, 55, 40),
    ]


def test_an_incoming_sell_names_the_resting_maker_as_buyer(book_class):
    book = fill_book(book_class(), buy("a", 50, 60, maker="alice"))
    (trade,) = book.submit(sell("b", 45, 10, maker="bob"))
    assert (trade.buyer, trade.seller, trade.incoming_side) == ("alice", "bob", Side.SELL)
    assert (trade.price, trade.resting_remaining, trade.incoming_remaining) == (50, 50, 0)


def test_integer_ids_are_returned_as_integers(book_class):
    book = fill_book(book_class(), sell(7, 50, 5))
    trade, removed, added = book.submit(buy(8, 50, 6))
    assert (trade.resting_order_id, trade.incoming_order_id) == (7, 8)
    assert (removed.order_id, added.order_id) == (7, 8)


def test_sizes_far_beyond_64_bits_are_exact(book_class):
    book = fill_book(book_class(), *(sell(i, 50, SIZE_MAX) for i in range(1, 6)))
    assert book.depth().asks == (Level(50, 5 * SIZE_MAX, 5),)
    trade, added = book.submit(buy(9, 50, SIZE_MAX))[0], book.ahead(5)
    assert (trade.size, trade.resting_remaining) == (SIZE_MAX, 0)
    assert added.size == 3 * SIZE_MAX
    (trade,) = book.submit(buy(9, 50, 1))
    assert trade.resting_remaining == SIZE_MAX - 1


def test_seq_counts_events_only(book_class):
    book = book_class()
    assert book.seq == 0
    ledger = Ledger()
    for order in (sell("a", 50, 5), sell("b", 51, 5), buy("c", 51, 20), sell("d", 1, 3)):
        ledger.apply(book.submit(order))
        assert book.seq == ledger.seq
        assert ledger.agrees(book)


def test_every_price_of_the_default_grid_accepts_orders(book_class):
    book = fill_book(book_class(), *(buy(price, price, price) for price in range(1, 100)))
    assert [level.price for level in book.depth().bids] == list(range(99, 0, -1))
    lines = event_lines(book.submit(sell("s", 1, 99 * 100 // 2)))
    assert lines[::2] == [f"trade {p} s {p} @ {p}" for p in range(99, 0, -1)]
    assert len(book) == 0


@pytest.mark.parametrize(
    ("lo", "hi"),
    [(5, 5), (-50, 50), (0, 64), (47_700, 69_895), (0, TICKS_MAX - 1), (2**31 - 100, 2**31 - 1)],
)
def test_any_grid_trades_at_its_edges(book_class, lo, hi):
    book = book_class(lo=lo, hi=hi)
    fill_book(book, sell("low", lo, 1))
    trade, _, added = event_lines(book.submit(buy("b", hi, 2)))
    assert (trade, added) == (f"trade low b 1 @ {lo}", "added b 1")
    assert (book.best_bid, book.best_ask) == (hi, None)
    assert event_lines(book.submit(sell("c", lo, 2)))[0] == f"trade b c 1 @ {hi}"
    assert (book.best_bid, book.best_ask) == (None, lo)
    book.check()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lo", 100),
        ("lo", -(2**31)),
        ("lo", 1.0),
        ("lo", True),
        ("hi", 0),
        ("hi", TICKS_MAX + 1),
        ("hi", 2**31),
        ("hi", "99"),
        ("hi", None),
        ("lot_wei", 0),
        ("lot_wei", -1),
        ("lot_wei", SIZE_MAX + 1),
        ("lot_wei", 1.0),
        ("capacity", -1),
        ("capacity", 2**31 + 1),
        ("capacity", 1.0),
        ("token", None),
        ("token", 101),
        ("market", b"m"),
    ],
)
def test_invalid_arguments_of_a_book_are_rejected(book_class, field, value):
    with pytest.raises(InvalidBookError) as caught:
        book_class(**{field: value})
    assert caught.value.code == "INVALID_BOOK"


def test_a_book_exposes_its_arguments(book_class):
    book = book_class(lo=10, hi=20, token="t", lot_wei=5, capacity=1_000, market="m")
    assert (book.lo, book.hi, book.token, book.lot_wei, book.market) == (10, 20, "t", 5, "m")


@pytest.mark.parametrize("name", ["lo", "hi", "token", "lot_wei", "market", "best_bid"])
def test_the_arguments_of_a_book_are_read_only(book_class, name):
    with pytest.raises(AttributeError):
        setattr(book_class(), name, 1)


def test_seq_can_be_set_to_share_a_sequence(book_class):
    yes, no = book_class(token="yes"), book_class(token="no")
    yes.submit(buy("a", 50, 1, token="yes"))
    no.seq = yes.seq
    assert [event.seq for event in no.submit(buy("b", 50, 1, token="no"))] == [2]
    yes.seq = no.seq
    assert [event.seq for event in yes.cancel("a")] == [3]
    for right in (0, 7, 2**63 - 1):
        yes.seq = right
        assert yes.seq == right
    yes.check()


@pytest.mark.parametrize("wrong", [-1, 2**63, 2**64, 1.0, "1", None, True, b"1"])
def test_an_invalid_seq_is_rejected(book_class, wrong):
    book = fill_book(book_class(), buy("a", 50, 1))
    before = book.state_hash()
    with pytest.raises(ValueError, match=f"from 0 to {2**63 - 1}"):
        book.seq = wrong
    assert (book.seq, book.state_hash()) == (1, before)


def test_seq_beyond_2_to_the_63(book_class):
    book = fill_book(book_class(), buy("a", 50, 1), buy("b", 50, 1))
    book.seq = 2**63 - 3
    (reduced,) = event_lines(book.cancel("a"))
    assert (reduced, book.seq) == ("removed a cancelled 1", 2**63 - 2)


def test_more_orders_than_the_capacity_are_accepted(book_class):
    book = fill_book(book_class(capacity=2), *(buy(i, 50, 1) for i in range(1_000)))
    assert len(book) == 1_000


def test_the_token_of_a_book_is_optional(book_class):
    fill_book(book_class(), buy("a", 50, 1, token="any"), buy("b", 50, 1, token=""))


def test_a_lot_divides_every_size(book_class):
    book = fill_book(book_class(lot_wei=tokens(1)), sell("a", 50, tokens(3)))
    assert event_lines(book.submit(buy("b", 50, tokens(1)))) == [f"trade a b {tokens(1)} @ 50"]


def test_rest_does_not_match(book_class):
    book = fill_book(book_class(), sell("a", 50, 5))
    assert event_lines(book.rest(buy("b", 49, 5, post_only=True))) == ["added b 5"]
    with rejected(book, SeedWouldCrossError, 50):
        book.rest(buy("c", 50, 5))
    with rejected(book, DuplicateOrderError, "'b'"):
        book.rest(buy("b", 40, 5))


def test_rest_against_an_expired_order_is_rejected(book_class):
    book = fill_book(book_class(), sell("a", 50, 5, expiration_s=1))
    with rejected(book, SeedWouldCrossError):
        book.rest(buy("b", 50, 5), now_ms=5_000)


def test_fields_unused_by_the_book_change_nothing(book_class):
    plain = fill_book(book_class(), buy("a", 50, 5))
    other = fill_book(book_class(), buy("a", 50, 5, nonce=7, collateral=3))
    assert plain.state_hash() == other.state_hash()


def test_submit_of_another_type_raises_type_error(book_class):
    book = book_class()
    for wrong in (None, "a", {"id": "a"}, ("a",), object()):
        with pytest.raises(TypeError, match="Order"):
            book.submit(wrong)
    assert book.seq == 0


class ChangingOrder(Order, frozen=True, kw_only=True, gc=False):
    """An order whose attributes are new objects, and its price another one, at each read."""

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name == "price":
            ChangingOrder.reads += 1
            return value if ChangingOrder.reads == 1 else 10**6
        return "".join(list(value)) if isinstance(value, str) else value


@pytest.mark.parametrize("method", ["submit", "rest", "simulate"])
def test_the_fields_of_an_order_are_read_once(book_class, method):
    book = fill_book(book_class(), buy("bid", 40, 5))
    for count in range(300):
        ChangingOrder.reads = 0
        order = ChangingOrder(
            id=f"order {count}", token="", maker=f"m {count}", side=Side.SELL, price=60, size=7
        )
        getattr(book, method)(order)
        assert ChangingOrder.reads == 1
    book.check()
    assert len(book) == (1 if method == "simulate" else 301)
    if method != "simulate":
        last = book.order("order 299")
        assert (last.price, last.remaining, last.maker) == (60, 7, "m 299")
