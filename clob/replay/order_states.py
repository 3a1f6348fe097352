"""What a strategy can have heard of one of its orders."""

from clob.order import Word


class OrderState(Word):
    """What a strategy has heard of one of its orders."""

    SENT = 0
    """Nothing yet."""
    RESTING = 1
    """It rests."""
    FILLED = 2
    """It was filled whole."""
    CANCELLED = 3
    """It left the book with something unfilled: cancelled, or the rest of one that never rests."""
    REFUSED = 4
    """It was refused."""
