"""Tests; :mod:`tests.books` and :mod:`tests.matchers` have the shared helpers."""
