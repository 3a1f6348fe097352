"""``trades_max``: orders that would make more trades are rejected with the size that fits."""

import pytest

from clob import SelfTrade, TimeInForce, Trade
from clob.errors import InvalidInstructionError, TooManyTradesError
from tests.book.test_rejections import NO_INTEGERS
from tests.books import buy, event_lines, fill_book, rejected, sell


def ladder(book_class, *sizes, **fields):
    """Return a book of sell orders ``0``, ``1``..., one cent apart."""
    orders = (sell(str(n), 50 + n, size, **fields) for n, size in enumerate(sizes))
    return fill_book(book_class(), *orders)


def trades_of(events):
    return [event for event in events if isinstance(event, Trade)]


@pytest.mark.parametrize("size", [1, 5, 6, 11, 12, 17])
def test_an_order_makes_up_to_trades_max_trades(book_class, size):
    sizes = (5, 6, 7)
    for trades_max in (1, 2, 3, 4, 2**70):
        book = ladder(book_class, *sizes)
        wanted = sum(size > before for before in (0, 5, 11))
        if wanted > trades_max:
            fits = sum(sizes[:trades_max])
            words = (f"at most {trades_max} trades; got {wanted}", f"a size of {fits} wei")
            with rejected(book, TooManyTradesError, *words):
                book.submit(buy("b", 60, size), 0, trades_max)
            assert len(trades_of(book.submit(buy("b", 60, fits), 0, trades_max))) == trades_max
            assert book.best_bid is None
        else:
            assert len(trades_of(book.submit(buy("b", 60, size), 0, trades_max))) == wanted


def test_none_is_no_limit(book_class):
    book = ladder(book_class, *[1] * 45)
    assert len(trades_of(book.submit(buy("b", 99, 50), trades_max=None))) == 45


def test_only_trades_within_the_price_count(book_class):
    book = ladder(book_class, 1, 1, 1)
    assert event_lines(book.submit(buy("b", 50, 5), trades_max=1)) == [
        "trade 0 b 1 @ 50",
        "removed 0 filled",
        "added b 4",
    ]


def test_expired_orders_do_not_count(book_class):
    book = ladder(book_class, 1, 1, 1, expiration_s=1)
    fill_book(book, sell("alive", 53, 1), sell("alive too", 54, 1))
    with rejected(book, TooManyTradesError, "got 2", "size of 1 wei"):
        book.submit(buy("b", 54, 2), now_ms=2_000, trades_max=1)
    assert len(book.submit(buy("b", 53, 1), now_ms=2_000, trades_max=1)) == 3 + 2


@pytest.mark.parametrize(
    ("policy", "trades", "fits"),
    [
        (SelfTrade.NONE, 3, 3),
        (SelfTrade.CANCEL_RESTING, 2, 3),
        (SelfTrade.DECREMENT, 2, 3),
        (SelfTrade.CANCEL_INCOMING, 1, None),
        (SelfTrade.CANCEL_BOTH, 1, None),
    ],
)
def test_own_orders_removed_by_a_policy_do_not_count(book_class, policy, trades, fits):
    orders = (sell("1", 50, 3), sell("own", 51, 4, maker="me"), sell("2", 52, 5))
    book = fill_book(book_class(), *orders)
    order = buy("b", 52, 12, maker="me", self_trade=policy)
    if trades == 1:
        assert len(trades_of(book.submit(order, trades_max=1))) == 1
        return
    with rejected(book, TooManyTradesError, f"got {trades}", f"size of {fits} wei"):
        book.submit(order, trades_max=1)
    assert len(trades_of(book.submit(order, trades_max=trades))) == trades


def test_a_replacement_with_too_many_trades_is_rejected(book_class):
    book = fill_book(ladder(book_class, 4, 5), buy("b", 40, 3))
    with rejected(book, TooManyTradesError, "at most 1 trades; got 2", "size of 4 wei"):
        book.replace("b", 55, 6, trades_max=1)
    assert event_lines(book.replace("b", 55, 4, trades_max=1)) == [
        "removed b replaced 3",
        "trade 0 b 4 @ 50",
        "removed 0 filled",
    ]


def test_a_replacement_in_place_makes_no_trades(book_class):
    book = fill_book(book_class(), buy("b", 40, 3))
    assert event_lines(book.replace("b", 40, 2, trades_max=1)) == ["reduced b 2"]


def test_simulate_with_too_many_trades_is_rejected(book_class):
    book = ladder(book_class, 4, 5)
    order = buy("b", 55, 6)
    with rejected(book, TooManyTradesError, "size of 4 wei"):
        book.simulate(order, 0, 1)
    assert len(book.simulate(order, 0, 2)) == 2


def test_fill_or_kill_with_too_many_trades_is_rejected(book_class):
    book = ladder(book_class, 4, 5)
    order = buy("b", 55, 9, time_in_force=TimeInForce.FOK)
    with rejected(book, TooManyTradesError):
        book.submit(order, trades_max=1)
    assert len(trades_of(book.submit(order, trades_max=2))) == 2


@pytest.mark.parametrize("wrong", [0, -1, -(2**70), *[n for n in NO_INTEGERS if n is not None]])
def test_an_invalid_trades_max_is_rejected(book_class, wrong):
    book = fill_book(book_class(), buy("a", 40, 3))
    for call in (
        lambda: book.submit(buy("b", 50, 1), 0, wrong),
        lambda: book.simulate(buy("b", 50, 1), 0, wrong),
        lambda: book.replace("a", 41, 1, trades_max=wrong),
    ):
        with rejected(book, InvalidInstructionError, "trades_max", "1 or more", repr(wrong)):
            call()


def test_ids_lists_resting_orders_in_sequence(book_class):
    book = book_class()
    assert book.ids() == []
    asks = [sell(7, 60, 1), sell("x", 55, 1), sell("0", 60, 1)]
    fill_book(book, buy("b", 40, 1), buy(2**63 - 1, 45, 2), buy("ключ", 45, 1), *asks)
    assert book.ids() == [2**63 - 1, "ключ", "b", "x", 7, "0"]
    assert book.ids() == [resting.order_id for resting in book.orders()]
    book.replace(2**63 - 1, 45, 3)
    book.cancel("x")
    assert book.ids() == ["ключ", 2**63 - 1, "b", 7, "0"]
    assert all(type(order_id) in (int, str) for order_id in book.ids())
    assert isinstance(book.submit(sell("s", 1, 99))[0], Trade)
    assert book.ids() == ["s", 7, "0"]
