"""What tests of the matcher share: both kinds of it, and short ways to write commands."""

import contextlib
import importlib
import importlib.util

import pytest

from clob import Market, Matcher, Order, RejectedError, SetBalance, Side, Submit

MATCHERS = ("python", "compiled")
"""The kinds of matcher, by the name the tests call them."""


def load(name):
    """Give the class of one kind of matcher; skip the test where it is not built."""
    ending = {"python": "py", "compiled": "c"}[name]
    if importlib.util.find_spec(f"clob._desk_{ending}") is None:
        pytest.skip(f"the {name} desk is not built")
    desk = importlib.import_module(f"clob._desk_{ending}").Desk
    book = importlib.import_module(f"clob._book_{ending}").Book

    class Kind(Matcher):
        """A matcher over this desk and this book."""

        def _make_desk(self):
            return desk(book)

    Kind.__qualname__ = Kind.__name__ = f"{name.capitalize()}Matcher"
    return Kind


def market(name="m", **fields):
    """Describe a market with the tokens ``m-yes`` and ``m-no``."""
    return Market(**({"id": name, "yes": f"{name}-yes", "no": f"{name}-no"} | fields))


def opened(matcher_class, *markets):
    """Make a matcher with these markets, or with one called ``m``."""
    matcher = matcher_class()
    for each in markets or (market(),):
        matcher.add_market(each)
    return matcher


def funded(matcher, wallets, amount, assets=("collateral", "m-yes", "m-no")):
    """Give every wallet so much of every asset."""
    for wallet in wallets:
        for asset in assets:
            matcher.apply(
                SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=matcher.now_ms)
            )
    return matcher


def buy(order_id, price, size, *, maker="B", token="m-yes", **fields):
    """Write a submission of a buy order to market ``m`` in one line."""
    return _submit(order_id, Side.BUY, price, size, maker, token, fields)


def sell(order_id, price, size, *, maker="S", token="m-yes", **fields):
    """Write a submission of a sell order to market ``m`` in one line."""
    return _submit(order_id, Side.SELL, price, size, maker, token, fields)


ENVELOPE = ("market", "now_ms", "client_id", "order_hash", "deadline_ms")


def _submit(order_id, side, price, size, maker, token, fields):
    outside = {"market": "m"} | {name: fields.pop(name) for name in ENVELOPE if name in fields}
    order = Order(
        id=order_id, token=token, maker=maker, side=side, price=price, size=size, **fields
    )
    return Submit(order=order, **outside)


@contextlib.contextmanager
def refused(matcher, error, *words):
    """Expect a refusal of exactly this class whose message has the words; nothing may change."""
    before = matcher.snapshot()
    with pytest.raises(RejectedError) as caught:
        yield caught
    assert type(caught.value) is error
    for word in words:
        assert str(word) in str(caught.value)
    assert matcher.snapshot() == before
    matcher.audit()
