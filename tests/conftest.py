"""The fixture that runs a test over both books."""

import pytest

from tests.books import BOOKS, load


@pytest.fixture(params=BOOKS)
def book_class(request):
    """The class Book, in plain Python and compiled; every test of a book takes it."""
    return load(request.param)
