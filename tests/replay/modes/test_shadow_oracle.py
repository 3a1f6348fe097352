"""The shadow driver against the plain reference driver, for random flows and own orders."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clob.records import EVENT, SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.io.streams import OWN, OWN_ID, Instrument, Stream
from clob.replay.modes.shadow import ShadowDriver
from clob.replay.sim.driver import NEVER, Stop
from tests import books
from tests.replay.modes.plain_shadow import PlainDriver
from tests.replay.modes.shadow_flows import flow_of, flows

LOT_WEI = 10**16

OWN_ACTS = st.tuples(
    st.integers(0, 120),
    st.sampled_from([Kind.LIMIT, Kind.LIMIT, Kind.LIMIT, Kind.IOC, Kind.CANCEL]),
    st.integers(0, 1),
    st.integers(46, 54),
    st.integers(1, 12),
    st.sampled_from([0, 0, 0, Flag.POST_ONLY, Flag.FOK]),
    st.integers(0, 1),
)


def play(driver, acts, policy, stop):
    """Send and cancel own orders during the flow; return all answers."""
    answers, numbers = [], sorted(driver.books)

    def reach(until_ns):
        while True:
            own = driver.advance(until_ns, stop)
            answers.append((own, driver.changed, driver.last_ns, driver.ended))
            answers.append(look(driver))
            if not (stop and (own or driver.changed >= 0)):
                return

    for order_id, (ts_ns, kind, side, price, size, flags, where) in enumerate(acts, OWN_ID):
        reach(ts_ns)
        instrument = numbers[where % len(numbers)]
        if kind == Kind.CANCEL:
            answers.append(driver.cancel(ts_ns, instrument, OWN_ID + size))
        else:
            flags = 0 if kind == Kind.IOC else int(flags)
            answers.append(
                driver.submit(
                    ts_ns, instrument, order_id, kind, side, price, size,
                    flags | policy << SELF_TRADE_SHIFT,
                )
            )  # fmt: skip
        answers.append(look(driver, range(OWN_ID, order_id + 1)))
    reach(NEVER)
    return answers


def look(driver, own=()):
    """Return the visible state of each book."""
    shown = []
    for _, book in sorted(driver.books.items()):
        for limit in (1, None):
            depth = book.depth(limit)
            shown += [(level.price, level.size) for level in (*depth.bids, *depth.asks)]
        shown += [book.best_bid, book.best_ask, book._best_of_others(OWN)]
        shown += [
            (one, book.ahead(one).size, book.order(one).remaining) for one in own if one in book
        ]
    return shown


def histories(driver):
    """Return the resting recorded orders of each book."""
    return {
        number: [
            (order.order_id, order.price, order.remaining // LOT_WEI) for order in book.orders()
        ]
        for number, book in driver.history.items()
    }


def check(rows, acts, policy, stop, has_fills, names=("compiled",)):
    """Compare both drivers, and history with and without own orders."""
    events = flow_of(rows, has_fills=has_fills)
    numbers = [0, 1]
    plain = PlainDriver(events, lot_wei=LOT_WEI, instruments=numbers, has_fills=has_fills)
    expected = play(plain, acts, policy, stop)
    stream = Stream(
        lambda: [events.copy()], lo=1, hi=99, lot_wei=LOT_WEI, has_fills=has_fills,
        instruments=[Instrument(number, "rain", "NO" if number else "YES") for number in numbers],
    )  # fmt: skip
    for name in names:
        for chunk in (1, 7, 4_096):
            fills = []
            driver = ShadowDriver(
                stream,
                chunk=chunk,
                book_class=books.load(name),
                sink=lambda played, fills=fills: fills.extend(played.fills.tolist()),
            )
            result = play(driver, acts, policy, stop)
            driver.close()
            for step, (mine, theirs) in enumerate(zip(result, expected, strict=True)):
                assert mine == theirs, (step, name, chunk)
            for book in driver.books.values():
                book.check()
            assert [(row[5], row[1], row[3], row[4]) for row in fills] == [
                (ts_ns, one, size, price) for ts_ns, _, one, size, price in plain.fills
            ]
            assert histories(driver) == {
                number: book.history() for number, book in plain.books.items()
            }
            alone = ShadowDriver(stream, chunk=chunk, book_class=books.load(name))
            alone.advance(NEVER, Stop.NO)
            for number, book in driver.history.items():
                assert book.state_hash() == alone.history[number].state_hash()


ALL = {
    "rows": flows(),
    "acts": st.lists(OWN_ACTS, max_size=14).map(lambda acts: sorted(acts, key=lambda a: a[0])),
    "policy": st.integers(0, 3),
    "stop": st.sampled_from(Stop),
    "has_fills": st.booleans(),
}


# An inconsistent recording: a post-only order with a fill.
POST_ONLY_THAT_TRADED = {
    "rows": [
        (Kind.LIMIT, 0, 46, 1, 0, 0, 0, 0, 0),
        (Kind.LIMIT, 0, 46, 1, 0, 0, 0, 0, 0),
        (Kind.LIMIT, 0, 46, 1, 0, 0, 0, 1, 1),
        (Kind.LIMIT, 0, 47, 3, 0, Flag.POST_ONLY, 3, 0, 0),
    ],
    "acts": [(0, Kind.LIMIT, 0, 46, 1, 0, 0), (0, Kind.LIMIT, 1, 46, 3, 0, 0)],
    "policy": 1,
    "stop": Stop.NO,
    "has_fills": True,
}


# A recording that begins after an order was placed: its replacement traded.
REPLACEMENT_OF_AN_UNKNOWN_ORDER = {
    "rows": [(Kind.REPLACE, 1, 46, 1, 0, 0, 3, 1, 1)],
    "acts": [(0, Kind.LIMIT, 0, 47, 1, 0, 1)],
    "policy": 0,
    "stop": Stop.NO,
    "has_fills": True,
}


@example(**POST_ONLY_THAT_TRADED)
@example(**REPLACEMENT_OF_AN_UNKNOWN_ORDER)
@settings(max_examples=120, deadline=None)
@given(**ALL)
def test_shadow_driver_equals_the_plain_driver(rows, acts, policy, stop, has_fills):
    check(rows, acts, policy, stop, has_fills)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(**ALL)
def test_shadow_driver_equals_the_plain_driver_over_both_books(rows, acts, policy, stop, has_fills):
    check(rows, acts, policy, stop, has_fills, books.BOOKS)


def test_empty_flow():
    check([], [], 0, Stop.NO, True)
    assert len(flow_of([], has_fills=True)) == 0
    assert flow_of([], has_fills=True).dtype == np.dtype(EVENT)
