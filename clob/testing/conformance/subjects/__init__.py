"""The checks, one module per subject; importing this package registers them."""

from clob.testing.conformance.subjects import (
    book,
    cancel,
    create,
    feed,
    info,
    match,
    precedence,
    prices,
    reject,
    trades,
)

__all__ = [
    "book",
    "cancel",
    "create",
    "feed",
    "info",
    "match",
    "precedence",
    "prices",
    "reject",
    "trades",
]
