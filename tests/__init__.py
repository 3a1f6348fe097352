"""The tests; what they share is in :mod:`tests.books`."""
