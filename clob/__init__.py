"""An embeddable matching engine for prediction markets: commands in, events out.

Import the public names of the engine from here, and :mod:`clob.replay` by its own name. Commands,
markets and the matcher are imported on first access, which halves the import time of programs that
use only a book.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clob import _build as _build  # first: it decides between compiled modules and source
from clob.book import Book
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
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.units import SIZE_MAX, format_tokens, tokens

if TYPE_CHECKING:
    from clob.commands import (
        AddMarket,
        Batch,
        Cancel,
        CancelAll,
        CancelSome,
        Command,
        Expire,
        Reduce,
        RemoveMarket,
        Reopen,
        ReopenedTrade,
        Replace,
        ResetClock,
        SetBalance,
        SetLimits,
        SetMarket,
        SetMode,
        SetNonce,
        Settled,
        SettleFailed,
        SpentHash,
        Submit,
    )
    from clob.market import Balance, Funds, Limits, Market, Mode
    from clob.matcher import Matcher, Replayed
    from clob.status import OrderRecord, OrderStatus
else:

    def __getattr__(name: str) -> Any:
        """Import the name on first access."""
        if name in __all__:
            for module in ("commands", "market", "status", "matcher"):
                names = vars(import_module(f"clob.{module}"))
                if name in names:
                    value = globals()[name] = names[name]
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.2.0"

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
    "CancelSome",
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
    "RemoveMarket",
    "Reopen",
    "ReopenedTrade",
    "Replace",
    "Replayed",
    "ResetClock",
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
    "SpentHash",
    "Submit",
    "TimeInForce",
    "Trade",
    "format_tokens",
    "tokens",
]
