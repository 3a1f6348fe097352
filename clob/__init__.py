"""An embeddable order book for prediction markets: commands in, events out.

The public names of the engine; :mod:`clob.replay` is imported by name.
"""

from clob.book import Book
from clob.commands import Cancel, Command, Reduce, Replace, Submit
from clob.depth import Ahead, Depth, Level, Resting
from clob.errors import (
    BookBusy,
    ClobError,
    FillsFull,
    RejectedError,
    RunRefused,
)
from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.units import SIZE_MAX, format_tokens, tokens

__version__ = "0.1.0"

__all__ = [
    "SIZE_MAX",
    "Ahead",
    "Book",
    "BookBusy",
    "Cancel",
    "ClobError",
    "Command",
    "Depth",
    "Event",
    "FillsFull",
    "Level",
    "Order",
    "OrderAdded",
    "OrderReduced",
    "OrderRemoved",
    "Reduce",
    "RejectedError",
    "RemovalReason",
    "Replace",
    "Resting",
    "RunRefused",
    "SelfTrade",
    "Side",
    "Submit",
    "TimeInForce",
    "Trade",
    "format_tokens",
    "tokens",
]
