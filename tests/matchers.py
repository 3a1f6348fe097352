"""Shared by tests of the matcher: both kinds of it, and short constructors of commands."""

import contextlib
import functools
import importlib
import sys

import pytest

from clob import Market, Matcher, Order, RejectedError, SetBalance, Side, Submit, _build
from clob.matcher import compiled
from clob.matcher.handlers import HANDLERS

MATCHERS = ("python", "compiled")
"""The kinds of matcher, by their names in the tests."""


def load(name):
    """Return the Matcher class of one kind; skip the test if it is not built."""
    if name == "compiled" and not compiled.COMPILED:
        pytest.skip("the compiled matcher is not built")
    module = "clob.matcher.engine"
    if name == "compiled":
        engine = importlib.import_module(module).Engine
    else:
        engine = from_source(module).Engine
    book = importlib.import_module(f"clob.book._book_{'c' if name == 'compiled' else 'py'}").Book

    class Kind(Matcher):
        """A matcher over this engine and this book."""

        def _make_engine(self):
            return engine(book, HANDLERS)

    Kind.__qualname__ = Kind.__name__ = f"{name.capitalize()}Matcher"
    return Kind


@functools.cache
def from_source(name):
    """Import a module of :data:`clob._build.MODULES` from its Python source.

    The other modules of the set that it imports come from their source as well. What was imported
    before stays in use elsewhere.
    """
    before = {each: sys.modules[each] for each in _build.MODULES if each in sys.modules}
    _build.forget()
    sys.meta_path.insert(0, _build.SourceFinder)
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(_build.SourceFinder)
        _build.forget()
        for each, module in before.items():
            sys.modules[each] = module
            package, _, last = each.rpartition(".")
            setattr(sys.modules[package], last, module)


def market(name="m", **fields):
    """Return a market with the tokens ``m-yes`` and ``m-no``."""
    return Market(**({"id": name, "yes": f"{name}-yes", "no": f"{name}-no"} | fields))


def opened(matcher_class, *markets):
    """Return a matcher with these markets, or with one called ``m``."""
    matcher = matcher_class()
    for each in markets or (market(),):
        matcher.add_market(each)
    return matcher


def funded(matcher, wallets, amount, assets=("collateral", "m-yes", "m-no")):
    """Set the balance of every wallet in every asset."""
    for wallet in wallets:
        for asset in assets:
            matcher.apply(
                SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=matcher.now_ms)
            )
    return matcher


def buy(order_id, price, size, *, maker="B", token="m-yes", **fields):
    """Return a submission of a buy order to market ``m``."""
    return _submit(order_id, Side.BUY, price, size, maker, token, fields)


def sell(order_id, price, size, *, maker="S", token="m-yes", **fields):
    """Return a submission of a sell order to market ``m``."""
    return _submit(order_id, Side.SELL, price, size, maker, token, fields)


ENVELOPE = ("market", "now_ms", "client_id", "order_hash", "deadline_ms")


def _submit(order_id, side, price, size, maker, token, fields):
    outside = {"market": "m"} | {name: fields.pop(name) for name in ENVELOPE if name in fields}
    order = Order(
        id=order_id, token=token, maker=maker, side=side, price=price, size=size, **fields
    )
    return Submit(order=order, **outside)


@contextlib.contextmanager
def rejected(matcher, error, *words):
    """Expect a rejection of exactly this class whose message has the words, and no change."""
    before = matcher.snapshot()
    with pytest.raises(RejectedError) as caught:
        yield caught
    assert type(caught.value) is error
    for word in words:
        assert str(word) in str(caught.value)
    assert matcher.snapshot() == before
    matcher.audit()
