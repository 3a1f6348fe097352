"""Fixtures that run a test on both books, both kinds of matcher, or both signing backends."""

import pytest

from tests import books, matchers, signings


@pytest.fixture(params=books.BOOKS)
def book_class(request):
    """The class Book, in plain Python and compiled."""
    return books.load(request.param)


@pytest.fixture(params=matchers.MATCHERS)
def matcher_class(request):
    """The class Matcher, on the plain-Python engine and book and on the compiled ones."""
    return matchers.load(request.param)


@pytest.fixture(params=signings.BACKENDS)
def backend(request, monkeypatch):
    """The backend of ``clob.signing`` during the test, in plain Python and compiled."""
    return signings.use(monkeypatch, request.param)
