"""Properties of the shadow mode for any flow, as documented."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from clob.records import SELF_TRADE_SHIFT, Kind
from clob.replay.io.streams import OWN_ID, Instrument, Stream
from clob.replay.modes.rematch import StreamDriver
from clob.replay.modes.shadow import ShadowDriver
from clob.replay.sim.driver import NEVER, Stop
from tests.replay.modes.shadow_flows import KINDS, flow_of, flows

PLAIN_KINDS = tuple(kind for kind in KINDS if kind is not Kind.SEED)
NATURAL = flows(kinds=PLAIN_KINDS, flags=(0,), misread=(0,), books=1)
"""Flows in price-time priority, of orders without conditions."""
STEADY = flows(
    kinds=(Kind.LIMIT, Kind.LIMIT, Kind.IOC, Kind.CANCEL), flags=(0,), misread=(0,), books=1
)
"""Likewise, without orders that move or reuse an id."""

SENT = st.tuples(st.integers(0, 90), st.integers(0, 1), st.integers(46, 54), st.integers(1, 12))


def stream_of(events, *, has_fills=True):
    return Stream(
        lambda: [events.copy()],
        lo=1,
        hi=99,
        lot_wei=1,
        instruments=[Instrument(0, "")],
        has_fills=has_fills,
    )


def run(driver, sent, cancels=(), policy=0):
    """Send orders of time, side, price and size; return the own fills in order.

    Args:
        driver: executes the flow.
        sent: the orders.
        cancels: the time and number of each order to cancel.
        policy: the self-trade policy.
    """
    acts = [(ts_ns, number, order) for number, (ts_ns, *order) in enumerate(sent)]
    acts += [(ts_ns, number, None) for ts_ns, number in cancels]
    own_fills = []
    for ts_ns, number, order in sorted(acts, key=lambda act: act[0]):
        own_fills += driver.advance(ts_ns, Stop.NO)
        if order is None:
            driver.cancel(ts_ns, 0, OWN_ID + number)
            continue
        rejection, _, own = driver.submit(
            ts_ns, 0, OWN_ID + number, Kind.LIMIT, *order, policy << SELF_TRADE_SHIFT
        )
        assert not rejection
        own_fills += own
    return own_fills + driver.advance(NEVER, Stop.NO)


@settings(max_examples=300, deadline=None)
@given(rows=NATURAL, one=SENT, out=st.integers(0, 120), has_fills=st.booleans())
def test_order_of_one_lot_has_equal_fills_in_both_modes(rows, one, out, has_fills):
    events = flow_of(rows, has_fills=has_fills)
    one, cancels = (*one[:3], 1), [(max(out, one[0]), 0)]
    rematch, shadow = (
        run(kind(stream_of(events, has_fills=has_fills)), [one], cancels)
        for kind in (StreamDriver, ShadowDriver)
    )
    assert rematch == shadow


@settings(max_examples=200, deadline=None)
@given(rows=NATURAL, sent=st.lists(SENT, max_size=6))
def test_first_own_trade_is_equal_in_both_modes(rows, sent):
    events = flow_of(rows, has_fills=True)
    rematch, shadow = (
        run(kind(stream_of(events)), sent, policy=2) for kind in (StreamDriver, ShadowDriver)
    )
    first = [
        [
            fill
            for fill in fills
            if (fill.ts_ns, fill.other_id) == (fills[0].ts_ns, fills[0].other_id)
        ]
        for fills in (rematch, shadow)
        if fills
    ]
    assert bool(rematch) is bool(shadow)
    # In shadow mode a recorded order keeps its size, so it may trade again at that time.
    assert len(first) < 2 or first[0] == first[1][: len(first[0])]


@settings(max_examples=200, deadline=None)
@given(rows=STEADY, sent=st.lists(SENT, max_size=10))
def test_own_fills_never_exceed_the_recorded_volume(rows, sent):
    events = flow_of(rows, has_fills=True)
    whole = {}
    for order_id, size, kind in events[["order_id", "size", "kind"]].tolist():
        if kind in (Kind.LIMIT, Kind.IOC):
            # A repeated id is rejected.
            whole.setdefault(order_id, size)
    met = Counter()
    for fill in run(ShadowDriver(stream_of(events)), sent, policy=2):
        met[fill.other_id] += fill.size
    assert all(size <= whole[one] for one, size in met.items())


@settings(max_examples=200, deadline=None)
@given(rows=STEADY, one=SENT)
def test_own_order_trades_after_the_orders_in_front(rows, one):
    ts_ns, side, price, size = one
    driver = ShadowDriver(stream_of(flow_of(rows, has_fills=True)))
    driver.advance(ts_ns, Stop.NO)
    history = driver.history[0]
    before = [o for o in history.orders() if o.side == side and o.price == price]
    _, ahead, _ = driver.submit(ts_ns, 0, OWN_ID, Kind.LIMIT, side, price, size, 0)
    while ahead >= 0 and not driver.ended:
        if driver.advance(NEVER, Stop.FILL):
            assert not any(order.order_id in history for order in before)
            best = history.best_ask if side else history.best_bid
            assert best is None or (best >= price if side else best <= price)
            return
