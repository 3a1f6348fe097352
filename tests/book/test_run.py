"""``run``: every kind of event, its rejections, and equivalence with single commands."""

import numpy as np
import pytest

from clob import SIZE_MAX, RunRejectedError, errors
from clob.errors import InvalidKindError, UnknownOrderError
from clob.records import EVENT, FILL, Flag, Kind
from tests.books import SECOND_NS, ask, batch, bid, buy, fill_book, fills_of, row, sell

REFERENCE = [Kind.TRADE, Kind.FILL, Kind.BBO, Kind.SETTLE]


def ids(book):
    return [order.order_id for order in book.orders()]


def statuses(book, *rows):
    """Run rows and return the status of each."""
    status = np.full(len(rows), 99, np.uint8)
    book.run(batch(*rows), status=status)
    return status.tolist()


def test_record_sizes_match_the_documentation():
    assert (EVENT.itemsize, FILL.itemsize) == (56, 48)
    assert EVENT.isalignedstruct
    assert FILL.isalignedstruct


# ----- kinds ---------------------------------------------------------------------------------


def test_limit_matches_and_rests(book_class):
    book = book_class()
    fills = book.run(batch(ask(1, 50, 5, ts_ns=3), ask(2, 51, 5), bid(3, 51, 12, ts_ns=-4)))
    assert fills.dtype == FILL
    assert fills_of(fills) == [(2, 1, 3, 5, 50), (2, 2, 3, 5, 51)]
    assert fills["ts_ns"].tolist() == [-4, -4]
    (order,) = book.orders()
    assert (order.order_id, order.price, order.remaining, order.maker) == (3, 51, 2, "")
    assert book.seq == 7


def test_ioc_never_rests_and_may_repeat_the_id_of_a_resting_order(book_class):
    book = book_class()
    assert fills_of(book.run(batch(ask(1, 50, 5), bid(2, 40, 5), row(Kind.IOC, 2, 0, 50, 9)))) == [
        (2, 1, 2, 5, 50)
    ]
    assert ids(book) == [2]


def test_cancel_ignores_every_field_but_the_order_id(book_class):
    book = book_class()
    book.run(batch(bid(1, 50, 5), row(Kind.CANCEL, 1, 9, -7, -7, owner=2**32 - 1, flags=0xFFFF)))
    assert ids(book) == []


def test_reduce_sets_the_remaining_size(book_class):
    book = book_class()
    book.run(batch(bid(1, 50, 5), bid(2, 50, 5), row(Kind.REDUCE, 1, 9, -7, 2, flags=0xFFFF)))
    assert [(o.order_id, o.remaining) for o in book.orders()] == [(1, 2), (2, 5)]


def test_replace_keeps_side_and_owner(book_class):
    book = book_class()
    events = batch(bid(1, 50, 5, owner=7), bid(2, 50, 5), row(Kind.REPLACE, 1, 9, 50, 6, owner=8))
    book.run(events)
    assert [(o.order_id, o.remaining, o.maker) for o in book.orders()] == [
        (2, 5, ""),
        (1, 6, "owner:7"),
    ]
    book.run(batch(row(Kind.REPLACE, 2, 0, 50, 4)))
    assert ids(book) == [2, 1]


def test_replace_that_crosses_trades(book_class):
    book = book_class()
    events = batch(ask(1, 60, 5), bid(2, 50, 5), row(Kind.REPLACE, 2, 0, 60, 7))
    assert fills_of(book.run(events)) == [(2, 1, 2, 5, 60)]
    assert book.order(2).remaining == 2


def test_replace_of_an_expired_order_is_rejected(book_class):
    book = fill_book(book_class(), buy("a", 50, 5, expiration_s=1))
    number = book.number_of("a")
    late = {"ts_ns": 2 * SECOND_NS}
    assert statuses(book, row(Kind.REPLACE, number, 0, 50, 4, **late)) == [
        errors.OrderExpiredError.number
    ]
    early = {"ts_ns": 2 * SECOND_NS - 1}
    assert statuses(book, row(Kind.REPLACE, number, 0, 50, 4, **early)) == [0]


def test_clear_ignores_every_other_field(book_class):
    book = book_class()
    book.run(batch(bid(1, 50, 5), ask(2, 60, 5), row(Kind.CLEAR, 7, 7, -7, -7, flags=0xFFFF)))
    assert (ids(book), book.seq) == ([], 4)


def test_seed_rests_without_matching(book_class):
    book = book_class()
    seeds = [row(Kind.SEED, 1, 0, 50, 5, owner=3), row(Kind.SEED, 2, 1, 50, 5)]
    assert statuses(book, *seeds) == [0, errors.SeedWouldCrossError.number]
    assert book.order(1).maker == "owner:3"


@pytest.mark.parametrize("kind", REFERENCE)
def test_reference_kinds_are_skipped_with_any_fields(book_class, kind):
    book = book_class()
    events = batch(row(kind, 2**64 - 1, 255, -(2**31), -(2**63), flags=0xFFFF, owner=2**32 - 1))
    status = np.full(1, 99, np.uint8)
    assert len(book.run(events, status=status)) == 0
    assert status.tolist() == [0]
    assert book.seq == 0
    assert len(book.run(events)) == 0


@pytest.mark.parametrize("kind", [Kind.LEVEL, *range(8, 16), 20, 31, 128, 255])
def test_level_and_unknown_kinds_are_rejected(book_class, kind):
    assert statuses(book_class(), row(kind, 1, 0, 50, 5)) == [InvalidKindError.number]


def test_snapshot_and_synthetic_flags_are_ignored(book_class):
    book = book_class()
    flags = int(Flag.SNAPSHOT | Flag.SYNTHETIC)
    assert statuses(book, bid(1, 50, 5, flags=flags)) == [0]


@pytest.mark.parametrize("flags", [4, 8, 128, 1024, 2**15, 5 << 4, 6 << 4, 7 << 4])
def test_unknown_flags_are_rejected(book_class, flags):
    wrong = errors.InvalidInstructionError.number
    book = book_class()
    rows = [bid(1, 50, 5, flags=flags), row(Kind.IOC, 1, 0, 50, 5, flags=flags)]
    rows += [row(Kind.SEED, 1, 0, 50, 5, flags=flags), row(Kind.REPLACE, 1, 0, 50, 5, flags=flags)]
    assert statuses(book, *rows) == [wrong] * 4


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (Kind.IOC, Flag.POST_ONLY),
        (Kind.LIMIT, Flag.POST_ONLY | Flag.FOK),
        (Kind.SEED, Flag.FOK),
        (Kind.REPLACE, Flag.FOK),
    ],
)
def test_contradicting_flags_are_rejected(book_class, kind, flags):
    wrong = [errors.InvalidInstructionError.number]
    assert statuses(book_class(), row(kind, 1, 0, 50, 5, flags=int(flags))) == wrong


@pytest.mark.parametrize("kind", [Kind.LIMIT, Kind.IOC])
def test_fill_or_kill(book_class, kind):
    book = book_class()
    fok = {"flags": int(Flag.FOK)}
    rows = [ask(1, 50, 5), row(kind, 2, 0, 50, 6, **fok), row(kind, 1, 0, 50, 5, **fok)]
    assert statuses(book, *rows) == [0, errors.FokNotFillableError.number, 0]
    assert ids(book) == []


def test_post_only(book_class):
    book = book_class()
    post = {"flags": int(Flag.POST_ONLY)}
    rows = [ask(1, 50, 5), bid(2, 50, 6, **post), bid(3, 49, 6, **post)]
    rows += [row(Kind.REPLACE, 3, 0, 50, 6, **post)]
    crossing = errors.PostOnlyWouldCrossError.number
    assert statuses(book, *rows) == [0, crossing, 0, crossing]
    assert ids(book) == [3, 1]


def test_resting_orders_expire_by_the_time_of_the_event(book_class):
    for ts_ns, met in ((2 * SECOND_NS - 1, "a"), (2 * SECOND_NS, "b"), (-(2**63), "a")):
        book = fill_book(book_class(), sell("a", 50, 5, expiration_s=1), sell("b", 50, 5))
        (fill,) = book.run(batch(bid(1, 50, 5, ts_ns=ts_ns)))
        assert book.id_of(int(fill["resting_id"])) == met
        assert fill["ts_ns"] == ts_ns


# ----- equivalence with single commands ------------------------------------------------------


def test_run_equals_the_single_calls(book_class):
    one, two = book_class(lot_wei=10), book_class(lot_wei=10)
    one.run(
        batch(
            ask(1, 50, 5, owner=4),
            ask(2, 52, 5),
            bid(3, 51, 7),
            row(Kind.REDUCE, 2, size=2),
            row(Kind.REPLACE, 3, price=52, size=1),
            row(Kind.SEED, 5, 1, 60, 3, owner=9),
            row(Kind.IOC, 6, 0, 60, 1),
            bid(7, 20, 1),
            row(Kind.CANCEL, 7),
        )
    )
    two.submit(sell(1, 50, 50, maker="owner:4"))
    two.submit(sell(2, 52, 50, maker=""))
    two.submit(buy(3, 51, 70, maker=""))
    two.reduce(2, size=20)
    two.replace(3, price=52, size=10)
    two.rest(sell(5, 60, 30, maker="owner:9"))
    two.submit(buy(6, 60, 10, maker=""))
    two.submit(buy(7, 20, 10, maker=""))
    two.cancel(7)
    assert one.orders() == two.orders()
    assert one.state_bytes() == two.state_bytes()


def test_state_carries_over_from_call_to_call(book_class):
    events = long_batch()
    whole = book_class()
    fills = whole.run(events)
    parts = book_class()
    pieces = [parts.run(events[start : start + 7]) for start in range(0, len(events), 7)]
    assert parts.state_hash() == whole.state_hash()
    assert sum(len(piece) for piece in pieces) == len(fills)
    joined = np.concatenate(pieces)
    assert (joined["resting_id"] == fills["resting_id"]).all()


def long_batch():
    """Three hundred valid events that cross, sweep several levels and cancel."""
    rows = []
    for i in range(1, 61):
        rows += [ask(10 * i, 50 + i % 3, 4), ask(10 * i + 1, 53, 2), bid(10 * i + 2, 49, 3)]
        rows += [row(Kind.IOC, 10 * i + 3, i % 2, 53 if i % 2 == 0 else 49, i % 9 + 1)]
        rows += [row(Kind.BBO)]
    return batch(*rows)


def test_an_empty_run(book_class):
    book = book_class()
    assert len(book.run(batch())) == 0
    assert len(book.run(batch(), np.zeros(0, FILL), np.zeros(0, np.uint8))) == 0
    assert book.seed(batch()) == 0


def test_read_only_events_are_accepted(book_class):
    events = batch(ask(1, 50, 5), bid(2, 50, 5))
    events.flags.writeable = False
    assert len(book_class().run(events)) == 1


def test_events_are_not_modified(book_class):
    events = long_batch()
    before = events.tobytes()
    book_class().run(events)
    assert events.tobytes() == before


# ----- text ids ------------------------------------------------------------------------------


def test_text_ids_mix_with_runs(book_class):
    book = fill_book(book_class(), sell("a", 50, 5), sell(7, 50, 5), sell("c", 50, 5))
    a, c = book.number_of("a"), book.number_of("c")
    fills = book.run(batch(row(Kind.REDUCE, a, size=2), bid(1, 50, 8)))
    assert fills_of(fills) == [(1, a, 1, 2, 50), (1, 7, 1, 5, 50), (1, c, 1, 1, 50)]
    assert [book.id_of(int(n)) for n in fills["resting_id"]] == ["a", 7, "c"]
    assert book.number_of("c") == c
    book.check()


def test_text_ids_that_left_during_a_run_stay_known_until_the_next(book_class):
    book = fill_book(book_class(), *(sell(name, 50, 5) for name in ("a", "b", "c", "d", "e")))
    numbers = [book.number_of(name) for name in ("a", "b", "c", "d", "e")]
    a, b, c, d, e = numbers
    book.run(batch(bid(1, 50, 5), row(Kind.CANCEL, b), row(Kind.REPLACE, c, price=51, size=5)))
    assert [book.id_of(number) for number in numbers] == ["a", "b", "c", "d", "e"]
    book.run(batch(row(Kind.CLEAR)))
    assert [book.id_of(number) for number in (c, d, e)] == ["c", "d", "e"]
    for number in (a, b):
        with pytest.raises(UnknownOrderError):
            book.id_of(number)
    book.run(batch())
    with pytest.raises(UnknownOrderError):
        book.id_of(c)


def test_a_text_id_filled_by_a_replace_stays_known(book_class):
    book = fill_book(book_class(), sell(1, 60, 5), buy("b", 50, 5))
    number = book.number_of("b")
    (fill,) = book.run(batch(row(Kind.REPLACE, number, price=60, size=5)))
    assert fill["incoming_id"] == number
    assert book.id_of(number) == "b"


def test_text_ids_stay_known_after_a_run_that_stops_early(book_class):
    book = fill_book(book_class(), sell("a", 50, 5))
    number = book.number_of("a")
    with pytest.raises(RunRejectedError):
        book.run(batch(row(Kind.CANCEL, number), row(Kind.CANCEL, 99)))
    assert book.id_of(number) == "a"


# ----- rejections ----------------------------------------------------------------------------


def test_without_a_status_the_first_rejection_stops_the_run(book_class):
    book = book_class()
    events = batch(ask(1, 50, 5), bid(2, 50, 2), row(Kind.CANCEL, 99), bid(3, 50, 2))
    with pytest.raises(RunRejectedError) as caught:
        book.run(events)
    assert (caught.value.index, caught.value.code) == (2, "UNKNOWN_ORDER")
    assert fills_of(caught.value.fills) == [(1, 1, 2, 2, 50)]
    assert "event 2" in str(caught.value)
    assert book.order(1).remaining == 3
    assert fills_of(book.run(events[3:])) == [(0, 1, 3, 2, 50)]


def test_with_a_status_the_run_continues(book_class):
    book = book_class()
    events = batch(
        ask(1, 50, 5), row(Kind.CANCEL, 99), row(Kind.BBO), bid(0, 100, 2), bid(3, 50, 2)
    )
    status = np.full(7, 99, np.uint8)
    fills = book.run(events, status=status)
    assert fills_of(fills) == [(4, 1, 3, 2, 50)]
    unknown, price = errors.UnknownOrderError.number, errors.PriceOutOfRangeError.number
    assert status.tolist() == [0, unknown, 0, price, 0, 99, 99]


@pytest.mark.parametrize("kind", [Kind.LIMIT, Kind.IOC, Kind.SEED, Kind.REDUCE, Kind.REPLACE])
def test_sizes_at_the_ends_of_64_bits(book_class, kind):
    small, large = errors.InvalidAmountError.number, errors.AmountTooLargeError.number
    sizes = [-(2**63), -1, 0, 2**63 - 1]
    book = fill_book(book_class(lot_wei=2**40), sell(1, 60, 2**41), buy(2, 50, 2**40))
    rows = [row(kind, 1, 1, 60, size) for size in sizes]
    assert statuses(book, *rows) == [small, small, small, large]
    assert len(book) == 2


def test_the_largest_sizes_a_record_can_hold(book_class):
    most = 2**63 - 1
    book = book_class()
    fills = book.run(batch(*(ask(i, 50, most) for i in (1, 2, 3)), bid(9, 50, most)))
    assert fills_of(fills) == [(3, 1, 9, most, 50)]
    assert book.depth().asks[0].size == 2 * most
    lots = SIZE_MAX // 2**34
    book = book_class(lot_wei=2**34)
    large = errors.AmountTooLargeError.number
    assert lots < most
    assert statuses(book, bid(1, 50, lots), bid(2, 50, lots + 1)) == [0, large]
    assert book.order(1).remaining == lots * 2**34


@pytest.mark.parametrize("kind", [Kind.LIMIT, Kind.IOC, Kind.SEED])
def test_owners_and_ids_at_their_limits(book_class, kind):
    book = book_class()
    owner, order_id = errors.InvalidOwnerError.number, errors.InvalidOrderIdError.number
    rows = [row(kind, 1, 0, 50, 1, owner=n) for n in (2**31, 2**32 - 1)]
    rows += [row(kind, n, 0, 50, 1) for n in (2**63, 2**64 - 1)]
    assert statuses(book, *rows) == [owner, owner, order_id, order_id]
    assert book.seq == 0
    rows = [row(kind, 2**63 - 1, 0, 50, 1, owner=2**31 - 1), row(kind, 0, 0, 50, 1)]
    assert statuses(book, *rows) == [0, 0]


@pytest.mark.parametrize("kind", [Kind.LIMIT, Kind.IOC, Kind.SEED])
@pytest.mark.parametrize("side", [2, 3, 255])
def test_invalid_sides_are_rejected(book_class, kind, side):
    wrong = errors.InvalidSideError.number
    assert statuses(book_class(), row(kind, 1, side, 50, 1)) == [wrong]


def test_unknown_orders_and_sizes_not_smaller_are_rejected(book_class):
    book = fill_book(book_class(), buy(1, 50, 5))
    unknown, not_reduced = errors.UnknownOrderError.number, errors.SizeNotReducedError.number
    rows = [row(kind, 2, price=50, size=5) for kind in (Kind.CANCEL, Kind.REDUCE, Kind.REPLACE)]
    rows += [row(Kind.CANCEL, 2**64 - 1)]
    rows += [row(Kind.REDUCE, 1, size=size) for size in (5, 6)]
    before = book.state_hash()
    assert statuses(book, *rows) == [unknown] * 4 + [not_reduced] * 2
    assert book.state_hash() == before
