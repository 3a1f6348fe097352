"""The fixtures that run a test over both books, both kinds of matcher, or both backends."""

import pytest

from tests import books, matchers, signings


@pytest.fixture(params=books.BOOKS)
def book_class(request):
    """The class Book, in plain Python and compiled; every test of a book takes it."""
    return books.load(request.param)


@pytest.fixture(params=matchers.MATCHERS)
def matcher_class(request):
    """The class Matcher, over the plain-Python desk and book and over the compiled ones."""
    return matchers.load(request.param)


@pytest.fixture(params=signings.BACKENDS)
def backend(request, monkeypatch):
    """The backend of ``clob.signing``, in plain Python and compiled, while the test runs."""
    return signings.use(monkeypatch, request.param)
