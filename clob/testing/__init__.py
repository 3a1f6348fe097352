"""Tests of books, matchers, signatures and servers: strategies, a reference, vectors, checks.

Not imported by ``import clob``; needs ``pip install 'clob[testing]'``. The folder has these parts:

- ``strategies``: :func:`orders`, :func:`commands`, :func:`matcher_commands`;
- ``book_check``: :func:`check_book`, which compares a book with :class:`ReferenceBook`;
- ``vectors``: :func:`load_vectors`;
- ``conformance``: the command ``clob-conformance``, which checks a server.
"""

# ruff: noqa: E402 - the packages are checked before the imports that need them

from clob.errors import check_installed

check_installed("clob.testing", "testing", "hypothesis")

from clob.book._book_py import Book as ReferenceBook
from clob.testing.book_check import BookDiffersError, BookLike, apply, check_book, compare
from clob.testing.strategies import MARKET, BookCommand, commands, matcher_commands, orders
from clob.testing.vectors import (
    OrderVector,
    PriceVector,
    SignatureVector,
    Vectors,
    load_vectors,
)

__all__ = [
    "MARKET",
    "BookCommand",
    "BookDiffersError",
    "BookLike",
    "OrderVector",
    "PriceVector",
    "ReferenceBook",
    "SignatureVector",
    "Vectors",
    "apply",
    "check_book",
    "commands",
    "compare",
    "load_vectors",
    "matcher_commands",
    "orders",
]
