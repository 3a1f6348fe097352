"""Hypothesis strategies for records with few prices, ids and makers; orders: ``clob.testing``."""

from hypothesis import strategies as st

from clob.records import SELF_TRADE_SHIFT, Flag, Kind
from clob.testing.strategies import HI, LO, ids, lots, prices

numbers = st.integers(0, 9)

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
