"""The compiled Book and its plain-Python twin have the same names and parameters."""

import inspect

import pytest

from clob.book import _book_py

_book_c = pytest.importorskip("clob.book._book_c")
SPECIAL = {"__contains__", "__copy__", "__len__", "__repr__", "_repr_html_"}


def surface(cls):
    return {name for name in dir(cls) if not name.startswith("_") or name in SPECIAL}


def parameters(function):
    values = inspect.signature(function).parameters.values()
    return [(p.name, p.default, p.kind) for p in values if p.name != "self"]


NAMES = sorted(surface(_book_py.Book))
METHODS = [name for name in NAMES if callable(getattr(_book_py.Book, name)) and name[0] != "_"]


def test_same_names():
    assert surface(_book_c.Book) == surface(_book_py.Book)


@pytest.mark.parametrize("name", METHODS)
def test_same_parameters(name):
    twin, compiled = getattr(_book_py.Book, name), getattr(_book_c.Book, name)
    assert parameters(compiled) == parameters(twin)


def test_same_parameters_of_the_constructor():
    # A compiled class has no signature, so each parameter is passed with its default and with
    # another value.
    defaults = {name: default for name, default, _ in parameters(_book_py.Book)}
    plain = _book_c.Book().state_hash()
    assert _book_c.Book(**defaults).state_hash() == plain == _book_py.Book().state_hash()
    others = {"lo": 2, "hi": 98, "token": "t", "lot_wei": 5, "capacity": 7, "market": "m"}
    assert list(others) == list(defaults)
    expected = _book_py.Book(**others).state_hash()
    assert _book_c.Book(**others).state_hash() == expected
    assert _book_c.Book(*others.values()).state_hash() == expected
    with pytest.raises(TypeError):
        _book_c.Book(*others.values(), 0)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SPECIAL])
@pytest.mark.parametrize("book", [_book_py.Book, _book_c.Book], ids=["python", "compiled"])
def test_documented(book, name):
    assert getattr(book, name).__doc__
