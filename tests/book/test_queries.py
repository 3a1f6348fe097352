"""Queries of a book: exact results, and no changes."""

import copy

import pytest

from clob import Ahead, Depth, Level, Resting, SelfTrade, Side, TimeInForce, Trade
from clob.errors import FokNotFillableError, UnknownOrderError
from tests.books import ask, batch, bid, buy, event_lines, fill_book, rejected, sell


@pytest.fixture
def book(book_class):
    """Three levels of bids and two of asks."""
    return fill_book(
        book_class(token="t", market="m"),
        *(buy(i, p, s, token="t") for i, p, s in [("a", 40, 5), ("b", 42, 6), ("c", 41, 7)]),
        *(buy(i, p, s, token="t") for i, p, s in [("d", 42, 8), ("e", 42, 9)]),
        *(sell(i, p, s, token="t") for i, p, s in [("f", 60, 1), ("g", 58, 2), ("h", 60, 3)]),
    )


BIDS = (Level(42, 23, 3), Level(41, 7, 1), Level(40, 5, 1))
ASKS = (Level(58, 2, 1), Level(60, 4, 2))


def test_depth_lists_all_levels(book):
    assert book.depth() == Depth("m", "t", 8, BIDS, ASKS)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 100])
def test_depth_with_a_limit(book, limit):
    assert book.depth(limit) == Depth("m", "t", 8, BIDS[:limit], ASKS[:limit])
    assert book.depth(limit=limit) == book.depth(limit)


def test_depth_with_a_negative_limit_is_rejected(book):
    with pytest.raises(ValueError, match="-1"):
        book.depth(-1)


def test_depth_of_an_empty_book(book_class):
    assert book_class().depth() == Depth("", "", 0, (), ())


def test_a_depth_does_not_change_with_the_book(book):
    before = book.depth()
    book.clear()
    assert (before.bids, before.asks) == (BIDS, ASKS)


def test_best_prices(book, book_class):
    assert (book.best_bid, book.best_ask) == (42, 58)
    book.cancel("g")
    assert (book.best_bid, book.best_ask) == (42, 60)
    empty = book_class()
    assert (empty.best_bid, empty.best_ask) == (None, None)


def test_a_best_price_of_zero_is_returned(book_class):
    book = fill_book(book_class(lo=-5, hi=5), buy("a", 0, 1))
    assert book.best_bid == 0


@pytest.mark.parametrize(
    ("order_id", "num_orders", "size"),
    [("b", 0, 0), ("d", 1, 6), ("e", 2, 14), ("c", 0, 0), ("f", 0, 0), ("h", 1, 1)],
)
def test_ahead_counts_orders_and_size(book, order_id, num_orders, size):
    assert book.ahead(order_id) == Ahead(num_orders, size)
    assert book.ahead(book.number_of(order_id)) == Ahead(num_orders, size)


def test_ahead_follows_fills_cancels_and_reductions(book):
    book.submit(sell("s", 42, 4, token="t"))
    assert book.ahead("e") == Ahead(2, 10)
    book.reduce("d", size=3)
    assert book.ahead("e") == Ahead(2, 5)
    book.cancel("b")
    assert book.ahead("e") == Ahead(1, 3)
    book.replace("d", price=42, size=9)
    assert book.ahead("e") == Ahead(0, 0)
    assert book.ahead("d") == Ahead(1, 9)


def test_ahead_is_what_must_trade_first(book_class):
    book = fill_book(book_class(), *(buy(i, 50, 3 * i) for i in range(1, 30)))
    for order_id in range(1, 30):
        fork = book.fork()
        size = book.ahead(order_id).size
        if size:
            fork.submit(sell("s", 50, size))
        (trade,) = fork.submit(sell("t", 50, 1))
        assert trade.resting_order_id == order_id


def test_order_returns_a_resting_order(book):
    assert book.order("d") == Resting("d", Side.BUY, 42, 8, "maker of d", 0)
    assert book.order(book.number_of("h")) == Resting("h", Side.SELL, 60, 3, "maker of h", 0)
    book.submit(sell("s", 42, 7, token="t"))
    assert book.order("d").remaining == 7


def test_orders_are_bids_first_best_first_oldest_first(book):
    assert [order.order_id for order in book.orders()] == list("bdecagfh")
    assert book.orders()[0] == book.order("b")


def test_len_and_in(book):
    assert len(book) == 8
    assert "a" in book
    assert book.number_of("a") in book
    for stranger in ("z", "", "A", 0, 1, 2**63 + 8, 2**64, -1, None, 1.0, True, b"a", (), [], {}):
        assert stranger not in book
    book.cancel("a")
    assert "a" not in book
    assert len(book) == 7


def test_in_requires_the_exact_type(book_class):
    book = fill_book(book_class(), buy(1, 50, 1))
    assert 1 in book
    assert 1.0 not in book
    assert True not in book


def test_number_of_and_id_of(book):
    numbers = [book.number_of(order_id) for order_id in "abcdefgh"]
    assert numbers == list(range(2**63, 2**63 + 8))
    assert [book.id_of(number) for number in numbers] == list("abcdefgh")
    assert book.number_of(numbers[2]) == numbers[2]
    assert (book.number_of(5), book.id_of(5)) == (5, 5)


def test_number_of_a_removed_order_is_rejected(book):
    number = book.number_of("a")
    book.cancel("a")
    with rejected(book, UnknownOrderError, "'a'"):
        book.number_of("a")
    with rejected(book, UnknownOrderError, number):
        book.id_of(number)


def test_repr_draws_the_ladder(book):
    for text in (repr(book), book._repr_html_()):
        for price in (40, 41, 42, 58, 60):
            assert str(price) in text
        assert text.index("60") < text.index("58") < text.index("42") < text.index("40")


def test_repr_of_an_empty_book(book_class):
    assert isinstance(repr(book_class()), str)
    assert isinstance(book_class()._repr_html_(), str)


def test_check_passes(book):
    assert book.check() is None


# ----- state ---------------------------------------------------------------------------------


def test_state_hash_is_the_digest_of_the_state_bytes(book):
    assert isinstance(book.state_bytes(), bytes)
    assert len(book.state_hash()) == 32
    assert book.state_hash() == book.fork().state_hash()


def test_canonical_bytes_match_the_documentation(book_class):
    book = fill_book(book_class(lo=-1, hi=3, token="tk", lot_wei=2, market="m"))
    book.submit(buy("é", 2, 6, token="tk", maker="w", expiration_s=9))
    book.submit(sell(5, 3, 4, token="tk", maker=""))
    assert book.state_bytes() == b"".join(
        [
            b"CLOBBOOK\x01" + b"\xff\xff\xff\xff" + b"\x03\0\0\0" + b"\x02" + bytes(15),
            b"\x02\0\0\0tk" + b"\x01\0\0\0m" + b"\x02" + bytes(7) + b"\x01" + bytes(6) + b"\x80",
            b"\x01\0\0\0" + b"\x02\0\0\0" + b"\x01\0\0\0",
            b"\x01" + b"\x02\0\0\0\xc3\xa9" + bytes(7) + b"\x80",
            b"\x06" + bytes(15) + b"\x01\0\0\0w" + b"\x09" + bytes(7),
            b"\x01\0\0\0" + b"\x03\0\0\0" + b"\x01\0\0\0",
            b"\0" + b"\x05" + bytes(7) + b"\x04" + bytes(15) + bytes(4) + bytes(8),
        ]
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda book: book.submit(buy("z", 1, 1, token="t")),
        lambda book: book.cancel("a"),
        lambda book: book.reduce("a", size=4),
        lambda book: book.replace("b", price=42, size=6),
        lambda book: book.submit(sell("z", 42, 1, token="t")),
    ],
)
def test_state_hash_changes_with_every_field(book, change):
    before = book.state_hash()
    change(book)
    assert book.state_hash() != before


def test_state_hash_depends_on_queue_order(book_class):
    one = fill_book(book_class(), buy(1, 50, 1), buy(2, 50, 1))
    two = fill_book(book_class(), buy(2, 50, 1), buy(1, 50, 1))
    assert one.depth() == two.depth()
    assert one.state_hash() != two.state_hash()


def test_capacity_is_not_part_of_the_state(book_class):
    assert book_class(capacity=100).state_hash() == book_class().state_hash()


# ----- simulate and fork ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        sell("s", 40, 30, token="t"),
        sell("s", 42, 1, token="t", time_in_force=TimeInForce.FOK),
        sell("b", 1, 1_000, token="t", time_in_force=TimeInForce.IOC),
        buy("s", 99, 4, token="t"),
        buy("s", 50, 4, token="t"),
        buy("s", 60, 9, token="t", maker="maker of f", self_trade=SelfTrade.DECREMENT),
        buy("s", 60, 9, token="t", maker="maker of f", self_trade=SelfTrade.CANCEL_RESTING),
    ],
)
def test_simulate_returns_the_trades_of_submit(book, order):
    before = book.state_bytes()
    trades = book.simulate(order)
    assert book.state_bytes() == before
    assert trades == [event for event in book.submit(order) if isinstance(event, Trade)]


def test_simulate_uses_the_time(book_class):
    book = fill_book(book_class(), sell("a", 50, 5, expiration_s=1), sell("b", 51, 5))
    assert event_lines(book.simulate(buy("c", 60, 3), now_ms=2_000)) == ["trade b c 3 @ 51"]
    assert "a" in book


def test_simulate_rejects_like_submit(book):
    order = sell("s", 42, 1_000, token="t", time_in_force=TimeInForce.FOK)
    with rejected(book, FokNotFillableError, 23, 1_000):
        book.simulate(order)


@pytest.mark.parametrize("way", ["fork", "copy"])
def test_a_fork_is_equal_and_independent(book, way):
    fork = book.fork() if way == "fork" else copy.copy(book)
    assert type(fork) is type(book)
    assert fork.state_bytes() == book.state_bytes()
    assert fork.orders() == book.orders()
    before = book.state_bytes()
    fork_lines = event_lines(fork.submit(sell("s", 40, 100, token="t")))
    fork.check()
    assert book.state_bytes() == before
    assert event_lines(book.submit(sell("s", 40, 100, token="t"))) == fork_lines
    assert fork.state_bytes() == book.state_bytes()
    book.clear()
    assert len(fork) == 4
    fork.check()


def test_a_fork_of_a_fork_is_independent(book):
    forks = [book]
    for size in range(1, 6):
        forks.append(forks[-1].fork())
        forks[-1].submit(buy(f"n{size}", 1, size, token="t"))
    assert [len(fork) for fork in forks] == list(range(8, 14))
    assert len({fork.state_hash() for fork in forks}) == 6


def test_a_fork_outlives_the_book(book_class):
    fork = fill_book(book_class(), buy("a", 50, 5)).fork()
    assert event_lines(fork.cancel("a")) == ["removed a cancelled 5"]


def test_best_of_others_skips_orders_of_one_owner(book_class):
    events = batch(
        bid(1, 48, 5),
        bid(2, 49, 5, owner=7),
        bid(3, 50, 5, owner=7),
        bid(4, 50, 5, owner=7),
        ask(5, 52, 5, owner=7),
        ask(6, 52, 5, owner=8),
    )
    book = book_class()
    assert book._best_of_others(7) == (None, None)
    book.run(events)
    assert book._best_of_others(7) == (48, 52)
    assert book._best_of_others(8) == (50, 52)
    assert book._best_of_others(9) == (50, 52)
    book.submit(buy("late", 50, 1))
    assert book._best_of_others(7) == (50, 52)
    for owner in (0, -1, 2**31, True, None):
        with pytest.raises(ValueError, match="owner must be an integer from 1 to"):
            book._best_of_others(owner)


def test_lots_ahead_are_those_of_older_orders_at_the_price(book_class):
    book = book_class(lot_wei=10)
    assert book._lots_ahead(1) == -1
    book.run(batch(bid(1, 48, 5), bid(2, 48, 7), bid(3, 49, 1), bid(4, 48, 1), ask(5, 60, 2)))
    assert [book._lots_ahead(order_id) for order_id in (1, 2, 3, 4, 5, 6)] == [0, 5, 0, 12, 0, -1]
    book.cancel(1)
    assert [book._lots_ahead(order_id) for order_id in (1, 2, 4)] == [-1, 0, 7]
