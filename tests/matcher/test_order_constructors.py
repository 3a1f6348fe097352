"""``Order.buy`` and ``Order.sell``: the same orders as those with all fields by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import Book, Order, SelfTrade, Side, TimeInForce
from clob.order import OrderFields

fields = st.fixed_dictionaries(
    {},
    optional={
        "token": st.text(max_size=3),
        "maker": st.text(max_size=3),
        "time_in_force": st.sampled_from(TimeInForce),
        "expiration_s": st.integers(0, 9),
        "post_only": st.booleans(),
        "self_trade": st.sampled_from(SelfTrade) | st.none(),
        "nonce": st.integers(0, 9),
        "collateral": st.integers(0, 9) | st.none(),
        "fee_rate_bps": st.integers(0, 9) | st.none(),
        "smart_wallet": st.text(max_size=3),
    },
)


@given(st.integers(), st.integers(), st.integers() | st.text(max_size=3), fields)
def test_short_form_equals_the_long_one(price, size, name, more):
    for side, made in ((Side.BUY, Order.buy), (Side.SELL, Order.sell)):
        rest = {"token": "", "maker": ""} | more
        expected = Order(id=name, side=side, price=price, size=size, **rest)
        assert made(price, size, id=name, **more) == expected


def test_every_other_field_has_a_keyword():
    named = {"id", "side", "price", "size", "token", "maker"}
    assert set(Order.__struct_fields__) - named == set(OrderFields.__annotations__)


def test_book_takes_short_orders():
    book = Book()
    book.submit(Order.sell(52, 40, id="a"))
    (trade, _) = book.submit(Order.buy(52, 40, id="b"))
    assert (trade.price, trade.size) == (52, 40)


@pytest.mark.parametrize("make", [Order.buy, Order.sell])
def test_unknown_and_missing_fields_are_rejected(make):
    with pytest.raises(TypeError, match="Unexpected keyword argument 'tif'"):
        make(50, 60, id="a", tif=TimeInForce.IOC)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'id'"):
        make(50, 60)
