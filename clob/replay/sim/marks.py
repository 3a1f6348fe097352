"""The rules by which open positions are valued, by name.

They are the one list that a backtest, the command line and the documents read.
"""

DEFAULT_MARK = "others-mid"
"""The rule of a backtest that names none."""

MARKS = {
    DEFAULT_MARK: "middle of the best prices of the book without own orders",
    "mid": "middle of the best prices of the book, own orders included",
    "bid": "price at which a position closes: best bid of others, or their best ask if tokens are "
    "owed",
    "last": "price of the last trade in the book",
}
"""The name and meaning of each rule. A book without the price keeps its last one; a position is
valued at its cost until there is one. A token without a book is worth the scale minus the other
token of its market."""


def check_mark(name: str) -> int:
    """Return the place of a rule in :data:`MARKS`.

    Args:
        name: one of its names.

    Raises:
        ValueError: there is no such rule.
    """
    if name not in MARKS:
        raise ValueError(f"mark must be one of {', '.join(MARKS)}; got {name!r}")
    return list(MARKS).index(name)


def check_step(equity_every_ns: int | None) -> None:
    """Raise ``ValueError`` for a step of equity rows that is no time above 0.

    Args:
        equity_every_ns: the step, in ns; None for none.
    """
    if equity_every_ns is None:
        return
    if type(equity_every_ns) is not int or equity_every_ns < 1:
        raise ValueError(
            f"equity_every_ns must be None or an integer of 1 or more; got {equity_every_ns!r}"
        )


EQUITY_EVERY_NS = 60 * 10**9
"""The default step of equity rows: a minute."""
