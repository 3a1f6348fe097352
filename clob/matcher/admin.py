"""Execution of commands about markets: add one, change its terms or mode, change the limits."""

from typing import TYPE_CHECKING

import msgspec

from clob.commands import AddMarket, SetLimits, SetMarket, SetMode
from clob.events import Event, OrderRemoved, RemovalReason
from clob.market import Mode
from clob.matcher import complementary

if TYPE_CHECKING:
    from clob.matcher.engine import Engine


def add_market(engine: "Engine", command: AddMarket, now_ms: int) -> list[Event]:
    """Add a market."""
    engine.open_market(command.market)
    return []


def set_market(engine: "Engine", command: SetMarket, now_ms: int) -> list[Event]:
    """Change the terms of a market, and set its NO token if it had none."""
    market = command.market
    market_state = engine.markets[market.id]
    if market.no != market_state.market.no:
        engine.name_no(market)
    market_state.set_terms(market)
    return []


def set_mode(engine: "Engine", command: SetMode, now_ms: int) -> list[Event]:
    """Change the mode of a market; resolving it removes every order."""
    market_state = engine.markets[command.market]
    market_state.set_terms(msgspec.structs.replace(market_state.market, mode=command.mode))
    if command.mode is not Mode.RESOLVED:
        return []
    events: list[Event] = []
    yes, no = market_state.yes_book, market_state.no_book
    for book in (yes,) if market_state.complementary else (yes, no):
        market_state.move_seq(book)
        events += book.clear(RemovalReason.MARKET)
    if market_state.complementary:
        complementary.convert_events(engine.entries, market_state, events, True)
    for event in events:
        if isinstance(event, OrderRemoved):
            engine.finish(engine.entries[event.order_id], event.reason)
    return events


def set_limits(engine: "Engine", command: SetLimits, now_ms: int) -> list[Event]:
    """Change the limits."""
    engine.set_limits(command.limits)
    return []
