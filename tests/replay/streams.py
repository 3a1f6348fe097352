"""Small streams for tests, written as rows."""

from clob.records import Kind
from clob.replay.io.streams import Instrument, Stream
from tests.books import batch, row

ONE = (Instrument(0, "m"),)
TWO = (Instrument(0, "m"), Instrument(1, "m", "NO"))


def stream_of(*rows, instruments=ONE, lot_wei=1, has_fills=True):
    """Make a stream of events."""
    events = batch(*rows)
    return Stream(
        lambda: [events.copy()],
        lo=1,
        hi=99,
        lot_wei=lot_wei,
        instruments=instruments,
        has_fills=has_fills,
    )


def filled(order_id, size, price, **fields):
    """Make a recorded fill."""
    return row(Kind.FILL, order_id, 0, price, size, **fields)


def best(side, price, size, **fields):
    """Make a recorded best price."""
    return row(Kind.BBO, 0, side, price, size, **fields)


def taker(order_id, side, price, size, **fields):
    """Make an ``IOC`` event."""
    return row(Kind.IOC, order_id, side, price, size, **fields)


def queue(book):
    """Return the resting orders as id, price and size: bids first, best first, oldest first."""
    return [
        (order.order_id, order.price, order.remaining // book.lot_wei) for order in book.orders()
    ]
