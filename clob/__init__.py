"""An embeddable matching engine for prediction markets: commands in, events out.

The public names of the engine; :mod:`clob.replay` is imported by name. The matcher is imported
when it is first asked for, since those who need a book alone then begin in half the time.
"""

from typing import TYPE_CHECKING, Any

from clob import _build as _build  # first: it chooses how the others are imported
from clob.book import Book
from clob.commands import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    Command,
    Expire,
    Reduce,
    Replace,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Submit,
)
from clob.depth import Ahead, Depth, Level, Resting
from clob.errors import (
    BookBusyError,
    ClobError,
    FillsFullError,
    MatcherBusyError,
    RejectedError,
    RunRejectedError,
)
from clob.events import (
    Event,
    MatchType,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    PairedTrade,
    Rejected,
    RemovalReason,
    Trade,
)
from clob.market import Balance, Funds, Limits, Market, Mode
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.status import OrderRecord, OrderStatus
from clob.units import SIZE_MAX, format_tokens, tokens

if TYPE_CHECKING:
    from clob.matcher import Matcher, Replayed
else:

    def __getattr__(name: str) -> Any:
        """Import the matcher."""
        if name not in ("Matcher", "Replayed"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from clob import matcher  # noqa: PLC0415 - what this is for

        globals()[name] = found = getattr(matcher, name)
        return found


__version__ = "0.1.0"

__all__ = [
    "SIZE_MAX",
    "AddMarket",
    "Ahead",
    "Balance",
    "Batch",
    "Book",
    "BookBusyError",
    "Cancel",
    "CancelAll",
    "ClobError",
    "Command",
    "Depth",
    "Event",
    "Expire",
    "FillsFullError",
    "Funds",
    "Level",
    "Limits",
    "Market",
    "MatchType",
    "Matcher",
    "MatcherBusyError",
    "Mode",
    "Order",
    "OrderAdded",
    "OrderRecord",
    "OrderReduced",
    "OrderRemoved",
    "OrderStatus",
    "PairedTrade",
    "Reduce",
    "Rejected",
    "RejectedError",
    "RemovalReason",
    "Replace",
    "Replayed",
    "Resting",
    "RunRejectedError",
    "SelfTrade",
    "SetBalance",
    "SetLimits",
    "SetMarket",
    "SetMode",
    "SetNonce",
    "SettleFailed",
    "Settled",
    "Side",
    "Submit",
    "TimeInForce",
    "Trade",
    "format_tokens",
    "tokens",
]
