"""Hypothesis strategies for commands with few prices, ids and makers, so that orders match."""

from hypothesis import strategies as st

from clob import Order, SelfTrade, Side, TimeInForce
from clob.records import SELF_TRADE_SHIFT, Flag, Kind
from tests.flow import TOKEN

LO, HI = 48, 52
"""Lowest and highest price of the books for these commands."""

START_S = 1_000
"""Earliest expiration, in seconds."""

prices = st.integers(LO, HI)
lots = st.integers(1, 4) | st.sampled_from([1, 2, 9, 2**32])
makers = st.sampled_from(["owner:1", "owner:1", "", "0xA"])
numbers = st.integers(0, 9)
texts = st.sampled_from(["1", "2", "3", "a", "b", "é"])
ids = numbers | texts
policies = st.sampled_from([None, *SelfTrade])
pauses_ms = st.sampled_from([1, 999, 3_000, 6_000])


@st.composite
def orders(draw, lot_wei=1):
    """Draw a valid order."""
    tif = draw(st.sampled_from([TimeInForce.GTC, *TimeInForce]))
    never_rests = tif in (TimeInForce.IOC, TimeInForce.FOK)
    expirations = st.integers(START_S, START_S + 20)
    return Order(
        id=draw(ids),
        token=TOKEN,
        maker=draw(makers),
        side=draw(st.sampled_from(Side)),
        price=draw(prices),
        size=draw(lots) * lot_wei,
        time_in_force=tif,
        expiration_s=draw(expirations if tif is TimeInForce.GTD else st.just(0) | expirations),
        post_only=False if never_rests else draw(st.sampled_from([False, False, True])),
        self_trade=draw(policies),
    )


kinds = st.sampled_from(
    [Kind.LIMIT] * 6 + [Kind.CANCEL, Kind.REDUCE, Kind.IOC, Kind.REPLACE, Kind.SEED] * 2
    + [Kind.CLEAR, Kind.LEVEL, Kind.TRADE, 9, 255]
)  # fmt: skip
flags = st.builds(
    lambda policy, bits: policy << SELF_TRADE_SHIFT | bits,
    st.integers(0, 5),
    st.sampled_from([0, 0, 0, Flag.POST_ONLY, Flag.FOK, 3, Flag.SNAPSHOT, 4, 1 << 15]).map(int),
)


@st.composite
def rows(draw, kind=kinds):
    """Draw a record as a dict of its fields without times, sometimes invalid."""
    return {
        # A text is replaced by the number that its order has at that time.
        "order_id": draw(ids | numbers | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1])),
        "size": draw(lots | lots | st.sampled_from([0, -1, -(2**63), 2**63 - 1])),
        "owner": draw(st.sampled_from([0, 1, 1, 2, 2**31])),
        "price": draw(prices | prices | st.sampled_from([LO - 1, HI + 1, -(2**31)])),
        "kind": draw(kind),
        "side": draw(st.sampled_from([0, 0, 0, 1, 1, 1, 2])),
        "flags": draw(flags),
    }
