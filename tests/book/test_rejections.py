"""Each invalid input raises its error class with a clear message and changes nothing."""

import copy
import pickle

import numpy as np
import pytest

from clob import SIZE_MAX, Order, RejectedError, Side, TimeInForce, errors
from clob.records import FILL
from clob.units import TIME_MAX
from tests.books import buy, fill_book, rejected, sell

NO_INTEGERS = [1.5, 2.0, "2", True, None, np.int64(2), np.uint8(2), b"2", [2], 2j, Side.SELL]
"""Values that look like integers or equal one, but are not of type int."""


@pytest.fixture
def book(book_class):
    """A book with a few orders, and a lot of 2 wei."""
    return fill_book(
        book_class(token="T", lot_wei=2),
        sell("ask", 60, 4, token="T", maker="m"),
        buy("bid", 40, 4, token="T", maker="m"),
        buy("mortal", 30, 4, token="T", expiration_s=1),
    )


def order(**fields):
    """Return an order that is valid for the book except for the given fields."""
    right = {"id": "new", "token": "T", "maker": "m", "side": Side.BUY, "price": 50, "size": 4}
    return Order(**(right | fields))


# ----- one rule at a time --------------------------------------------------------------------


@pytest.mark.parametrize("price", [0, 100, -1, 2**31, -(2**63), 2**64, 10**500, *NO_INTEGERS])
def test_price_off_the_grid_is_rejected(book, price):
    shown = "bits" if price == 10**500 else repr(price)
    with rejected(book, errors.PriceOutOfRangeError, "price", 1, 99, shown):
        book.submit(order(price=price))
    with rejected(book, errors.PriceOutOfRangeError, "price", 1, 99, shown):
        book.rest(order(price=price))
    with rejected(book, errors.PriceOutOfRangeError, "price", 1, 99, shown):
        book.replace("bid", price=price, size=4)


@pytest.mark.parametrize("size", [0, -1, -2, -(2**63), -(10**500), *NO_INTEGERS])
def test_size_other_than_a_positive_integer_is_rejected(book, size):
    for call in sized(book, size):
        with rejected(book, errors.InvalidAmountError, "size", "1 wei or more"):
            call()


@pytest.mark.parametrize("size", [1, 3, SIZE_MAX, 2**128 + 1])
def test_size_off_the_lot_is_rejected(book, size):
    for call in sized(book, size):
        with rejected(book, errors.InvalidAmountError, "multiple of the lot of 2 wei", size):
            call()


def test_a_rejection_off_the_lot_names_the_nearest_sizes(book):
    with rejected(book, errors.InvalidAmountError, "nearest: 4 or 6"):
        book.submit(order(size=5))
    with rejected(book, errors.InvalidAmountError, "nearest: 2"):
        book.submit(order(size=1))


@pytest.mark.parametrize("size", [SIZE_MAX + 1, 2**127, 2**128, 10**500])
def test_size_above_the_maximum_is_rejected(book, size):
    shown = "bits" if size == 10**500 else size
    for call in sized(book, size):
        with rejected(book, errors.AmountTooLargeError, "size", SIZE_MAX, shown):
            call()


def test_the_maximum_size_is_accepted(book_class):
    book = fill_book(book_class(), sell("a", 50, SIZE_MAX))
    assert book.order("a").remaining == SIZE_MAX


def sized(book, size):
    """Return every call that takes a size."""
    return [
        lambda: book.submit(order(size=size)),
        lambda: book.submit(order(size=size, time_in_force=TimeInForce.FOK)),
        lambda: book.rest(order(size=size)),
        lambda: book.simulate(order(size=size)),
        lambda: book.reduce("bid", size=size),
        lambda: book.replace("bid", price=40, size=size),
    ]


@pytest.mark.parametrize("side", [0, 1, 2, -1, None, "BUY", True, TimeInForce.GTC, np.uint8(0)])
def test_invalid_side_is_rejected(book, side):
    with rejected(book, errors.InvalidSideError, "Side.BUY or Side.SELL", repr(side)):
        book.submit(order(side=side))


@pytest.mark.parametrize("name", ["", -1, 2**63, 2**64, None, True, 1.0, b"a", ("a",), np.int64(1)])
def test_invalid_new_id_is_rejected(book, name):
    with rejected(book, errors.InvalidOrderIdError):
        book.submit(order(id=name))
    with rejected(book, errors.InvalidOrderIdError):
        book.rest(order(id=name))


class Text(str):
    """A subclass of str, which may redefine equality."""

    __slots__ = ()


@pytest.mark.parametrize("name", [-1, 2**64, None, True, 1.0, b"a", ("a",), np.int64(1), Text("a")])
def test_invalid_id_of_a_resting_order_is_rejected(book, name):
    calls = [book.cancel, book.order, book.ahead, book.number_of]
    calls += [lambda n: book.reduce(n, size=2), lambda n: book.replace(n, price=50, size=2)]
    for call in calls:
        with rejected(book, errors.InvalidOrderIdError, 2**64 - 1, repr(name)):
            call(name)


@pytest.mark.parametrize("name", ["nobody", "", 0, 7, 2**63 + 99, 2**64 - 1, "BID", "\ud800"])
def test_unknown_id_is_rejected(book, name):
    calls = [book.cancel, book.order, book.ahead]
    calls += [lambda n: book.reduce(n, size=2), lambda n: book.replace(n, price=50, size=2)]
    for call in calls:
        with rejected(book, errors.UnknownOrderError, repr(name)):
            call(name)


@pytest.mark.parametrize("maker", [None, 7, b"m", Text("m")])
def test_invalid_maker_is_rejected(book, maker):
    with rejected(book, errors.InvalidOwnerError, "maker", repr(maker)):
        book.submit(order(maker=maker))


@pytest.mark.parametrize("token", ["", "U", "t", None, 7])
def test_another_token_is_rejected(book, token):
    with rejected(book, errors.TokenNotInMarketError, "'T'", repr(token)):
        book.submit(order(token=token))


@pytest.mark.parametrize("now_ms", [-1, TIME_MAX + 1, 10**30, 1.0, "0", None, True, np.int64(0)])
def test_invalid_time_is_rejected(book, now_ms):
    calls = [
        lambda: book.submit(order(), now_ms=now_ms),
        lambda: book.rest(order(), now_ms=now_ms),
        lambda: book.simulate(order(), now_ms=now_ms),
        lambda: book.cancel("bid", now_ms=now_ms),
        lambda: book.reduce("bid", size=2, now_ms=now_ms),
        lambda: book.replace("bid", price=40, size=2, now_ms=now_ms),
        lambda: book.expire(now_ms),
    ]
    for call in calls:
        with rejected(book, errors.InvalidTimeError, "now_ms", TIME_MAX, repr(now_ms)):
            call()


@pytest.mark.parametrize(
    "fields",
    [
        {"time_in_force": 0},
        {"time_in_force": None},
        {"time_in_force": "GTC"},
        {"time_in_force": Side.BUY},
        {"post_only": 1},
        {"post_only": None},
        {"post_only": np.bool_(True)},
        {"self_trade": 0},
        {"self_trade": "NONE"},
        {"self_trade": False},
        {"expiration_s": -1},
        {"expiration_s": 1.0},
        {"expiration_s": None},
        {"expiration_s": True},
        {"expiration_s": np.int64(9)},
        {"time_in_force": TimeInForce.GTD},
        {"time_in_force": TimeInForce.IOC, "post_only": True},
        {"time_in_force": TimeInForce.FOK, "post_only": True},
    ],
)
def test_invalid_instructions_are_rejected(book, fields):
    with rejected(book, errors.InvalidInstructionError):
        book.submit(order(**fields))


@pytest.mark.parametrize("fields", [{"post_only": 1}, {"self_trade": 1}, {"self_trade": "NONE"}])
def test_invalid_instructions_of_a_replacement_are_rejected(book, fields):
    with rejected(book, errors.InvalidInstructionError):
        book.replace("bid", price=40, size=2, **fields)


def test_duplicate_id_is_rejected(book):
    for call in (book.submit, book.rest, book.simulate):
        with rejected(book, errors.DuplicateOrderError, "'bid'"):
            call(order(id="bid"))


def test_expired_order_is_rejected(book):
    with rejected(book, errors.OrderExpiredError, 1, 2):
        book.replace("mortal", price=30, size=2, now_ms=2_000)


def test_a_long_value_is_shortened_in_the_message(book):
    with pytest.raises(RejectedError) as caught:
        book.cancel("x" * 100_000)
    assert len(str(caught.value)) < 300


class WithoutRepr:
    """Raises in ``repr``."""

    def __repr__(self):
        raise ValueError("no words")


def test_a_value_with_a_failing_repr_is_rejected(book):
    with rejected(book, errors.PriceOutOfRangeError, 1, 99):
        book.submit(order(price=WithoutRepr()))
    with rejected(book, errors.InvalidOrderIdError):
        book.cancel(book)
    with pytest.raises(TypeError, match="Order"):
        book.submit(book)


# ----- errors as objects -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        errors.BookBusyError(),
        errors.MatcherBusyError(),
        errors.InvalidBytesError("too long", 7),
        errors.FrameTruncatedError("header must have 12 bytes; got 7", 1, 0),
        errors.ReplayDiffersError(3, "state hash", b"1", b"2"),
        errors.RunRejectedError(4, "UNKNOWN_ORDER", np.zeros(2, FILL)),
        errors.FillsFullError(5, np.zeros(1, FILL)),
        errors.OrderNotOpenError("the order is filled", "a"),
        errors.UnknownOrderError("no order 'a' rests in this book"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_reach_another_process_unchanged(error):
    error.add_note("while reading")
    copies = [pickle.loads(pickle.dumps(error, version)) for version in range(6)]
    for copied in (*copies, copy.copy(error)):
        assert (type(copied), str(copied)) == (type(error), str(error))
        np.testing.assert_equal(vars(copied), vars(error))
